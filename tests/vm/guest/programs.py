# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each program has the same output and the same exit status without instrumentation and with it.

usage: programs.py KIND PROGRAM...

KIND: what `jifl count` counts of system calls, or "functions": the calls of all functions of the kernel.
PROGRAM: a file of programs/.
"""

import json
import os
from collections import Counter
from pathlib import Path

from lib import SLOWNESS, all_sites_patched, check, complaints, figure, interrupt, main, report, same, session
from programs_run import command, in_fresh_directory

MEGABYTE = 1 << 20

# Calls of the command's own family that cannot be counted: those in flight
# when the session begins or ends.
MISSED = 10


def sane(name, data, kind):
    targets = data["by_name"]
    sums = {"insn": "instructions", "block": "blocks_executed"}[kind]
    for call in ("execve", "openat", "read", "close", "mmap", "exit_group", "wait4"):
        check(f"{name}: {call} was counted", targets.get(call, {}).get("calls", 0) > 0, targets.get(call))
    for call, target in targets.items():
        if not target["calls"]:
            continue
        good = 0 < target["min"] <= target["p50"] <= target["p99"] <= target["max"] <= target[sums]
        good = good and target["min"] <= target["mean"] <= target["max"]
        check(f"{name}: figures of {call} are in order", good, target)
    calls = sum(target["calls"] for target in targets.values())
    missed = {call: target["missed"] for call, target in targets.items() if target["missed"]}
    check(f"{name}: missed calls are few", data["missed"] <= MISSED, f"{missed} of {calls}")
    check(f"{name}: missed calls are said by name", data["missed"] == sum(missed.values()), missed)
    check(f"{name}: memory did not run out", "memory" not in data["native_exits"], data["native_exits"])
    unknown = [cause for cause in data["native_exits"] if cause.startswith("cause-")]
    same(f"{name}: each native exit has a named cause", unknown, [])
    figure(f"{name}", f"{calls} calls, {data['translation']['blocks']} blocks in "
           f"{data['translation']['ns'] / 1e9:.1f} s, native exits {data['native_exits']}, missed {missed}")


def memory(name, path):
    """What `jifl status` said when the program was done and its session still ran."""
    status = json.loads(Path(path).read_text())
    same(f"{name}: the session was there", len(status["sessions"]), 1)
    used = status["code_used"] + status["side_used"]
    check(f"{name}: cache and tables are below 4 MB", used < 4 * MEGABYTE * SLOWNESS, status)
    figure(f"{name}: code cache", f"{status['code_used']:,} bytes, side tables {status['side_used']:,} bytes, "
           f"{status['blocks']:,} blocks")


def compared(name, native, counted):
    """The same exit status and output, and not none."""
    same(f"{name}: exit status", counted.returncode, native.returncode)
    for stream in ("stdout", "stderr"):
        got, want = getattr(counted, stream).splitlines(), getattr(native, stream).splitlines()
        differ = [(g, w) for g, w in zip(got, want) if g != w]
        check(f"{name}: {stream}", got == want, f"{len(got)} lines, {len(want)} natively; {differ[:3]}")
    check(f"{name}: it did something", len(native.stdout) > 100, native)


def compare(kind, program):
    name = f"{program} under {kind}"
    native, native_time = in_fresh_directory(*command(program))
    words = [*map(str, command(program))]
    if program.startswith("compile"):
        # The last of the session's commands looks at it.
        words = ["sh", "-c", '"$@"; status=$?; jifl status -f json > /tmp/status.json; exit $status', "sh", *words]
    counted, counted_time = in_fresh_directory("jifl", "count", kind, "sys:*", "-f", "json", "-o", "/tmp/report.json",
                                               "--", *words)
    figure(f"{name}: time", f"{native_time:.1f} s, instrumented {counted_time:.1f} s")
    compared(name, native, counted)
    sane(name, report(Path("/tmp/report.json").read_text()), kind)
    if program.startswith("compile"):
        memory(name, "/tmp/status.json")


# Which programs make the kernel call, and how a call of a function can be missed that none of theirs is.
CALLED = ["ksys_read", "vfs_read", "vfs_write", "do_sys_openat2", "do_filp_open", "kernel_clone", "do_exit", "do_mmap",
          "handle_mm_fault", "do_wait", "kmem_cache_free", "net_rx_action", "run_timer_softirq", "hrtimer_interrupt"]
NOT_THEIRS = {"own", "idle", "stopper", "nmi", "session-end"}


def all_functions(programs):
    """In one session of all functions, each without what it calls: it takes a while to begin and to end."""
    natively = {program: in_fresh_directory(*command(program)) for program in programs}
    with all_sites_patched():
        owner = session("call", "fn:*", "--only", "--yes", "-f", "json")
    for program, (native, native_time) in natively.items():
        name = f"{program} under calls of all functions"
        counted, counted_time = in_fresh_directory(*command(program))
        compared(name, native, counted)
        figure(f"{name}: time", f"{native_time:.1f} s, instrumented {counted_time:.1f} s")
    with all_sites_patched():
        out, err = interrupt(owner)
    same("all functions: the session ends well", owner.returncode, 0)
    check("all functions: a report", out, err)
    data = report(out)
    calls = {name: data["by_name"].get(name, {"calls": 0})["calls"] for name in CALLED}
    check("all functions: the programs made calls", min(calls.values()) > 0, calls)
    missed = Counter()
    for target in data["targets"]:
        missed.update(target["missed_by"])
    check("all functions: no call of theirs is missed", set(missed) <= NOT_THEIRS, missed)
    figure("all functions", (data["functions"]["entered"], sum(one["calls"] for one in data["targets"]), dict(missed)))


def program(kind, *programs):
    os.environ["LC_ALL"] = "C"
    if kind == "functions":
        all_functions(programs)
    else:
        for each in programs:
            compare(kind, each)
    same("the module has nothing to say", complaints(), [])


main(program)
