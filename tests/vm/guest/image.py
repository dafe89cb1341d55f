# SPDX-License-Identifier: MIT OR Apache-2.0
"""Keeps the code of a machine, and waits until its memory has been written to a file.

usage: image.py DIRECTORY

DIRECTORY is the host's. It gets the directory `kernel`, which `jifl analyze --keep` makes, and then
the file `ready`. The program ends when the file `done` is there.
"""

import os
import time
from pathlib import Path

from lib import PATIENCE, SLOWNESS, check, main, run


def image(directory):
    directory = Path(directory)
    for module in "ext4", "nf_tables", "xfs":
        run("modprobe", module)
    kept = run("jifl", "analyze", "--keep", directory / "kernel")
    check("the kernel is kept", kept.returncode == 0, kept)
    (directory / "ready").touch()
    end = time.monotonic() + PATIENCE * SLOWNESS
    while "done" not in os.listdir(directory) and time.monotonic() < end:
        time.sleep(0.2)
    check("the memory is written", "done" in os.listdir(directory))


main(image)
