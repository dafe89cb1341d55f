# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that load a kernel heavily have the same results with and without instrumentation, and
sessions give back the memory that they took.

usage: load.py SECONDS LOAD...

SECONDS: how long to go on, one load after the other; 0: each load once. LOAD: a file of loads/, or
FILE:ARGUMENT.
"""

import contextlib
import itertools
import os
import shutil
import time
from pathlib import Path

from lib import check, complaints, figure, main, report, run, same, settled, status

LOADS = Path(__file__).resolve().parent.parent / "loads"
DIRECTORY = Path("/tmp/load")
REPORT = Path("/tmp/load-report.json")

# Memory of the kernel that a session which is over must have given back, and how
# far it moves by itself between two measurements: stacks kept for new threads and
# the like. In kB.
MEMORY = {"SUnreclaim": 1024, "VmallocUsed": 512, "Percpu": 64}


def command(load):
    name, _, argument = load.partition(":")
    path = LOADS / name
    interpreter = ["/usr/bin/python3", "-B"] if path.suffix == ".py" else ["sh"]
    return [*interpreter, path, *([argument] if argument else [])]


def in_fresh_directory(*words):
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(mode=0o777)
    DIRECTORY.chmod(0o777)
    start = time.monotonic()
    end = run(*words, cwd=DIRECTORY, timeout=1200)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    return end, time.monotonic() - start


def memory():
    """What the kernel uses, with what it can drop dropped."""
    run("sync")
    for _ in range(2):
        Path("/proc/sys/vm/drop_caches").write_text("3")
        # Slabs that are partly free, and what KASAN keeps from being used again.
        for cache in Path("/sys/kernel/slab").glob("*/shrink"):
            # One may go meanwhile.
            with contextlib.suppress(FileNotFoundError):
                cache.write_text("1")
        time.sleep(0.3)
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    values = {words[0].rstrip(":"): int(words[1]) for words in lines}
    return {name: values[name] for name in MEMORY}


def natively(load):
    end, took = in_fresh_directory(*command(load))
    check(f"{load}: works natively", end.returncode == 0 and len(end.stdout) > 20, end)
    figure(f"{load}: natively", f"{took:.1f} s")
    return end


def counted(load, native):
    end, took = in_fresh_directory("jifl", "count", "block", "sys:*", "-f", "json", "-o", REPORT, "--",
                                   *command(load))
    same(f"{load}: exit status", end.returncode, native.returncode)
    got, want = end.stdout.splitlines(), native.stdout.splitlines()
    differ = sorted(set(got) ^ set(want))
    check(f"{load}: results", got == want, f"{len(got)} lines, {len(want)} natively; {differ[:12]}; {end.stderr}")
    data = report(REPORT.read_text())
    calls = sum(target["calls"] for target in data["targets"])
    used = [target["syscall"] for target in data["targets"] if target["calls"]]
    check(f"{load}: calls were counted", calls > 1000, calls)
    check(f"{load}: memory did not run out", "memory" not in data["native_exits"], data["native_exits"])
    figure(f"{load}: counted", f"{took:.1f} s, {calls} calls of {len(used)} kinds, "
           f"{data['translation']['blocks']} blocks, native exits {data['native_exits']}, missed {data['missed']}")


def batch(loads):
    # Once natively: what the programs leave in the kernel is not the sessions'.
    natives = {load: natively(load) for load in loads}
    before = memory()
    for load in loads:
        counted(load, natives[load])
    same("no session and no block is left", (status()["sessions"], status()["blocks"]), ([], 0))
    after = settled(memory, lambda now: all(now[name] - before[name] <= most for name, most in MEMORY.items()))
    for name, most in MEMORY.items():
        check(f"{name} is back to where it was", after[name] - before[name] <= most,
              f"{before[name]} kB before, {after[name]} kB after {loads}")
    figure("memory", ", ".join(f"{name} {before[name]} -> {after[name]} kB" for name in MEMORY))


def program(seconds, *loads):
    os.environ["LC_ALL"] = "C"
    if float(seconds):
        began = time.monotonic()
        for load in itertools.cycle(loads):
            batch([load])
            if time.monotonic() - began > float(seconds):
                break
    else:
        batch(loads)
    same("the module has nothing to say", complaints(), [])


main(program)
