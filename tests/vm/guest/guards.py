# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guards of doors that lead straight to a piece: each has a case, at both kinds of doors.

usage: guards.py

Such a door asks no C code (host/kernel/run/stubs.S). So each case makes calls first that may enter:
they make the piece to which the door leads from then on. The calls that follow must not enter. The
functions are those of the module jifl_contexts, called in the contexts of modules/guarded.h.
"""

import struct
import subprocess
from pathlib import Path

from contexts import FILE, FIRE, MODULE, N, call, target_of
from lib import (PATIENCE, Device, background, check, ends_clean, figure, interrupt, log_mark, main, module_file, plant,
                 report, run, same, session, status, wait_for)
from refusals import CALL, INSN, Kernel

# The two kinds of doors: at a site, and a jump.
DOORS = {"": "contexts_work", "bare-": "contexts_bare"}
# Contexts, and why a call is missed there.
GUARDED = {"nmi": "nmi", "stopper": "stopper", "idle-task": "idle"}
# Threads that inject idle time: calls before, which are counted, and as many while they idle.
INJECTING = ("injected", "injecting")
MISSES = ("cache-full flush session-end text-change native no-room nested softirq interrupt nmi idle stopper own").split()

TRACING = Path("/sys/kernel/tracing")
TEST_MODULE = module_file().replace("/modules/", "/modules-test/")
PARAMETERS = Path("/sys/module/jifl/parameters")
# Return hooks that there are (JIFL_RETURNS), and threads that sleep at a time.
HOOKS, SLEEPERS = 4096, 4200


def injected():
    """A thread that injects idle time: where RCU does not watch, its calls are missed, of no session.

    First, because the stacks of such threads are remembered until there has been one.
    """
    for context in INJECTING:
        for prefix, function in DOORS.items():
            owner = session("call", f"fn:{function}", "-f", "json")
            first = call(f"{prefix}task")["task"]
            before = status()["missed_by"].get("idle", 0)
            made = call(f"{prefix}{context}")["task"]
            missed = status()["missed_by"].get("idle", 0) - before
            got = target_of(report(interrupt(owner)[0]), function)
            same(f"{prefix}{context}: the module made calls before and while idle", made, 2 * N)
            same(f"{prefix}{context}: counted, and missed by the session", (got["calls"], got["missed_by"]), (first + N, {}))
            same(f"{prefix}{context}: missed where RCU does not watch", missed, N)


def kept_out():
    """Calls that a door must not let in are missed, each with the guard's name, and none is counted."""
    for context, cause in GUARDED.items():
        for prefix, function in DOORS.items():
            for what, scope in (("call", []), ("call", ["--only"]), ("insn", [])):
                owner = session(what, f"fn:{function}", *scope, "-f", "json")
                first = call(f"{prefix}task")["task"]
                # An NMI counts as an interrupt, too.
                made = sum(call(f"{prefix}{context}").values())
                last = call(f"{prefix}task")["task"]
                got = target_of(report(interrupt(owner)[0]), function)
                same(f"{what} {scope} {prefix}{context}: the module made calls", made, N)
                same(f"{what} {scope} {prefix}{context}: counted and missed", (got["calls"], got["missed_by"]),
                     (first + last, {cause: made}))


def figures(device, index=0):
    """Calls counted of a target, and those missed by cause."""
    counted_, *missed = struct.unpack_from("<8xQ56x16Q", device.stat_of(index))
    return counted_, {cause: number for cause, number in zip(MISSES, missed) if number}


def own_code(kernel):
    """What the module's own code calls passes, in tasks, softirqs and interrupts.

    It is a program of `jifl probe` that reads memory. Others have called the function before.
    """
    function = "copy_from_kernel_nofault"
    address = kernel.all[function][0]
    event = TRACING / "events/guards/first/enable"
    owner = session("fn:contexts_work", "--record", "first=*(u64 *)$arg0", "-f", "ndjson", "-o", "/run/guards", command="probe")
    with Device() as device:
        device.start_of(CALL, [Device.function(address)])
        (TRACING / "kprobe_events").write_text("p:guards/first vfs_read first=+0(%di):x64\n")
        event.write_text("1")
        run("dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=50")
        event.write_text("0")
        (TRACING / "kprobe_events").write_text("")
        others, missed = figures(device)
        check(f"{function}: others' calls are counted", others >= 50, (others, missed))
        for context in ("task", "tasklet", "hrtimer", "irq-work"):
            before = figures(device)
            made = sum(call(context).values())
            after = figures(device)
            own = after[1].get("own", 0) - before[1].get("own", 0)
            same(f"{context}: what a program calls is not counted", after[0] - before[0], 0)
            check(f"{context}: it is missed", own >= made, (made, before, after))
    interrupt(owner)


def on_the_dispatchers_stack(kernel):
    """What the dispatcher calls passes. Others have called the function before, about the same module."""
    functions = [Device.function(kernel.modules[name][0]) for name in ("contexts_many", "contexts_wide")]
    with Device() as device:
        device.start_of(CALL, [Device.function(kernel.all["__module_address"][0])])
        for _ in range(5):
            for what in ("hook", "unhook"):
                Path(FILE).write_text(f"{what} {FIRE}")
        others, missed = figures(device)
        check("calls by who sets kprobes are counted", others >= 5, (others, missed))
        with Device() as other:
            other.start_of(INSN, functions)
            before = figures(device)
            call("many")
            call("wide")
            after = figures(device)
        own = after[1].get("own", 0) - before[1].get("own", 0)
        same("what the dispatcher calls is not counted", after[0] - before[0], 0)
        check("it is missed", own > 0, (before, after))
        figure("calls by the dispatcher that were missed", own)


def without_a_hook():
    """Where no hook is free for a call's return, the call passes and is missed, and nothing else changes.

    The module as built for tests has one hook less when it is asked to.
    """
    run("rmmod", "jifl", check=True)
    run("insmod", TEST_MODULE, *plant(), check=True)

    def failed():
        return int((PARAMETERS / "failed").read_text())

    for what in ("insn", "block"):
        for context in ("task", "timer", "tasklet", "hrtimer", "irq-work", "bare-task", "bare-hrtimer"):
            function = DOORS["bare-" if context.startswith("bare") else ""]
            owner = session(what, f"fn:{function}", "-f", "json")
            made, before = sum(call(context).values()), failed()
            (PARAMETERS / "fail_nth").write_text("3")
            made += sum(call(context).values())
            same(f"{what} {context}: a hook was refused", failed() - before, 1)
            made += sum(call(context).values())
            got = target_of(report(interrupt(owner)[0]), function)
            same(f"{what} {context}: counted and missed", (got["calls"], got["missed_by"]), (made - 1, {"no-room": 1}))
            same(f"{what} {context}: each counted call costs the same", got["min"], got["max"])
        # In an interrupt: what it interrupts keeps its count.
        owner = session(what, "fn:contexts_interrupted", "fn:contexts_work", "-f", "json")
        call("nested")
        (PARAMETERS / "fail_nth").write_text("2")
        call("nested")
        data = report(interrupt(owner)[0])
        outer, inner = target_of(data, "contexts_interrupted"), target_of(data, "contexts_work")
        same(f"{what}: interrupted calls", (outer["calls"], outer["missed"]), (2 * N // FIRE, 0))
        same(f"{what}: calls in the interrupt and inside the interrupted", (inner["calls"], inner["missed_by"]),
             (2 * N - 1, {"no-room": 1, "nested": 2 * N}))
        same(f"{what}: calls in the interrupt cost the same", inner["min"], inner["max"])
    run("rmmod", "jifl", check=True)
    run("insmod", TEST_MODULE if plant() else module_file(), *plant(), check=True)


# Its threads sleep, each in a call of its own, and so does itself.
SLEEPING = f"""import sys, threading, time
threading.stack_size(65536)
sys.stdin.readline()
for n in range({SLEEPERS - 1}):
    threading.Thread(target=time.sleep, args=(10000,), daemon=True).start()
time.sleep(10000)"""
SLEEP = "import time\nfor n in range(20): time.sleep(0.001)"


def too_many_asleep():
    """More calls at once than there are hooks: the rest is missed. A later session has all hooks again."""
    words = ("insn", "fn:hrtimer_nanosleep", "-f", "json")
    program = background("/usr/bin/python3", "-S", "-E", "-c", SLEEPING, stdin=subprocess.PIPE)
    before = status()["missed_by"].get("no-room", 0)
    owner = session(*words, "-p", program.pid)
    program.stdin.write("go on\n")
    program.stdin.flush()
    wait_for("calls that find no hook", lambda: status()["missed_by"].get("no-room", 0) - before == SLEEPERS - HOOKS, PATIENCE)
    got = target_of(report(interrupt(owner)[0]), "hrtimer_nanosleep")
    same("asleep: counted, missed", (got["calls"], got["missed_by"]), (0, {"no-room": SLEEPERS - HOOKS, "session-end": HOOKS}))
    end = run("jifl", "count", *words, "--", "/usr/bin/python3", "-S", "-E", "-c", SLEEP)
    got = target_of(report(end.stdout), "hrtimer_nanosleep")
    same("while they sleep on: another program's calls", (got["calls"], got["missed_by"]), (20, {}))
    check("the program runs on", program.poll() is None, program)
    program.kill()
    program.communicate()


def guards():
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    injected()
    kept_out()
    kernel = Kernel()
    own_code(kernel)
    on_the_dispatchers_stack(kernel)
    too_many_asleep()
    without_a_hook()
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    ends_clean([], mark)


if __name__ == "__main__":
    main(guards)
