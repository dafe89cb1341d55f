# SPDX-License-Identifier: MIT OR Apache-2.0
"""A process that waits until something is written to it, and the clock by which one can tell for how long."""

import os
import subprocess
import time
from pathlib import Path

from lib import state_of, wait_for


def now():
    """A clock that nobody corrects: it goes at the counter's own rate."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


class Reader:
    """A process that reads from a pipe until it gets nothing, in the background."""

    def __init__(self):
        self.pipe, other = os.pipe()[::-1]
        self.process = subprocess.Popen(["cat"], stdin=other, stdout=subprocess.DEVNULL)
        os.close(other)
        self.sleeps()

    def sleeps(self):
        """It is in its read, and does not run."""
        where = Path(f"/proc/{self.process.pid}/wchan")
        wait_for("the reader sleeps", lambda: state_of(self.process.pid) == "S" and "pipe" in where.read_text())

    def waits(self, rounds, clock, seconds):
        """It gets a byte so many times, each when it has been asleep for a while. How far the clock went meanwhile."""
        least = 0
        for _ in range(rounds):
            self.sleeps()
            seen = clock()
            time.sleep(seconds)
            least += clock() - seen
            os.write(self.pipe, b"x")
        return least

    def end(self):
        os.close(self.pipe)
        self.process.wait()
