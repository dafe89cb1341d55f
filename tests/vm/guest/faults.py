# SPDX-License-Identifier: MIT OR Apache-2.0
"""Faults in system calls, and the stacks of tasks that sleep in system calls, are as they are
natively.

usage: faults.py FAULTS SLEEPERS
"""

import re
import time
from pathlib import Path

from lib import (SLOWNESS, background, check, figure, interrupt, main, report, run, same, session, state_of, status,
                 wait_for)

# System calls, and the functions behind their doors: as each is entered, and each alone.
CALLS = ("sys:*",)
FUNCTIONS = ("fn:__x64_sys_*@vmlinux",)
BODIES = ("fn:*@vmlinux", "--only", "--yes")
# All meet the same faults; what they insert where these happen differs, and what runs in the cache.
# The last number: so many faults there are in the cache at least.
CASES = [("insn", CALLS, ["table", "misc", "sleep", "race"], 1000), ("block", CALLS, ["misc", "sleep"], 5),
         ("insn", FUNCTIONS, ["table", "misc", "sleep"], 800), ("call", BODIES, ["table", "misc", "sleep", "race"], 40)]


def faults(program, kind, targets, parts, least):
    """Line by line what it prints without instrumentation."""
    name = f"{kind} {targets[0]}"
    native = run(program, *parts)
    check(f"{name}: works natively", native.returncode == 0 and native.stdout.endswith("done\n"), native)
    before = status()["faults"]
    start = time.monotonic()
    end = run("jifl", "count", kind, *targets, "-f", "json", "-o", "/tmp/report", "--", program, *parts)
    seconds = time.monotonic() - start
    got, want = end.stdout.splitlines(), native.stdout.splitlines()
    differ = [f"{g} / natively: {w}" for g, w in zip(got, want) if g != w]
    check(f"{name}: all lines are the same", got == want,
          f"{len(got)} lines, {len(want)} natively; {differ[:10]} {end.stderr}")
    same(f"{name}: exit status", end.returncode, native.returncode)
    data = report(Path("/tmp/report").read_text())
    count = status()["faults"] - before
    figure(name, f"{len(got)} lines, {count} faults in the cache, {seconds:.0f} s, "
           f"missed {data['missed']}, native exits {data['native_exits']}")
    check(f"{name}: faults happened in the cache", count >= least, count)


def stacks(sleepers):
    """What /proc/PID/stack shows of each kind of sleeper; and the process."""
    process = background(sleepers, 2, stdin=-1)
    pids = process.stdout.readline().split()[1:]

    def tasks():
        return [(pid, task) for pid in pids for task in sorted(Path(f"/proc/{pid}/task").iterdir())]

    for _ in range(3):  # not just on their way
        wait_for("threads besides the first", lambda: all(state_of(pid, task.name) not in "R" for pid, task in tasks()))
        time.sleep(0.05)
    return process, [(task / "stack").read_text() for _, task in tasks()]


def end(process):
    out, err = process.communicate("go\n", timeout=60)
    check("the sleepers end well", process.returncode == 0, out + err)


def show_differences(got, want):
    return "; ".join(f"{g!r} natively {w!r}" for g, w in zip(got, want) if g != w)[:1500]


def stack_walks(sleepers):
    process, native = stacks(sleepers)
    end(process)
    check("stacks have names natively", all("do_syscall_64" in text for text in native), native)
    owner = session("insn", "sys:*", "-f", "json")
    process, seen = stacks(sleepers)
    bare = [line for text in seen for line in text.splitlines() if not re.fullmatch(
        r"\[<0>\] [\w.]+\+0x[0-9a-f]+/0x[0-9a-f]+( \[\w+\])?", line)]
    same("stacks hold names only", bare, [])
    same("as many stacks", len(seen), len(native))
    check("instrumented stacks are the native ones", seen == native, show_differences(seen, native))
    waits = [Path(f"/proc/{process.pid}/{name}").read_text() for name in ("wchan", "syscall")]
    check("wchan has a name", re.fullmatch(r"\w+", waits[0]) and waits[0] != "0", waits)
    interrupt(owner)
    same("no session is left", status()["sessions"], [])
    bare = [line for pid in [process.pid] for line in Path(f"/proc/{pid}/stack").read_text().splitlines()
            if not re.match(r"\[<0>\] [a-zA-Z_]", line)]
    same("nor hex addresses after the session", bare, [])
    end(process)


def program(faults_program, sleepers):
    for kind, targets, parts, least in CASES:
        # With checks of its own a kernel takes minutes for all functions: test_only has them.
        if SLOWNESS == 1 or targets != BODIES:
            faults(faults_program, kind, targets, parts, least)
    stack_walks(sleepers)


main(program)
