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


def on_each_processor():
    """Runs on each processor once, so whoever was being switched away from there is gone.

    A task is seen asleep (get_wchan) before that, and the host may stop the processor in between.
    """
    before = os.sched_getaffinity(0)
    for cpu in range(os.sysconf("SC_NPROCESSORS_ONLN")):
        os.sched_setaffinity(0, {cpu})
    os.sched_setaffinity(0, before)


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
        on_each_processor()

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
