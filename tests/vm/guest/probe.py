# SPDX-License-Identifier: MIT OR Apache-2.0
"""Places in functions (jifl probe): each execution counts, in each context, in copies and natively.

usage: probe.py ROUNDS

What is right is known from the module jifl_contexts, from kprobes at the same places, from
`jifl branch` and from `jifl count`.
"""

import errno
import json
import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

from contexts import CALLS_ON, CONTEXTS, DEPTH, FILE, MODULE, N, call, calls, end_callers
from kcore import kernel_memory
from lib import SLOWNESS, Device, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, report, run, same, session
from lib import status, wait_for

TRACING = Path("/sys/kernel/tracing")
SWITCH = Path("/sys/kernel/debug/kprobes/enabled")
# Sessions with more places have breakpoints of the module's own.
OWN = Path("/sys/module/jifl/parameters/own_breakpoints")
JUMPS = Path("/sys/module/jifl/parameters/jumps")
# Of MODULE: a static key of contexts_held.
KEY = Path("/sys/module/jifl_contexts/parameters/key")
# A module with a function of the name contexts_work, which has a cold part.
NAMESAKE = Path(MODULE).with_name("jifl_figures.ko")
# The functions of MODULE.
SOURCE = Path(__file__).parents[1] / "modules/contexts.h"
# contexts_work goes round its loop so often in a call.
ROUNDS = 3
NOBODY = 9999999
# The module calls it where a thread has met a breakpoint.
CALLED = "kallsyms_lookup_size_offset"
# Idle tasks call it, whenever they go round their loop.
IDLE = "tick_nohz_idle_enter"
# It warns.
WARNING = "refcount_warn_saturate"

INTERRUPTS = {"softirqs": ["timer", "tasklet"], "interrupts": ["hrtimer", "irq-work", "ipi", "nested"]}
LEVELS = {"tasks": [context for context in CONTEXTS if context not in sum(INTERRUPTS.values(), [])], **INTERRUPTS}


class Graphs:
    """Functions as `jifl cfg` has them."""

    def __init__(self, *patterns):
        self.all = {}
        end = run("jifl", "cfg", *patterns, "-f", "json")
        check("jifl cfg", end.returncode == 0, end)
        for one in json.loads(end.stdout)["functions"]:
            self.all[one["function"]] = one

    def instructions(self, function):
        """(place, text) of each instruction of the function's first piece, in order."""
        blocks = self.all[function]["blocks"]
        every = [(one["place"], one["text"]) for block in blocks for one in block["instructions"]]
        return sorted((one for one in every if one[0].startswith("+")), key=lambda one: int(one[0], 16))

    def branches(self, function):
        """Places of branches on a condition that stay in the function."""
        return [block["instructions"][-1]["place"] for block in self.all[function]["blocks"]
                if block["end"] == "branch" and block["place"].startswith("+")]


def probe(*words):
    """A session that counts these places."""
    return session(*words, "-f", "json", command="probe")


def outcome(owner, name):
    """What a session says that ends now, and that was told of all."""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    check(f"{name}: a report", out, err)
    data = json.loads(out)
    same(f"{name}: incomplete, switched off", (data["incomplete"], data["switched_off"]), (0, 0))
    return data


def by_place(data):
    """Hits, and how many a breakpoint caught, by word."""
    return {row["place"]: row["hits"] for row in data["places"]}, {row["place"]: row["caught"] for row in data["places"]}


def ended(owner, name, moved=0, missed=0):
    """The same of a session that ends now. So many threads were led into the cache."""
    data = outcome(owner, name)
    same(f"{name}: moved, missed", (data["moved"], data["missed"]), (moved, missed))
    return by_place(data)


class Kprobes:
    """Kprobes at places, as `function+0x10`, which count their hits."""

    def __init__(self, *places):
        self.places = places
        lines = (f"p:jifl/at_{index} {self.module(place)}{place}\n" for index, place in enumerate(places))
        (TRACING / "kprobe_events").write_text("".join(lines))
        for index in range(len(places)):
            (TRACING / f"events/jifl/at_{index}/enable").write_text("1")

    @staticmethod
    def module(place):
        return "jifl_contexts:" if place.startswith("contexts_") else ""

    def hits(self):
        """Hits by place; none may be missed."""
        lines = (line.split() for line in (TRACING / "kprobe_profile").read_text().splitlines())
        found = {name: (int(hits), int(missed)) for name, hits, missed in lines}
        found = [found[f"at_{index}"] for index in range(len(self.places))]
        same("no kprobe misses a hit", sum(missed for _, missed in found), 0)
        return {place: hits for place, (hits, _) in zip(self.places, found)}

    def clear(self):
        for index in range(len(self.places)):
            (TRACING / f"events/jifl/at_{index}/enable").write_text("0")
        (TRACING / "kprobe_events").write_text("")


class Hook:
    """A kprobe at contexts_bare, of MODULE."""

    def __init__(self):
        Path(FILE).write_text("hook 10")
        self.before = self.hits()

    def hits(self):
        return calls("hooked")["task"] - getattr(self, "before", 0)

    def clear(self):
        Path(FILE).write_text("unhook 10")


def loop_of_work(graphs):
    """The place of the loop's first instruction in contexts_work, and of its branch."""
    branch, = graphs.branches("contexts_work")
    back = [text for place, text in graphs.instructions("contexts_work") if place == branch][0]
    return re.search(r"(\+0x[0-9a-f]+)$", back)[1], branch


def each_context(graphs):
    """Entries, instructions in the middle, ways of a branch and returns, at each level."""
    loop, branch = loop_of_work(graphs)
    for level, contexts in LEVELS.items():
        words = {f"fn:contexts_work{loop}": ("contexts_work", ROUNDS), f"fn:contexts_work{branch}": ("contexts_work", ROUNDS),
                 f"fn:contexts_work{branch}:taken": ("contexts_work", ROUNDS - 1),
                 f"fn:contexts_work{branch}:not-taken": ("contexts_work", 1)}
        for function in {CONTEXTS[context].get("function", "contexts_work") for context in contexts} | {"contexts_work"}:
            # Behind an endbr64, if there is one, and the site.
            third = graphs.instructions(function)[:3][-1][0]
            words |= {f"fn:{function}{place}": (function, 1) for place in ("", third, "%return")}
        owner = probe(*words)
        made = Counter()
        for context in contexts:
            number = sum(call(context).values())
            # The other functions call contexts_work once, or jump there.
            made.update({CONTEXTS[context].get("function", "contexts_work"): number, "contexts_work": number}
                        if "function" in CONTEXTS[context] else {"contexts_work": number})
        check(f"{level}: the module made calls", made.total() >= N * len(contexts), made)
        hits, caught = ended(owner, level)
        same(f"{level}: hits", hits, {word: times * made[function] for word, (function, times) in words.items()})
        same(f"{level}: none came natively", sum(caught.values()), 0)


def ways(graphs, function, words):
    """A kernel function's branches go as `jifl branch` says; its calls are `jifl count`'s."""
    places = graphs.branches(function)
    check(f"{function} has branches", places)
    asked = [f"fn:{function}", f"fn:{function}%return"]
    asked += [f"fn:{function}{place}:{way}" for place in places for way in ("taken", "not-taken")]
    counter = session("call", f"fn:{function}", "--only", "-f", "json")
    owner = probe(*asked)
    words()
    hits, caught = ended(owner, function)
    made = json.loads(interrupt(counter)[0])["targets"][0]["calls"]
    same(f"{function}: entries and returns", (hits[asked[0]], hits[asked[1]], sum(caught.values())), (made, made, 0))
    owner = session(f"fn:{function}", "--only", "-p", os.getpid(), "-f", "json", "--limit", "100", command="branch")
    words()
    branches = json.loads(interrupt(owner)[0])["branches"]
    known = {one["site"].removeprefix(function): (one["taken"], one["not_taken"]) for one in branches}
    got = {place: (hits[f"fn:{function}{place}:taken"], hits[f"fn:{function}{place}:not-taken"]) for place in places}
    executed = {place: pair for place, pair in got.items() if sum(pair)}
    same(f"{function}: branches", executed, {place: pair for place, pair in known.items() if place in places})
    check(f"{function}: some go both ways, or several are executed", len(executed) >= 1, executed)


def ask():
    for _ in range(N):
        os.getpgid(os.getpid())
        try:
            os.getpgid(NOBODY)
        except ProcessLookupError:
            pass


def natively(graphs):
    """What a kprobe makes native is caught at each level.

    A task is caught once a call, and goes on in the cache.
    """
    loop, branch = loop_of_work(graphs)
    early = graphs.instructions("contexts_work")[1][0]
    # Where a kprobe stands, the returns are not known.
    words = [f"fn:contexts_work{loop}", f"fn:contexts_work{branch}:taken", f"fn:contexts_work{branch}:not-taken",
             f"fn:contexts_work{graphs.instructions('contexts_work')[-1][0]}", "fn:contexts_work"]
    for before in (True, False):
        for context in ("task", "timer", "ipi"):
            name = f"{context}, a kprobe {'before' if before else 'after'} the session"
            kprobes = Kprobes(f"contexts_work{early}") if before else None
            owner = probe(*words)
            kprobes = kprobes or Kprobes(f"contexts_work{early}")
            made = sum(call(context).values())
            out, _ = interrupt(owner)
            data = json.loads(out)
            hits = {row["place"]: row["hits"] for row in data["places"]}
            same(f"{name}: hits", [hits[word] for word in words],
                 [ROUNDS * made, (ROUNDS - 1) * made, made, made, made])
            same(f"{name}: hits of the kprobe", kprobes.hits(), {f"contexts_work{early}": made})
            caught = data["places"][0]["caught"]
            check(f"{name}: all came natively", caught >= made, data)
            # Where a task was caught, the copy is there from then on.
            if context == "task":
                same(f"{name}: each is caught once", (caught, data["moved"], data["missed"]), (made, made, 0))
            kprobes.clear()


def without_a_door(graphs):
    """A function that no tracer can have is entered by a jump in place: nobody is caught, at any level."""
    branch, = graphs.branches("contexts_bare")
    every = graphs.instructions("contexts_bare")
    loop = re.search(r"(\+0x[0-9a-f]+)$", [text for place, text in every if place == branch][0])[1]
    times = {f"fn:contexts_bare{loop}": ROUNDS, f"fn:contexts_bare{branch}:taken": ROUNDS - 1,
             f"fn:contexts_bare{branch}:not-taken": 1, "fn:contexts_bare": 1, "fn:contexts_bare%return": 1}
    owner = probe(*times)
    made = {context: sum(call(context).values()) for context in ("bare-task", "bare-timer", "bare-irq-work")}
    hits, caught = ended(owner, "a jump in place")
    same("a jump in place: hits", hits, {word: number * sum(made.values()) for word, number in times.items()})
    same("a jump in place: caught", caught, dict.fromkeys(times, 0))
    # Where a kprobe stands when the session comes there is no jump: each call is caught once.
    hook = Hook()
    # With a kprobe in the function its returns are not known.
    del times["fn:contexts_bare"], times["fn:contexts_bare%return"]
    times[f"fn:contexts_bare{every[-1][0]}"] = 1
    owner = probe(*times)
    # The task goes first: it makes the blocks, into which interrupts are led then.
    made = {context: sum(call(context).values()) for context in ("bare-task", "bare-timer", "bare-irq-work")}
    data = outcome(owner, "without a door")
    hits, caught = by_place(data)
    # An interrupt that comes while the module's own code runs stays native.
    natively = sum(made.values()) - data["moved"]
    check("without a door: interrupts are led, too", data["moved"] > made["bare-task"] and not data["missed"], data)
    same("without a door: hits", hits, {word: number * sum(made.values()) for word, number in times.items()})
    same("without a door: hits of the kprobe", hook.hits(), sum(made.values()))
    hook.clear()
    # Of a branch, its ways are one place.
    met = Counter(times) | Counter({f"fn:contexts_bare{branch}:{way}": ROUNDS for way in ("taken", "not-taken")})
    wanted = {word: met[word] * natively for word in times}
    wanted[f"fn:contexts_bare{loop}"] += data["moved"]
    same("without a door: caught", caught, wanted)
    del times[f"fn:contexts_bare{every[-1][0]}"]
    times |= {"fn:contexts_bare": 1, "fn:contexts_bare%return": 1}
    # A copy that another session runs counts, and nobody is caught.
    other = session("insn", "sys:write", "-p", os.getpid(), "-f", "json")
    call("bare-task")
    owner = probe(*times)
    made = sum(call("bare-task").values())
    hits, caught = ended(owner, "without a door, in copies")
    interrupt(other)
    same("without a door, in copies: hits", hits, {word: number * made for word, number in times.items()})
    same("without a door, in copies: none natively", sum(caught.values()), 0)


def jumps(rounds):
    """A jump comes only when nobody stands between the instructions beneath, and not where a branch leads there."""
    caller = background("/usr/bin/python3", "-c", f"while True: open({FILE!r}, 'w').write('slow 10')")
    for round_ in range(4 * rounds):
        end = run("jifl", "probe", "fn:contexts_slow", "--for", "500ms", "-f", "json")
        if not check(f"a jump over a slow instruction, round {round_}", end.returncode == 0, end):
            break
        data = json.loads(end.stdout)
        row, = data["places"]
        # The call that was behind the stub when the session began is caught in the gate. There is one caller.
        check(f"round {round_}: calls by the jump", row["hits"] > row["caught"] and row["caught"] <= 1 and not data["missed"], data)
    check("the caller runs on", caller.poll() is None, caller)
    caller.kill()
    caller.communicate()
    calls("slow")
    owner = probe("fn:contexts_looped")
    made = sum(call("looped").values())
    hits, caught = ended(owner, "a branch to the second instruction", moved=made)
    same("a branch to the second instruction: each call is caught", (hits, caught),
         ({"fn:contexts_looped": made}, {"fn:contexts_looped": made}))


def beside_own(graphs):
    """A session with a jump over one function, and the module's own int3s in it and in another, at each level.

    Without jumps the same function has the module's own int3s alone.
    """
    loop, _ = loop_of_work(graphs)
    every = graphs.instructions("contexts_bare")
    branch, = graphs.branches("contexts_bare")
    bare = ["fn:contexts_bare", f"fn:contexts_bare{branch}", f"fn:contexts_bare{every[-1][0]}"]
    work = [f"fn:contexts_work{graphs.instructions('contexts_work')[:3][-1][0]}", f"fn:contexts_work{loop}"]
    OWN.write_text("0")
    for jumps in (True, False):
        JUMPS.write_text("Y" if jumps else "N")
        name = "own breakpoints and a jump" if jumps else "own breakpoints alone"
        owner = probe(*bare, *work)
        made = sum(sum(call(context).values()) for context in ("bare-task", "bare-timer", "bare-irq-work"))
        works = sum(sum(call(context).values()) for context in ("task", "timer", "ipi"))
        data = outcome(owner, name)
        hits, caught = by_place(data)
        natively = 0 if jumps else made - data["moved"]
        same(f"{name}: missed", data["missed"], 0)
        check(f"{name}: moved", data["moved"] == 0 if jumps else data["moved"] > made // 3, data)
        same(f"{name}: hits", hits, dict(zip(bare + work, (made, ROUNDS * made, made, works, ROUNDS * works))))
        met = [0 if jumps else made, ROUNDS * natively, natively, 0, 0]
        same(f"{name}: caught", caught, dict(zip(bare + work, met)))
    JUMPS.write_text("Y")
    OWN.write_text("4294967295")


def kept(graphs, before, own):
    """Somebody else's kprobe on a jump sees each call, as the session does. The jump stays until the kprobe goes.

    The last instruction has a kprobe, or an int3 of the module's own.
    """
    OWN.write_text("0" if own else "4294967295")
    mark = log_mark()
    words = ["fn:contexts_bare", f"fn:contexts_bare{graphs.instructions('contexts_bare')[-1][0]}"]
    owner = probe(*words)
    first = sum(call("bare-task").values())
    hook = Hook()
    made = {context: sum(call(context).values()) for context in ("bare-task", "bare-timer")}
    # A session that comes now finds the jump there.
    second = probe(*words)
    more = sum(call("bare-task").values())
    same("a kprobe on a jump: its hits", hook.hits(), sum(made.values()) + more)
    for name, session_, number in (("second", second, more), ("first", owner, first + sum(made.values()) + more)):
        data = json.loads(interrupt(session_)[0])
        same(f"a kprobe on a jump: hits of the {name}", [row["hits"] for row in data["places"]], [number] * 2)
    said, = complaints(kernel_log(mark))
    check("a kprobe on a jump: the module says so", "a kprobe stands on a jump at contexts_bare+0x" in said, said)
    check("calls go on", call("bare-task"))
    hook.clear()
    wait_for("the text as it was", lambda: texts(graphs) == before)
    owner = probe(*words)
    made = sum(call("bare-task").values())
    same("the kprobe is gone: hits, caught", ended(owner, "the kprobe is gone"), (dict.fromkeys(words, made), dict.fromkeys(words, 0)))
    same("the text is as it was, again", texts(graphs), before)


def natively_for_two(graphs):
    """Two sessions have the same places.

    What comes there natively is counted once for each, at each level.
    """
    loop, branch = loop_of_work(graphs)
    words = [f"fn:contexts_work{loop}", f"fn:contexts_work{branch}:taken", f"fn:contexts_work{branch}:not-taken"]
    kprobes = Kprobes(f"contexts_work{graphs.instructions('contexts_work')[1][0]}")
    first = probe(*words)
    # Its context has the block then, and the other's has none.
    before = sum(call("task").values())
    second = probe(*words)
    made = {context: sum(call(context).values()) for context in ("task", "timer", "ipi")}
    for name, owner, others in (("second", second, 0), ("first", first, before)):
        number = others + sum(made.values())
        data = json.loads(interrupt(owner)[0])
        same(f"two sessions, natively: hits of the {name}", [row["hits"] for row in data["places"]],
             [ROUNDS * number, (ROUNDS - 1) * number, number])
        check(f"two sessions, natively: the {name} was caught", data["places"][0]["caught"] >= number, data)
        # At each level.
        same(f"two sessions, natively: led into the cache, and missed by the {name}",
             (data["moved"], data["missed"]), (number, 0))
    kprobes.clear()


def leave_room():
    """Places with conditions take much of the room that a block has for inserts, and not that of what is counted there.

    cp_new_stat is nearly all one block.
    """
    def counted(what):
        end = run("jifl", "count", what, "fn:cp_new_stat", "--only", "-f", "json", "--", "sh", "-c", "exec stat /etc/hostname >/dev/null")
        got = report(end.stdout)["by_name"]["cp_new_stat"]
        return got["calls"], got["mean"], got["missed"]

    alone = {what: counted(what) for what in ("insn", "block")}
    check("a long block: its instructions", alone["insn"][1] > 40 and alone["insn"][0], alone)
    owner = probe("fn:cp_new_stat insn", "--if", "pid != 1")
    same("a long block, beside places with conditions", {what: counted(what) for what in alone}, alone)
    data = json.loads(interrupt(owner)[0])
    places = int(alone["insn"][1]) - 1
    check("a long block: each place counts, or is told that it does not",
          data["incomplete"] or sum(row["hits"] for row in data["places"]) >= 2 * places * alone["insn"][0], data)


def switched_off(graphs):
    """Without kprobes there are no breakpoints: a session is refused, or says so at its end."""
    loop, _ = loop_of_work(graphs)
    place = f"fn:contexts_work{loop}"
    SWITCH.write_text("0")
    end = run("jifl", "probe", place, "--for", "100ms")
    check("kprobes are switched off: refused", end.returncode == 1 and end.stderr.count("\n") == 1 and
          "kprobes are switched off" in end.stderr and str(SWITCH) in end.stderr, end)
    owner = probe("fn:contexts_work")
    made = sum(call("task").values())
    same("kprobes are switched off: entries", ended(owner, "kprobes are switched off")[0], {"fn:contexts_work": made})
    SWITCH.write_text("1")
    for words in (["0"], ["0", "1"]):
        owner = probe(place, "fn:contexts_work")
        for word in words:
            SWITCH.write_text(word)
        made = sum(call("task").values())
        data = json.loads(interrupt(owner)[0])
        SWITCH.write_text("1")
        same(f"kprobes/enabled becomes {words}: said of the place that has a breakpoint",
             (data["switched_off"], data["incomplete"]), (1, 0))
        same(f"kprobes/enabled becomes {words}: copies count", [row["hits"] for row in data["places"]],
             [ROUNDS * made, made])
    owner = probe(place)
    made = sum(call("task").values())
    same("kprobes are on again: hits", ended(owner, "kprobes are on again")[0], {place: ROUNDS * made})


def of_another_module():
    """A cold part belongs to the function of its name in its module, which the session holds."""
    same("the module with the namesake", run("insmod", NAMESAKE).returncode, 0)
    symbols = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines()]

    def addresses(name, module):
        return [int(words[0], 16) for words in symbols if words[2:] == [name, f"[{module}]"]]

    work, = addresses("contexts_work", "jifl_contexts")
    parts = addresses("contexts_work.cold", "jifl_figures")
    # 6.12's modules are compiled without such parts.
    figure("cold parts of a namesake", len(parts))
    targets = [Device.target(0, Device.FUNCTION, Device.ONLY, work, b"contexts_work")]
    for name, place, wanted in (("its own", work, 0), *(("the other's", part, errno.EILSEQ) for part in parts)):
        with Device() as device:
            try:
                device.start_of(Device.PROBE, targets, splices=[Device.splice(place)])
                got = 0
            except OSError as e:
                got = e.errno
        # 1: it is not in the function.
        same(f"a place in {name} code", (got, device.refused_splices), (wanted, [1 if wanted else 0]))
    same("the module with the namesake goes", run("rmmod", "jifl_figures").returncode, 0)


def beside_kprobes(graphs):
    """Kprobes at the same instructions have the same hits: nobody loses beside the session."""
    loop, _ = loop_of_work(graphs)
    places = [f"contexts_work{loop}", f"contexts_work{graphs.instructions('contexts_work')[-1][0]}"]
    for context in ("task", "timer", "nested"):
        kprobes = Kprobes(*places)
        owner = probe(*(f"fn:{place}" for place in places))
        made = sum(call(context).values())
        hits, caught = ended(owner, f"{context}, kprobes at the same places")
        wanted = dict(zip(places, (ROUNDS * made, made)))
        same(f"{context}: hits of the kprobes", kprobes.hits(), wanted)
        same(f"{context}: hits", hits, {f"fn:{place}": number for place, number in wanted.items()})
        same(f"{context}: all of them natively", caught, hits)
        kprobes.clear()


def inside_others(graphs):
    """Executions in copies that another session runs are counted, also in copies from before."""
    middle = graphs.instructions("contexts_work")[2][0]
    words = ["fn:contexts_work", f"fn:contexts_work{middle}", "fn:contexts_work%return"]
    other = session("insn", "fn:contexts_recurse", "-f", "json")
    made = sum(call("recursion").values())
    owner = probe(*words)
    more = sum(call("recursion").values())
    hits, caught = ended(owner, "inside another session's copies")
    same("inside another session's copies: hits", hits, dict.fromkeys(words, more))
    same("inside another session's copies: none natively", sum(caught.values()), 0)
    again = sum(call("recursion").values())
    target, = json.loads(interrupt(other)[0])["targets"]
    same("the other session's calls", (target["calls"], target["missed_by"]),
         ((made + more + again) // (DEPTH + 1), {"nested": (made + more + again) // (DEPTH + 1) * DEPTH}))
    # Two sessions have the same place.
    words[-1] = f"fn:contexts_work{graphs.instructions('contexts_work')[-1][0]}"
    first, second = probe(words[1]), probe(*words)
    made = sum(call("task").values())
    hits, _ = ended(second, "the second session")
    same("two sessions at a place: the second", hits, dict.fromkeys(words, made))
    more = sum(call("timer").values())
    same("two sessions at a place: the first", ended(first, "the first session")[0], {words[1]: made + more})


def debug_information():
    """Lines of MODULE come from its own file, as debuginfod would send it. Returns what has to be undone."""
    finder = Path(tempfile.mkdtemp()) / "debuginfod-find"
    # $2 is a build id; what has another is passed over.
    finder.write_text(f"#!/bin/sh\necho {MODULE}\n")
    finder.chmod(0o755)
    before = dict(os.environ)
    os.environ.update(DEBUGINFOD_URLS="here", PATH=f"{finder.parent}:{os.environ['PATH']}")
    return before


def other_forms(graphs):
    """Places by lines, addresses, patterns and globs are those that their offsets name."""
    loop, branch = loop_of_work(graphs)
    inside = [(text, int(loop, 16) <= int(place, 16) <= int(branch, 16)) for place, text in graphs.instructions("contexts_work")]
    shifts = sum(ROUNDS if in_loop else 1 for text, in_loop in inside if text.startswith("shl "))
    check("contexts_work shifts", shifts >= ROUNDS, inside)
    begin = int(graphs.all["contexts_work"]["blocks"][0]["address"], 16)
    line = next(at for at, text in enumerate(SOURCE.read_text().splitlines(), 1) if text.endswith("x ^= x << 13;"))
    before = debug_information()
    # Kernels that find defects are built without debug information.
    lines = [f"line:contexts.h:{line}"] if SLOWNESS == 1 else []
    owner = probe("fn:contexts_recurse call:contexts_work", "fn:contexts_recurse call:contexts_work:return",
                  "fn:contexts_recurse call:contexts_*", "fn:contexts_recurse call", "fn:contexts_tail call:contexts_work",
                  hex(begin + int(loop, 16)), "fn:contexts_w*", "fn:contexts_*%return", "fn:contexts_work shl",
                  "fn:exc_int3*", *lines)
    made = sum(call("recursion").values())
    out, err = interrupt(owner)
    data = json.loads(out)
    calls_ = made + made * DEPTH // (DEPTH + 1)
    hits = [row["hits"] for row in data["places"]]
    same("other forms: hits", hits[:6] + hits[8:9], [made, made, calls_, calls_, 0, ROUNDS * made, shifts * made])
    entries, returns, _, gone, *of_lines = data["places"][6:]

    def of(word, function):
        found = [one["hits"] for one in word["each"] if one["place"].startswith(f"{function}@jifl_contexts+0x")]
        return len(found), sum(found)

    # The module's own functions are called, too.
    same("a glob: entries of functions", [of(entries, f"contexts_{name}") for name in ("work", "wide")], [(1, made), (1, 0)])
    same("a glob: returns of functions", [of(returns, f"contexts_{name}")[1] for name in ("work", "recurse", "wide")],
         [made, made, 0])
    for row in of_lines:
        check("a line: each of its places", row["each"] and all(
            one["hits"] == ROUNDS * made and one["place"].startswith("contexts_work@jifl_contexts+0x")
            for one in row["each"]), row)
    same("a line is one row", len(of_lines), len(lines))
    same("a glob: each is the sum", [sum(one["hits"] for one in row["each"]) for row in data["places"]], hits)
    forbidden = [why for why in data["left_out"] if "the kernel forbids" in why]
    same("what cannot be probed is left out", (gone["places"], [data["left_out"][why] for why in forbidden]), (0, [1]))
    check("and said", f"{forbidden[0]} (1)" in err, err)
    if lines:
        end = run("jifl", "probe", "line:contexts.h:1", "--for", "100ms")
        check("a line without code is refused", end.returncode == 2 and "the nearest with code: line:" in end.stderr, end)
    os.environ.clear()
    os.environ.update(before)
    end = run("jifl", "probe", "fn:contexts_w*", "--each", "--for", "100ms")
    check("--each: rows of places", end.returncode == 0 and end.stdout.count("\n  contexts_w") >= 2, end)


def refusals(graphs):
    """What cannot be probed is refused in one line that says why, and how it can be."""
    for words, status_, hints in (
            (["fn:contexts_work+0x1"], 2, ["no instruction begins there", "+0x0", "+0x5"]),
            (["fn:contexts_work+0x5:taken"], 2, ["no branch on a condition"]),
            (["fn:contexts_work+0x5000"], 2, ["no such place"]),
            (["fn:no_such_function+0x10"], 2, ["no such function"]),
            (["fn:contexts_*+0x10"], 2, ["name one function"]),
            (["fn:*"], 2, ["fn:*: these are", "or --yes"]),
            (["fn:contexts_work call:vfs_*"], 2, ["contexts_work calls no vfs_* directly"]),
            (["fn:exc_int3*"], 1, ["nothing is left", "1 function is left out"]),
            (["line:contexts.h:40"], None, ["no source lines of the kernel", "DEBUGINFOD_URLS"]),
            (["contexts_work+0x10"], 2, ["a place is fn:NAME"]),
            (["fn:__schedule+0x10"], None, ["__schedule"]),
            ([f"fn:{CALLED}{graphs.instructions(CALLED)[2][0]}"], 1, ["JIFL itself calls the function"]),
            (["fn:exc_int3"], 1, ["cannot be a target"])):
        end = run("jifl", "probe", *words, "--for", "100ms")
        good = end.returncode == status_ if status_ else end.returncode != 0
        check(f"{words} is refused", good and end.stderr.count("\n") == 1 and all(hint in end.stderr for hint in hints), end)


def key_of(graphs, function):
    """The first static key of a function, as `+0x10`."""
    graph = graphs.all[function]
    keys = [graph["blocks"][edge["from"]] for edge in graph["edges"] if edge["kind"] == "key"]
    places = [block["instructions"][-1]["place"] for block in keys]
    check(f"{function} has a static key", places, graph["edges"])
    return sorted((place for place in places if place.startswith("+")), key=lambda place: int(place, 16))[0]


def warning_of(graphs):
    warnings = [place for place, text in graphs.instructions(WARNING) if text.startswith("ud2")]
    check("the function has a warning", warnings, graphs.all[WARNING])
    return warnings[0]


def kernels_own(graphs):
    """A static key is counted by what leads there, whichever way it is."""
    key = f"fn:contexts_held{key_of(graphs, 'contexts_held')}"
    # Each round of the loop executes both.
    branch = f"fn:contexts_held{graphs.branches('contexts_held')[-1]}"
    end = run("jifl", "probe", key, "--list", "-f", "json")
    same("a static key: what leads there", [len(one.get("leads", [])) for one in json.loads(end.stdout)["list"]], [1])
    OWN.write_text("0")
    end = run("jifl", "probe", "fn:contexts_held insn", "--list", "-f", "json")
    OWN.write_text("4294967295")
    check("a static key: the module knows it", key[3:].replace("+", "@jifl_contexts+") not in end.stdout and "contexts_held" in end.stdout,
          end)
    owner = probe(key, branch)
    for switched in ("1", "0"):
        Path(FILE).write_text("cut 10")
        KEY.write_text(switched)
    Path(FILE).write_text("cut 10")
    hits, caught = ended(owner, "the kernel's own")
    check("a static key: it was executed", hits[branch] >= 30, hits)
    same("a static key: as often as the loop's branch", hits[key], hits[branch])
    # A call leads to the warning. A program sees registers, which are others before.
    for words in ([f"fn:{WARNING}{warning_of(graphs)}"], [key, "--by", "cpu"]):
        end = run("jifl", "probe", *words, "--for", "1s")
        check(f"{words} is refused", end.returncode == 1 and f"+{words[0].partition('+')[2]} cannot be probed" in end.stderr
              and "the kernel allows no breakpoint there" in end.stderr and end.stderr.count("\n") == 1, end)


def refused_at_last(graphs, loop):
    """Places that had their breakpoints already are given back when a later one is refused.

    The module knows the kernel's static keys, and asks about warnings with each breakpoint.
    """
    for what, place in (("a static key", f"fn:kfree{key_of(graphs, 'kfree')}"), ("a warning", f"fn:{WARNING}{warning_of(graphs)}")):
        end = run("jifl", "probe", f"fn:contexts_work{loop}", "fn:contexts_work", place, "--by", "cpu", "--for", "1s")
        check(f"{what} is refused", end.returncode == 1 and "the kernel allows no breakpoint there" in end.stderr
              and end.stderr.count("\n") == 1 and place in end.stderr, end)


def idle_tasks(graphs):
    """Idle tasks stay native, so each execution is caught. A thread that injects idle time is as other threads."""
    place = f"fn:{IDLE}{graphs.instructions(IDLE)[2][0]}"
    owner = session(place, "-f", "json", "--by", "comm", command="probe")
    injected = sum(call("idle", 50).values())
    time.sleep(0.2)
    out, _ = interrupt(owner)
    data = json.loads(out)
    row, = data["places"]
    hits = {group["by"]["comm"]: group["hits"] for group in data["groups"]}
    check("idle tasks have executed it", sum(number for name, number in hits.items() if name.startswith("swapper/")) > 0, hits)
    check("a thread that injects idle time has", hits.get("jifl_idle", 0) >= injected, (hits, injected))
    natively = sum(number for name, number in hits.items() if name.startswith("swapper/"))
    check("idle tasks stay native", row["caught"] >= natively, (row["caught"], natively))
    same("nobody is led into copies, and nothing is missed", (data["moved"], data["missed"]), (0, 0))


def killed(graphs):
    """A session that is killed while its breakpoints are set, or as soon as they are, leaves none of them."""
    kprobes = Path("/sys/kernel/debug/kprobes/list")
    before = kprobes.read_text()
    owner = background("jifl", "probe", "fn:vfs_* insn", "--yes")
    wait_for("breakpoints are being set", lambda: len(kprobes.read_text().splitlines()) > len(before.splitlines()) + 20)
    owner.kill()
    owner.communicate()
    same("it is gone", status()["sessions"], [])
    same("its breakpoints are gone", kprobes.read_text(), before)
    hits, _ = ended(probe("fn:contexts_work"), "the session after it")
    same("the session after it", hits, {"fn:contexts_work": 0})


def come_and_go(rounds, graphs):
    """Sessions come and go while the functions run in all contexts. No result is wrong."""
    loop, branch = loop_of_work(graphs)
    words = ["fn:contexts_work", f"fn:contexts_work{loop}", f"fn:contexts_work{branch}:taken",
             "fn:contexts_work%return", "fn:contexts_sleep%return", "fn:contexts_recurse%return"]
    callers = [background("/usr/bin/python3", "-c", CALLS_ON) for _ in range(2)]
    total = 0
    for round_ in range(8 * rounds):
        end = run("jifl", "probe", *words[:1 + round_ % len(words)], "--for", "100ms", "-f", "json")
        if not check(f"round {round_}", end.returncode == 0, end):
            break
        data = json.loads(end.stdout)
        same(f"round {round_}: missed, incomplete, switched off",
             (data["missed"], data["incomplete"], data["switched_off"]), (0, 0, 0))
        total += sum(row["hits"] for row in data["places"])
        if round_ % 4 == 3:
            refused_at_last(graphs, loop)
    check("places were executed", total > 0, total)
    figure("hits of sessions that come and go", total)
    end_callers(callers)


# How each instruction can be probed, by the functions for which all are the same.
WHOLE = {"contexts_bare": "by_jump", "contexts_looped": "by_breakpoint", "exc_int3": "forbidden", "__schedule": "refused"}
WAYS = ["by_door", "by_counter", "by_jump", "by_leads", "kernels_own", "by_breakpoint", "forbidden", "refused"]


def census(graphs):
    """Each instruction counts in the way in which a session can have it."""
    end = run("jifl", "probe", "--census", "--each", "-f", "json", *{f"fn:{name}" for name in [*graphs.all, *WHOLE]})
    check("the census", end.returncode == 0, end)
    rows = {row.get("function"): row for row in json.loads(end.stdout)["census"]}
    same("census: the total", {key: sum(row[key] for name, row in rows.items() if name) for key in WAYS},
         {key: rows[None][key] for key in WAYS})
    same("census: each once", [name for name, row in rows.items() if sum(row[key] for key in WAYS) != row["instructions"]], [])
    for function, way in WHOLE.items():
        row = rows[function]
        same(f"census, {function}", {key: row[key] for key in WAYS if row[key]}, {way: row["instructions"]})
    row = rows["__schedule"]
    same("census: why a function is refused", row["refused_by"], {"it switches tasks or stacks": row["instructions"]})
    (why, refused), = rows[CALLED]["refused_by"].items()
    same(f"census, {CALLED}: all but the entry", (rows[CALLED]["by_door"] + refused, "JIFL itself calls" in why),
         (rows[CALLED]["instructions"], True))
    check("census: the kernel's own", all(sum(rows[name][way] for way in ("by_leads", "kernels_own")) >= 1
                                          for name in ("kfree", WARNING)), rows["kfree"])
    check("census: a static key by what leads there", rows["contexts_held"]["by_leads"] >= 1, rows["contexts_held"])
    for function in ("contexts_work", "do_getpgid", "kfree"):
        end = run("jifl", "probe", "--list", f"fn:{function} insn", "-f", "json")
        mine = {place for place, _ in graphs.instructions(function)}
        listed = [one["place"].partition("+")[2] for one in json.loads(end.stdout)["list"]]
        # A pattern leaves out the call of the tracer, which the entry's door counts.
        same(f"census, {function}: instructions that can be probed", rows[function]["by_counter"] + rows[function]["by_door"] - 1,
             len([place for place in listed if f"+{place}" in mine]))


def texts(graphs):
    """The bytes of all functions of the graphs, as /proc/kcore has them."""
    blocks = [block for one in graphs.all.values() for block in one["blocks"]]
    found = kernel_memory([(int(block["address"], 16), block["bytes"]) for block in blocks])
    return {block["address"]: code.hex() for block, code in zip(blocks, found)}


def probes(rounds="1"):
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    graphs = Graphs("fn:contexts_*", "fn:do_getpgid", "fn:kfree", f"fn:{CALLED}", f"fn:{WARNING}", f"fn:{IDLE}")
    before = texts(graphs)
    each_context(graphs)
    ways(graphs, "do_getpgid", ask)
    natively(graphs)
    natively_for_two(graphs)
    without_a_door(graphs)
    jumps(int(rounds))
    beside_own(graphs)
    leave_room()
    beside_kprobes(graphs)
    inside_others(graphs)
    switched_off(graphs)
    of_another_module()
    other_forms(graphs)
    refusals(graphs)
    kernels_own(graphs)
    idle_tasks(graphs)
    killed(graphs)
    census(graphs)
    come_and_go(int(rounds), graphs)
    same("no session is left", status()["sessions"], [])
    same("the text is as it was", texts(graphs), before)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])
    for own in (False, True):
        kept(graphs, before, own)
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)


if __name__ == "__main__":
    main(probes)
