# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each peer of the benchmark does each job on a read of one byte.

usage: peers.py
"""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from lib import background, check, figure, main, run, same

CALLS = 200
KPROBES = Path("/sys/kernel/debug/kprobes")
TRACING = Path("/sys/kernel/tracing")
OPTIMISATION = Path("/proc/sys/debug/kprobes-optimization")
MODULE = Path("/proc/jifl_bench_peers")


def mitigated(pattern):
    """Whether the kernel says of itself that it has a mitigation that is called so."""
    said = "".join(path.read_text() for path in Path("/sys/devices/system/cpu/vulnerabilities").iterdir())
    return re.search(pattern, said)


def returns_by_thunks():
    return mitigated("return thunk|Stuffing|Safe RET")


def left_behind():
    """What peers put into the kernel, and what was there before."""
    return {"kprobes": (KPROBES / "list").read_text(), "ftrace": (TRACING / "enabled_functions").read_text(),
            "instances": os.listdir(TRACING / "instances"), "optimisation": OPTIMISATION.read_text(),
            "module": MODULE.exists()}


def rows():
    """The collected places, and the rows by method and job."""
    done = run("jifl", "bench-peers", "read", "--calls", str(CALLS))
    check("bench-peers ends well", done.returncode == 0, done)
    first, *others = (json.loads(line) for line in done.stdout.splitlines())
    return first, {(row["method"], row["job"]): row for row in others}


def counted(method, job, found, least):
    """The row counted what was executed, at no less than that part of the places."""
    row = found[method, job]
    name = f"{method}, {job}"
    check(f"{name}: is there", "hits" in row, row)
    # What was executed more or less often was so by chance: one call was preempted, say.
    each_time = row["expected"] // CALLS * CALLS
    check(f"{name}: hits", 0 < each_time <= row["hits"] < 2 * row["expected"], row)
    check(f"{name}: places", row["sites"] * least <= row["covered"] <= row["sites"], row)
    figure(name, f"{row['covered']} of {row['sites']} places, {row['jumps']} jumps, "
                 f"{row['hits']} hits of {row['expected']}, missed {row['missed']}")
    return row


def missing(found, method, job, words):
    why = found[method, job].get("missing", "")
    check(f"{method}, {job}: says that it is missing", words in why and "\n" not in why, found[method, job])


def blocks_covered():
    """At least this part: no probe can stand before a function, where a block counts its calls."""
    return 0.8 if mitigated("Stuffing") else 0.9


def all_there():
    before = left_behind()
    first, found = rows()
    same("one handler, each call", first["calls"], [1, CALLS])
    check("places", first["blocks"][0] > first["functions"][0] > 5, first)
    for method in ("kprobes int3", "kprobes jump-optimised"):
        blocks = counted(method, "count blocks", found, blocks_covered())
        same(f"{method}: JIFL's blocks", blocks["executions"], first["blocks"][1])
        calls = counted(method, "trace calls", found, 0.9)
        same(f"{method}: JIFL's functions", calls["executions"], first["functions"][1])
        same(f"{method}: every call", counted(method, "count calls", found, 1)["expected"], CALLS)
    for job in ("count blocks", "trace calls"):
        same(f"no jump where int3 is asked for: {job}", found["kprobes int3", job]["jumps"], 0)
        row = found["kprobes jump-optimised", job]
        # Kernels up to 6.4 take a return through a thunk for an indirect jump, and place none in
        # such functions.
        least = 0 if returns_by_thunks() else row["covered"] / 2
        check(f"jumps: {job}", least <= row["jumps"] <= row["covered"], row)
    missing(found, "function tracer", "count blocks", "not basic blocks")
    missing(found, "BPF fentry", "count blocks", "not to basic blocks")
    for method in ("function tracer", "BPF fentry"):
        counted(method, "count calls", found, 1)
        counted(method, "trace calls", found, 0.6)
    same("every row counted, but for these", sorted(key for key, row in found.items() if "hits" not in row),
         [("BPF fentry", "count blocks"), ("function tracer", "count blocks")])
    same("nothing is left", left_behind(), before)


def null_rows():
    done = run("jifl", "bench-peers", "null", "--calls", str(CALLS))
    check("bench-peers ends well", done.returncode == 0, done)
    return {(row["method"], row["job"]): row for row in map(json.loads, done.stdout.splitlines()[1:])}


def some_missing():
    """Kprobes switched off, then no debugfs and no tracefs: the others go on."""
    (KPROBES / "enabled").write_text("0")
    found = null_rows()
    for method in ("kprobes int3", "kprobes jump-optimised"):
        missing(found, method, "count blocks", "switched off: echo 1 > ")
    counted("function tracer", "trace calls", found, 0.6)
    (KPROBES / "enabled").write_text("1")
    for place in ("/sys/kernel/tracing", "/sys/kernel/debug"):
        subprocess.run(["umount", "-l", place], check=True)
    found = null_rows()
    missing(found, "function tracer", "trace calls", "mount -t tracefs")
    counted("kprobes jump-optimised", "count blocks", found, blocks_covered())
    counted("BPF fentry", "count calls", found, 1)
    for kind, place in (("tracefs", "tracing"), ("debugfs", "debug")):
        subprocess.run(["mount", "-t", kind, kind, f"/sys/kernel/{place}"], check=True)


def killed():
    """Probes go with the process that asked for them, in whatever way it ends."""
    peer = background("jifl", "bench-peers", "read", "--calls", "100000")
    deadline = time.monotonic() + 120
    while not (KPROBES / "list").read_text() and time.monotonic() < deadline:
        time.sleep(0.2)
    check("it was at work", (KPROBES / "list").read_text() != "", peer.poll())
    peer.send_signal(signal.SIGKILL)
    peer.communicate()
    same("no probe is left", (KPROBES / "list").read_text(), "")
    OPTIMISATION.write_text("1")


def program():
    all_there()
    some_missing()
    killed()


main(program)
