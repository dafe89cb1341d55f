#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""One load in a machine with the front-end clock: natively, in copies, in a layout.

usage: guest.py MARKED COUNTS LOAD TARGET...

COUNTS: the directory of the plugin's files. Prints an object: for each way the rows of events of
its rounds, and what the layout was.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOAD = Path(__file__).resolve().parent / "load.sh"
ROUNDS = 5
# Rounds before them. Caches of files and of dentries are as they stay then, and branches go where
# they mostly go.
WARM = 4


def once(load, *before):
    return subprocess.run([*before, "sh", LOAD, load, "once"], capture_output=True, text=True, check=True).stdout


def measured(load, marked, counts, want):
    """The events of some rounds."""
    rows = []
    for _ in range(WARM):
        once(load)
    for _ in range(ROUNDS):
        got = once(load, marked)
        if got != want:
            raise RuntimeError(f"{load} printed {got!r}, not {want!r}")
        files = sorted(counts.iterdir(), key=lambda path: int(path.name))
        rows.append([int(word) for word in files[-1].read_text().split()])
    return rows


def in_session(load, marked, counts, want, words, begun):
    """The same while `jifl WORDS` runs. begun(line): has it come to where rounds count?"""
    process = subprocess.Popen(["jifl", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        begun(process, load)
        rows = measured(load, marked, counts, want)
    finally:
        process.send_signal(2)
        out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(f"jifl {words}: {err}")
    return rows, out


def running(_process, load):
    while not json.loads(subprocess.run(["jifl", "status", "-f", "json"], capture_output=True, check=True).stdout)["sessions"]:
        time.sleep(0.1)
    once(load)


def laid(process, load):
    """The load runs as long as it is measured."""
    reader = subprocess.Popen(["grep", "-m", "1", "jifl: laid"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    while reader.poll() is None:
        once(load)
    if reader.returncode:
        raise RuntimeError(f"nothing was laid for {load}")


def main(marked, counts, load, *targets):
    counts = Path(counts)
    # Its scans come at any time, and are much code.
    Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never")
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["sh", LOAD, load, "begin"], check=True, cwd=directory, stdout=subprocess.DEVNULL)
        os.chdir(directory)
        want = once(load)
        found = {"native": measured(load, marked, counts, want)}
        found["copies"], _ = in_session(load, marked, counts, want, ["count", "none", *targets], running)
        found["layout"], out = in_session(load, marked, counts, want,
                                          ["optimize", *targets, "--measure", "10s", "-f", "json"], laid)
        found["report"] = json.loads(out)["layouts"][0]
        # What the kernel still does after it has booted does not make the figures before look better.
        found["native"] += measured(load, marked, counts, want)
        print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
