# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each program has the same output and the same exit status without instrumentation and with it.

usage: programs.py KIND PROGRAM...

KIND: what `jifl count` counts. PROGRAM: a file of programs/.
"""

import json
import os
from pathlib import Path

from lib import SLOWNESS, check, complaints, figure, main, report, same
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
    same(f"{name}: exit status", counted.returncode, native.returncode)
    for stream in ("stdout", "stderr"):
        got, want = getattr(counted, stream).splitlines(), getattr(native, stream).splitlines()
        differ = [(g, w) for g, w in zip(got, want) if g != w]
        check(f"{name}: {stream}", got == want, f"{len(got)} lines, {len(want)} natively; {differ[:3]}")
    check(f"{name}: it did something", len(native.stdout) > 100, native)
    sane(name, report(Path("/tmp/report.json").read_text()), kind)
    if program.startswith("compile"):
        memory(name, "/tmp/status.json")


def program(kind, *programs):
    os.environ["LC_ALL"] = "C"
    for each in programs:
        compare(kind, each)
    same("the module has nothing to say", complaints(), [])


main(program)
