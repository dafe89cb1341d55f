# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions whose fentry site another tracer has, as targets: each call is counted, and the tracer sees its own.

usage: owned.py FENTRY

Such a function is entered by a jump behind the site. The tracers are a direct call in a module's text
(modules/jifl_direct.c), which copies of calls run, too, and BPF programs, which they leave for.
"""

import json
import os
import time
from pathlib import Path

from bare import ME, recorded
from contexts import CONTEXTS, MODULE, N, call, counted, target_of
from lib import (background, check, complaints, ends_clean, interrupt, is_loaded, kernel_log, log_mark, main, report, run, same,
                 session, status, wait_for)
from probe import probe
from text_changes import CALLS, HAS_BTF, detach, fentry, show_cmdline

DIRECT = Path(MODULE).with_name("jifl_direct.ko")
EVENTS = Path("/sys/kernel/tracing/kprobe_events")
SITES = Path("/sys/module/jifl/parameters/sites")
SEEN = Path("/sys/module/jifl_direct/parameters/calls")
WORK = "contexts_work"
# The contexts in which the module calls contexts_work, and nothing else that is asked for here.
PLAIN = [context for context, traits in CONTEXTS.items() if "function" not in traits]


def take(function=WORK):
    same(f"the tracer takes {function}", run("insmod", DIRECT, f"function={function}").returncode, 0)


def give():
    same("the tracer gives it back", run("rmmod", "jifl_direct").returncode, 0)


def seen():
    return int(SEEN.read_text())


def each_context():
    """Calls and instructions at each level are those that are counted without the tracer."""
    before = {context: target_of(counted("insn", [f"fn:{WORK}"], context)[0], WORK) for context in PLAIN}
    take()
    for context in PLAIN:
        first = seen()
        data, made = counted("call", [f"fn:{WORK}"], context)
        got = target_of(data, WORK)
        same(f"call {context}: calls, missed", (got["calls"], got["missed_by"]), (sum(made.values()), {}))
        same(f"call {context}: the tracer's", seen() - first, sum(made.values()))
        data, made = counted("insn", [f"fn:{WORK}"], context)
        got = target_of(data, WORK)
        same(f"insn {context}: calls, each", (got["calls"], got["min"], got["max"]),
             (sum(made.values()), before[context]["min"], before[context]["max"]))
        data, made = counted("call", [f"fn:{WORK}"], context, "--only")
        same(f"call {context}, alone", target_of(data, WORK)["calls"], sum(made.values()))
    give()


def nested(context, inner, what="call"):
    """Calls in a system call's copy: the inner session's target, and how often the tracer was called."""
    first = seen() if is_loaded("jifl_direct") else 0
    outer = session("insn", "sys:write", *ME, "-f", "json")
    data, made = counted(what, [f"fn:{inner}"], context)
    whole = report(interrupt(outer)[0])["by_name"]["write"]
    same(f"{what} {context}: the system calls", whole["missed"], 0)
    return target_of(data, inner), made["task"], (seen() if is_loaded("jifl_direct") else 0) - first


def inside_others():
    """A tracer in a module's text is copied: its calls are its own, and those of who enters are missed."""
    take()
    got, made, tracers = nested("task", WORK)
    same("count call in a copy: calls, missed, the tracer's", (got["calls"], got["missed_by"], tracers), (made, {}, made))
    got, made, tracers = nested("task", WORK, "insn")
    same("count insn in a copy: calls, missed, the tracer's", (got["calls"], got["missed_by"], tracers),
         (0, {"nested": made}, made))
    give()


def recursion():
    """Each activation is one."""
    take("contexts_recurse")
    data, made = counted("call", ["fn:contexts_recurse"], "recursion")
    got = target_of(data, "contexts_recurse")
    same("recursion: calls", (got["calls"], got["missed_by"]), (sum(made.values()), {}))
    give()


def comes_and_goes():
    """The site goes from one to the next while sessions stand behind it."""
    take()
    owner = session("call", f"fn:{WORK}", "-f", "json")
    made = sum(call("task").values())
    give()
    made += sum(call("task").values())
    # The function is entered behind its site as long as the first session runs.
    later = session("insn", f"fn:{WORK}", "-f", "json")
    both = sum(call("task").values()) + sum(call("timer").values())
    take()
    both += sum(call("irq-work").values())
    data = report(interrupt(owner)[0])
    same("calls of the first", (target_of(data, WORK)["calls"], target_of(data, WORK)["missed_by"]), (made + both, {}))
    after = sum(call("task").values())
    give()
    got, inside, _ = nested("task", WORK)
    same("a third one's, in a copy, where nobody has the site", (got["calls"], got["missed_by"]), (inside, {}))
    got, followed, _ = nested("task", WORK, "block")
    same("the same of one that follows them", (got["calls"], got["missed_by"]), (followed, {}))
    data = report(interrupt(later)[0])
    same("calls of the second", (target_of(data, WORK)["calls"], target_of(data, WORK)["missed_by"]),
         (both + after + inside + followed, {}))
    with_site = session("call", f"fn:{WORK}", "-f", "json")
    end = run("insmod", DIRECT, f"function={WORK}")
    check("a session that has the site keeps it", end.returncode and not is_loaded("jifl_direct"), end)
    interrupt(with_site)


def kept():
    """A jump that a kprobe has kept stays for a place in it, which only the gate has."""
    mark = log_mark()
    take()
    maker = session("call", f"fn:{WORK}")
    EVENTS.write_text(f"p:owned/kept {WORK}+0x5\n")
    enabled = EVENTS.with_name("events") / "owned/kept/enable"
    enabled.write_text("1")
    interrupt(maker)
    give()
    said, = complaints(kernel_log(mark))
    check("a jump that was kept: the module says so", f"a kprobe stands on a jump at {WORK}+0x" in said, said)
    place = f"fn:{WORK}+0x8"
    owner = probe(place)
    enabled.write_text("0")
    EVENTS.write_text("")
    # The module looks for the kprobe each second.
    time.sleep(3)
    made = sum(sum(call(context).values()) for context in ("task", "stopper", "nmi"))
    same("a jump that was kept: hits", [row["hits"] for row in json.loads(interrupt(owner)[0])["places"]], [made])


def tools():
    take()
    calls, made = recorded("trace", [f"fn:{WORK}", "-d"], "task")
    same("trace: calls, functions", (len(calls), {tuple(f["name"].split(" ")[0] for f in one["functions"]) for one in calls}),
         (made["task"], {(WORK,)}))
    for context, words in (("many", ["fn:contexts_many"]), ("tail", ["fn:contexts_tail"])):
        recorded("trace", words, context)
    plain = target_of(counted("insn", [f"fn:{WORK}"], "task")[0], WORK)
    owner = session("insn", f"fn:{WORK}", "--by", "func", "-f", "json")
    made = sum(call("task").values())
    rows = {row["func"].split(" ")[0]: row["instructions"] for row in json.loads(interrupt(owner)[0])["rows"]}
    same("a profile", rows, {WORK: made * plain["min"]})
    owner = session("hist:ARG0", f"fn:{WORK}", "-f", "json")
    made = sum(call("task").values())
    got, = json.loads(interrupt(owner)[0])["targets"]
    same("hist:ARG0: calls", (got["calls"], got["missed"]), (made, 0))
    # The entry is counted by the instruction behind the site, which is a place of its own, too.
    places = [f"fn:{WORK}", f"fn:{WORK}+0x5", f"fn:{WORK}+0x8"]
    owner = probe(*places)
    counter = session("insn", f"fn:{WORK}", "--only", "-f", "json")
    first = seen()
    made = sum(sum(call(context).values()) for context in ("task", "timer", "irq-work"))
    same("beside a probe: calls", target_of(report(interrupt(counter)[0]), WORK)["calls"], made)
    made += sum(call("irq-off").values())
    data = json.loads(interrupt(owner)[0])
    same("hits of the probe", {row["place"]: row["hits"] for row in data["places"]}, dict.fromkeys(places, made))
    same("calls of the tracer", seen() - first, made)
    owner = probe("fn:contexts_wor*")
    made = sum(sum(call(context).values()) for context in ("task", "timer"))
    same("hits of a glob", [row["hits"] for row in json.loads(interrupt(owner)[0])["places"]], [made])
    give()
    take("contexts_tail")
    end = run("jifl", "count", "call", "fn:contexts_tail", "--for", "100ms")
    check("where no jump can stand it is refused", end.returncode == 1 and end.stderr.count("\n") == 1 and
          "nothing can stand behind it" in end.stderr, end)
    # A breakpoint can.
    owner = probe("fn:contexts_tai*")
    made = sum(call("tail").values())
    same("and a probe counts it", [row["hits"] for row in json.loads(interrupt(owner)[0])["places"]], [made])
    give()
    # Each int3 exception calls it before any handler: no int3 may come there, not even for a moment.
    take("__rcu_read_lock")
    end = run("jifl", "count", "call", "fn:__rcu_read_lock", "--for", "100ms")
    check("what the kernel calls for each int3 is refused", end.returncode == 1 and "nothing can stand behind it" in end.stderr, end)
    give()


def with_a_kprobe():
    """While somebody else's kprobe stands on the jump, calls are missed; not while it is disabled, or gone."""
    take()
    owner = session("call", f"fn:{WORK}", "-f", "json")
    outer = session("insn", "sys:write", *ME, "-f", "json")
    made = sum(call("task").values())
    EVENTS.write_text(f"p:jifl/owned jifl_contexts:{WORK}+5")
    made += sum(call("task").values())
    enable = EVENTS.with_name("events") / "jifl/owned/enable"
    enable.write_text("1")
    missed = sum(call("task").values())
    enable.write_text("0")
    made += sum(call("task").values())
    EVENTS.write_text("")
    made += sum(call("task").values())
    interrupt(outer)
    made += sum(call("timer").values())
    got = target_of(report(interrupt(owner)[0]), WORK)
    same("with a kprobe on the jump: calls, missed", (got["calls"], got["missed_by"]), (made, {"native": missed}))
    give()


def left_to_others():
    """With sites=0 another tracer can have the site of a session's function."""
    SITES.write_text("0")
    owner = session("call", f"fn:{WORK}", "fn:contexts_tail", "-f", "json")
    take()
    first = seen()
    data, made = counted("call", [f"fn:{WORK}"], "tail")
    same("calls of a second session", target_of(data, WORK)["calls"], made["task"])
    data = report(interrupt(owner)[0])
    same("calls of both functions, and the tracer's",
         (target_of(data, WORK)["calls"], target_of(data, "contexts_tail")["calls"], seen() - first), (made["task"],) * 3)
    give()
    SITES.write_text("1")


def under_load():
    """Sessions and the tracer come and go while others call the function."""
    caller = background("/usr/bin/python3", "-S", "-E", "-c",
                        "while True: open('/proc/jifl_contexts', 'w').write('task 100')")
    for n in range(10):
        take()
        owner = session(("call", "insn", "block", "none")[n % 4], f"fn:{WORK}", "-f", "json", *(["--only"] if n % 3 else []))
        if n % 2:
            give()
        call("task")
        data = report(interrupt(owner)[0])
        if n % 4 != 3:
            check("calls are counted", target_of(data, WORK)["calls"] >= N, data)
        if not n % 2:
            give()
    check("the caller runs on", caller.poll() is None, caller)
    caller.kill()
    caller.communicate()
    call("task")


def asleep():
    """Who sleeps in a tracer that a copy has called, and comes back to a jump, does without both sessions.

    The inner one goes last. What it leaves behind is executed when the module is gone.
    """
    take()
    Path("/sys/module/jifl_direct/parameters/sleeps").write_text("Y")
    inner = session("call", f"fn:{WORK}", "-f", "json")
    outer = session("insn", "sys:write", "-f", "json")
    caller = background("sh", "-c", f"echo 'task {N}' >/proc/jifl_contexts")
    stack = Path(f"/proc/{caller.pid}/stack")
    wait_for("the caller sleeps in the tracer", lambda: "jifl_direct_sleep" in stack.read_text())
    wanted = ["jifl_direct_sleep", "jifl_direct_trampoline", WORK, "ksys_write"]
    for owner in (outer, inner):
        interrupt(owner)
        same("a session ends", owner.returncode, 0)
        names = [frame.split()[1].partition("+")[0] for frame in stack.read_text().splitlines()]
        same("the caller's stack", [name for name in names if name in wanted], wanted)
    return caller


def awake(caller):
    """It goes on natively."""
    Path("/sys/module/jifl_direct/parameters/sleeps").write_text("N")
    same("the caller's errors", caller.communicate()[1], "")
    same("the caller ends", caller.returncode, 0)
    give()
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)


def bpf(program):
    """A BPF program's trampoline comes back behind the site, or calls what is there."""
    if not HAS_BTF:
        return
    shown = "cmdline_proc_show"
    for where in ("entry", "exit"):
        attached = fentry(program, shown, where)
        for outer in ([], ["sys:read"]):
            around = session("insn", *outer, *ME, "-f", "json") if outer else None
            for what, scope in (("call", []), ("insn", []), ("call", ["--only"])):
                owner = session(what, f"fn:{shown}", *ME, "-f", "json", *scope)
                show_cmdline()
                got = target_of(report(interrupt(owner)[0]), shown)
                same(f"f{where}, {what} {scope} in {outer}: calls", (got["calls"], got["missed_by"]), (CALLS, {}))
            if around:
                interrupt(around)
        same(f"f{where}: its own", detach(attached), 6 * CALLS)
    # The same where copies call: what they had of the function stays, or is made anew.
    for what in ("call", "insn"):
        around = session("insn", "sys:read", "sys:pread64", *ME, "-f", "json")
        attached = fentry(program, shown, "entry")
        owner = session(what, f"fn:{shown}", *(ME if what == "insn" else []), "-f", "json")
        for attach in (False, True, False):
            show_cmdline()
            if attach:
                attached = fentry(program, shown, "exit")
            else:
                detach(attached)
        show_cmdline()
        got = target_of(report(interrupt(owner)[0]), shown)
        same(f"{what}, as programs come and go: calls, and those missed", got["calls"] + got["missed"], 4 * CALLS)
        check(f"{what}, as programs come and go: missed inside others' alone", what == "insn" or not got["missed"], got)
        interrupt(around)
    attached = fentry(program, shown, "entry")
    owner = session("call", f"fn:{shown}", *ME, "-f", "json")
    show_cmdline()
    same("fentry: its own", detach(attached), CALLS)
    show_cmdline()
    attached = fentry(program, shown, "exit")
    check("another one comes while the session runs", not isinstance(attached, int), attached)
    show_cmdline()
    same("fexit: its own", detach(attached), CALLS)
    same("calls", target_of(report(interrupt(owner)[0]), shown)["calls"], 3 * CALLS)


def program(fentry_program):
    same("the module comes", run("insmod", MODULE).returncode, 0)
    kept()
    mark = log_mark()
    each_context()
    inside_others()
    recursion()
    comes_and_goes()
    tools()
    with_a_kprobe()
    left_to_others()
    under_load()
    bpf(fentry_program)
    caller = asleep()
    same("no session is left", status()["sessions"], [])
    ends_clean([], mark)
    awake(caller)
    same("the kernel's log", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(program)
