# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each program does as it does natively while what is dead in the kernel is overwritten.

usage: garbage.py DIRECTORY ROUNDS PROGRAM...

DIRECTORY is the host's. It gets `kernel`, which `jifl analyze --keep` makes, and then the file
`asked`. Then the host makes `lists` there: for each round, from 1 on, a file of its number, as
host/kernel/garbage.c wants it. PROGRAM: a file of programs/.
"""

import os
import subprocess
from array import array
from bisect import bisect_left
from pathlib import Path

from lib import Device, PATIENCE, SLOWNESS, add, check, complaints, figure, main, run, same, wait_for
from programs_run import command, in_fresh_directory

PARAMETERS = Path("/sys/module/jifl/parameters")
ALL = range(512)
# Beside each program, so that its calls are interrupted, and wait for others.
LOAD = "while :; do ls -lR /etc | sort | gzip -1 | wc -c; done"


def places_of(path):
    """The addresses of a list, their low halves, in order."""
    words = array("Q", path.read_bytes())
    return array("I", (word & 0xffffffff for word in words))


def executed(places, blocks):
    """Those that lie in blocks that were executed."""
    found = set()
    for block in blocks:
        if block.executed:
            begin = block.orig & 0xffffffff
            found.update(places[bisect_left(places, begin):bisect_left(places, begin + block.length)])
    return found


def round_of(number, path, native):
    """One list, and each program with it."""
    places = places_of(path)
    (PARAMETERS / "garbage").write_text(str(path))
    with Device() as device:
        # Of all tasks: the load's and this one's calls are in copies, too.
        device.start(Device.PROFILE, ALL)
        for program, want in native.items():
            got = outcome(program)
            same(f"round {number}: {program}", got, want)
        device.stop()
        blocks, refused = device.counts()
    reached = executed(places, blocks)
    put = int((PARAMETERS / "garbage_put").read_text())
    check(f"round {number}: no block was refused", not refused, refused)
    check(f"round {number}: places were executed", len(reached) >= 300, len(reached))
    figure(f"round {number}", f"{len(reached):,} places of {len(places):,} were executed with garbage, {put:,} are in copies")
    add("places executed with garbage in what is dead", len(reached))


def outcome(program):
    end, _ = in_fresh_directory(*command(program))
    return end.returncode, end.stdout, end.stderr


def garbage(directory, rounds, *programs):
    os.environ["LC_ALL"] = "C"
    directory = Path(directory)
    native = {program: outcome(program) for program in programs}
    check("the programs do something", all(len(stdout) > 100 for _, stdout, _ in native.values()), native)
    kept = run("jifl", "analyze", "--keep", directory / "kernel")
    check("the kernel is kept", kept.returncode == 0, kept)
    (directory / "asked").touch()
    wait_for("the lists", (directory / "lists").exists, PATIENCE)
    load = subprocess.Popen(["sh", "-c", LOAD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            stdin=subprocess.DEVNULL, start_new_session=True)
    for number in range(1, int(rounds) + 1):
        round_of(number, directory / "lists" / str(number), native)
    check("the load runs on", load.poll() is None, load.returncode)
    os.killpg(load.pid, 9)
    load.wait(PATIENCE * SLOWNESS)
    same("the module has nothing to say", complaints(), [])


main(garbage)
