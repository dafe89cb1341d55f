# SPDX-License-Identifier: MIT OR Apache-2.0
"""Places of `jifl probe` in a function that another tool has, too, whichever comes or goes first.

usage: coexist.py FENTRY

The function is do_getpgid, which nobody here calls but this process. Each tool and a session have it
at the same time, in both orders, and each of them goes first once. Both must have the hits of all
calls made meanwhile, or the later one is refused. Then the function's text is byte for byte as it
was. At the end that is asked of all text.

A live patch has cmdline_proc_show: that is what the module jifl_livepatch replaces.
"""

import ctypes
import errno
import fcntl
import os
import re
import struct
from pathlib import Path

from actions import Bpf
from contexts import FILE, MODULE, call
from lib import check, complaints, figure, is_loaded, kernel_log, log_mark, main, run, same, settled, status
from probe import Graphs, by_place, outcome, probe, texts
from text_changes import CALLS, HAS_BTF, MINE, TRACING, append, detach, fentry, hits, must, patched, remove, show_cmdline

FUNCTION, SHOWN = "do_getpgid", "cmdline_proc_show"
NOBODY = 9999999
INSPECT = Path(MODULE).with_name("jifl_inspect.ko")
TEXT = Path("/proc/jifl_text")


def work():
    """Calls of FUNCTION, half of which take the branch at its beginning."""
    for _ in range(CALLS):
        os.getpgid(0)
        try:
            os.getpgid(NOBODY)
        except ProcessLookupError:
            pass
    return 2 * CALLS


# --- the tools ---------------------------------------------------------------------------------


class Event:
    """A kprobe event, or one of a return."""

    refused = None

    def __init__(self, definition):
        self.definition = definition

    def start(self):
        same(f"{self.definition!r}", append(TRACING / "kprobe_events", self.definition + "\n"), "")
        must(TRACING / "events/coexist/at/enable", "1")

    def stop(self):
        """Its hits."""
        lines = (line.split() for line in (TRACING / "kprobe_profile").read_text().splitlines())
        found, missed = {name: (int(number), int(lost)) for name, number, lost in lines}["at"]
        same(f"{self.definition!r}: missed", missed, 0)
        must(TRACING / "events/coexist/at/enable", "0")
        same(f"{self.definition!r} goes", append(TRACING / "kprobe_events", "-:coexist/at\n"), "")
        return found


class Tracer:
    """The function tracer, or that of graphs."""

    refused = None

    def __init__(self, name):
        self.name, self.tracing = name, MINE if name == "function" else TRACING

    def start(self):
        must(self.tracing / "trace", "")
        must(self.tracing / "set_ftrace_filter", FUNCTION)
        must(self.tracing / "current_tracer", self.name)

    def found(self):
        if self.name == "function":
            return hits(FUNCTION)
        must(TRACING / "tracing_on", "0")
        text = (TRACING / "trace").read_text(errors="replace")
        must(TRACING / "tracing_on", "1")
        return len(re.findall(rf"-{os.getpid()} .*{FUNCTION}\(\);", text))

    def stop(self):
        found = self.found()
        must(self.tracing / "current_tracer", "nop")
        must(self.tracing / "set_ftrace_filter", "")
        return found


class Trampoline:
    """A BPF program at the function's entry or exit. While a session has the site there can be none."""

    refused = errno.EBUSY

    def __init__(self, program, where):
        self.program, self.where, self.process = program, where, None

    def start(self):
        self.process = fentry(self.program, FUNCTION, self.where)
        return self.process if isinstance(self.process, int) else None

    def stop(self):
        return detach(self.process)


class BpfKprobe:
    """A BPF program at a kprobe of its own, as a loader makes it by perf_event_open."""

    refused = None
    SET_BPF, ENABLE, PERF_EVENT_OPEN = 0x40042408, 0x2400, 298

    def __init__(self, offset):
        self.offset, self.program, self.event = offset, None, -1

    def start(self):
        self.program = Bpf()
        kind = int(Path("/sys/bus/event_source/devices/kprobe/type").read_text())
        name = ctypes.create_string_buffer(FUNCTION.encode())
        attr = struct.pack("<IIQQQQQIIQQ", kind, 112, 0, 1, 0, 0, 0, 0, 0, ctypes.addressof(name), self.offset).ljust(112, b"\0")
        self.event = self.program.libc.syscall(self.PERF_EVENT_OPEN, ctypes.create_string_buffer(attr, 112), -1, 0, -1, 0)
        check("a kprobe for BPF", self.event >= 0, os.strerror(ctypes.get_errno()))
        fcntl.ioctl(self.event, self.SET_BPF, self.program.prog)
        fcntl.ioctl(self.event, self.ENABLE, 0)

    def stop(self):
        os.close(self.event)
        found, _ = self.program.read()
        self.program.close()
        return found


# --- both ----------------------------------------------------------------------------------------


class Places:
    """The places of a session: how often a call executes each, and their text."""

    def __init__(self, graphs):
        every = graphs.instructions(FUNCTION)
        branch = graphs.branches(FUNCTION)[0]
        # Behind the site, and before the first branch, so each call executes them.
        self.middle, self.next = (place for place, _ in every[2:4])
        check("both are before the branch", int(self.next, 16) <= int(branch, 16), every[:6])
        self.words = {f"fn:{FUNCTION}": 1, f"fn:{FUNCTION}{self.middle}": 1, f"fn:{FUNCTION}{branch}:taken": 0.5,
                      f"fn:{FUNCTION}%return": 1}
        self.graphs, self.text = graphs, texts(graphs)

    def are_as_before(self, name):
        """The kernel takes jumps of kprobes away a moment after their end."""
        same(f"{name}: the text is as it was", settled(lambda: texts(self.graphs), lambda now: now == self.text), self.text)

    def wanted(self, words, made):
        return {word: int(self.words[word] * made) for word in words}


def both(name, tool, places, probe_first, tool_goes_first, hides=False, without=()):
    """A session and the tool; both see the calls that are made while they are there.

    hides: a tool that comes later is told of what is executed natively alone. without: places that
    a session cannot have where the tool was first.
    """
    name = f"{name}, {'second' if probe_first else 'first'} to come, {'first' if tool_goes_first else 'second'} to go"
    words = [word for word in places.words if probe_first or word not in without]
    ours = theirs = 0
    if probe_first:
        owner = probe(*words)
        ours += work()
    refused = tool.start()
    if probe_first and tool.refused:
        same(f"{name}: refused", errno.errorcode.get(refused), errno.errorcode[tool.refused])
        owners = re.search(rf"^{FUNCTION} .*\n(\s.*\n)*", (TRACING / "enabled_functions").read_text(), re.M)[0]
        check(f"{name}: the kernel says who has the site", "jifl" in owners, owners)
        ours += work()
    else:
        same(f"{name}: it starts", refused, None)
        if not probe_first:
            theirs += work()
            owner = probe(*words)
        made = work()
        ours += made
        theirs += 0 if probe_first and hides else made
        if tool_goes_first:
            same(f"{name}: its hits", tool.stop(), theirs)
            ours += work()
    # Threads that met a breakpoint natively went on in copies, or not: both count.
    data = outcome(owner, name)
    same(f"{name}: missed", data["missed"], 0)
    same(f"{name}: hits", by_place(data)[0], places.wanted(words, ours))
    if not tool_goes_first and not (probe_first and tool.refused):
        theirs += work()
        same(f"{name}: its hits", tool.stop(), theirs)
    places.are_as_before(name)


def in_each_order(name, tool, places, **options):
    for probe_first in (False, True):
        for tool_goes_first in (True, False):
            both(name, tool, places, probe_first, tool_goes_first, **options)


def is_refused(name, place, *hints):
    end = run("jifl", "probe", place, "--for", "100ms")
    check(f"{name}: {place} is refused", end.returncode == 1 and end.stderr.count("\n") == 1 and
          all(hint in end.stderr for hint in hints), end)


def behind_a_program(fentry_program):
    """The entry of a function that begins with endbr64, where the kernel has these."""
    process = fentry(fentry_program, SHOWN, "entry")
    owner = probe(f"fn:{SHOWN}")
    show_cmdline()
    data = outcome(owner, "behind a program")
    same("behind a program: hits, missed", (by_place(data)[0], data["missed"]), ({f"fn:{SHOWN}": CALLS}, 0))
    same("behind a program: its hits", detach(process), CALLS)


def behind_a_program_with_places(fentry_program, places):
    """The entry behind a program, while breakpoints hide instructions elsewhere in the function."""
    middle, later = (f"fn:{FUNCTION}{place}" for place in (places.middle, places.next))
    event = Event(f"p:coexist/at {later[3:]}")
    for name, others in (("a kprobe", (event, None)), ("a session", (None, later)), ("both", (event, middle))):
        for word in (f"fn:{FUNCTION}", f"fn:{FUNCTION[:-1]}?"):
            name_ = f"{word}, behind a program and {name}"
            process = fentry(fentry_program, FUNCTION, "entry")
            kprobe, other = others
            if kprobe:
                kprobe.start()
            session = probe(other) if other else None
            owner = probe(word)
            made = work()
            data = outcome(owner, name_)
            same(f"{name_}: hits, missed", (by_place(data)[0], data["missed"]), ({word: made}, 0))
            if session:
                same(f"{name_}: the other's hits", by_place(outcome(session, name_))[0], {other: made})
            if kprobe:
                same(f"{name_}: its hits", kprobe.stop(), made)
            same(f"{name_}: the program's", detach(process), made)
            places.are_as_before(name_)


def with_a_livepatch(graphs):
    """A session has the site, so there is no live patch; where there is one no session has the function."""
    if not Path("/sys/kernel/livepatch").exists():
        return
    before = texts(graphs)
    words = [f"fn:{SHOWN}", f"fn:{SHOWN}{graphs.instructions(SHOWN)[2][0]}", f"fn:{SHOWN}%return"]
    for word in words:
        owner = probe(word)
        show_cmdline()
        end = run("insmod", Path(MODULE).with_name("jifl_livepatch.ko"))
        check(f"{word} first: a live patch is refused", end.returncode != 0 and not is_loaded("jifl_livepatch"), end)
        show_cmdline()
        hits_, _ = by_place(outcome(owner, word))
        # insmod reads the command line, too.
        check(f"{word} first: hits", hits_[word] >= 2 * CALLS, hits_)
    with patched("jifl_livepatch"):
        for word in words:
            is_refused("a live patch is first", word, "a live patch")
        same("the live patch takes effect", Path("/proc/cmdline").read_text(), "patched\n")
    remove("jifl_livepatch")
    same("a live patch: the text is as it was", texts(graphs), before)
    owner = probe(*words)
    show_cmdline()
    same("after a live patch: hits", by_place(outcome(owner, "after a live patch"))[0], dict.fromkeys(words, CALLS))


# --- modules ---------------------------------------------------------------------------------------


def modules_stay(graphs):
    """Neither the module of the places nor JIFL's own goes while a session runs, and the session goes on."""
    places = [f"fn:contexts_work{graphs.instructions('contexts_work')[2][0]}", "fn:contexts_work%return", "fn:contexts_work"]
    owner = probe(*places)
    made = sum(call("task").values())
    for module in ("jifl_contexts", "jifl"):
        end = run("rmmod", module)
        check(f"{module} stays", end.returncode == 1 and "in use" in end.stderr and is_loaded(module), end)
    made += sum(call("timer").values())
    same("hits", by_place(outcome(owner, "modules that stay"))[0], dict.fromkeys(places, made))
    # Somebody else's kprobe does not hold its module.
    same("a kprobe", append(TRACING / "kprobe_events", f"p:coexist/at jifl_contexts:{places[0][3:]}\n"), "")
    must(TRACING / "events/coexist/at/enable", "1")
    owner = probe(places[0])
    made = sum(call("task").values())
    check("with a kprobe, too, it stays", run("rmmod", "jifl_contexts").returncode == 1 and Path(FILE).exists())
    same("beside the kprobe: hits", by_place(outcome(owner, "beside the kprobe"))[0], {places[0]: made})
    must(TRACING / "events/coexist/at/enable", "0")
    same("the kprobe goes", append(TRACING / "kprobe_events", "-:coexist/at\n"), "")


# --- the whole ---------------------------------------------------------------------------------------


def coexist(fentry_program):
    mark = log_mark()
    for module in (MODULE, INSPECT):
        same(f"{module} comes", run("insmod", module).returncode, 0)
    if not os.path.ismount("/sys/fs/bpf"):
        same("the BPF file system", run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf").returncode, 0)
    os.mkdir(MINE)
    must(TRACING / "options/funcgraph-proc", "1")
    graphs = Graphs(f"fn:{FUNCTION}", f"fn:{SHOWN}", "fn:contexts_work")
    places = Places(graphs)
    work()
    TEXT.write_text("copy")
    at = f"{FUNCTION}{places.middle}"
    returns = [f"fn:{FUNCTION}%return"]
    tools = [("a kprobe at the entry", Event(f"p:coexist/at {FUNCTION}"), {}),
             ("a kprobe at the same instruction", Event(f"p:coexist/at {at}"), {"hides": True, "without": returns}),
             ("a kprobe at the next one", Event(f"p:coexist/at {FUNCTION}{places.next}"), {"without": returns}),
             ("a kretprobe", Event(f"r50:coexist/at {FUNCTION}"), {}),
             ("the function tracer", Tracer("function"), {}),
             ("the graph tracer", Tracer("function_graph"), {}),
             ("BPF at a kprobe", BpfKprobe(int(places.next, 16)), {"without": returns})]
    if HAS_BTF:
        tools += [(f"BPF's f{where}", Trampoline(fentry_program, where), {}) for where in ("entry", "exit")]
    for name, tool, options in tools:
        in_each_order(name, tool, places, **options)
    if HAS_BTF:
        behind_a_program(fentry_program)
        behind_a_program_with_places(fentry_program, places)
    with_a_livepatch(graphs)
    modules_stay(graphs)
    same("no session is left", status()["sessions"], [])
    text = settled(TEXT.read_text, lambda now: now.endswith("differing 0\n"))
    check("all text is as it was", text.startswith("parts ") and text.endswith("differing 0\n"), text)
    figure("text", text.strip().splitlines()[-1])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("JIFL goes", run("rmmod", "jifl").returncode, 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(coexist)
