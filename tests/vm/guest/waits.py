# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads wait until the records of their calls are taken, where the records would be lost
otherwise: always, on one CPU.
"""

import os
import re
import signal
import struct
import time
from pathlib import Path

from lib import DD, Device, check, figure, is_loaded, main, module_file, plant, run, same, state_of, wait_for

TRACE = 5
GETPPID = 110
BY_TGID = 1 << 1
WAIT = 1 << 18
# Records of a ring that may lie there before a thread waits.
HALF = 1 << 15
WAITING = "jifl_ring_wait_here"
# Milliseconds: so long that a reader is back before, and so short that it is not.
LONG, SHORT = 300_000, 300


def patience(ms):
    """How long a thread waits from now on where nobody reads; the module's own is a second."""
    Path("/sys/module/jifl/parameters/ring_patience_ms").write_text(str(ms))


def nothing_is_lost():
    """However busy a program is."""
    patience(LONG)
    waited = 0
    for command in (["trace", "-o", "/dev/null"], ["trace", "-A", "-d", "-o", "/dev/null"], ["why"],
                    ["mem", "--records", "100000000", "-o", "/dev/null"]):
        end = run("jifl", *command, "sys:read", "sys:write", "--", *DD)
        said = re.search(r"records lost 0, calls missed 0(?:; threads waited (\d+) times for records to be taken, .* in all)?$", end.stderr, re.M)
        calls = re.search(r"^([\d,]+) calls, ", end.stderr, re.M)
        what = " ".join(word for word in command if word != "/dev/null")
        check(f"{what}: nothing is lost", end.returncode == 0 and said and int(calls[1].replace(",", "")) > 40000, end.stderr)
        waited += int(said[1] or 0) if said else 0
        figure(f"{what}: threads waited, times", said and said[1])
    check("since threads waited", waited, waited)


def caller():
    """A process that makes calls when it is told how many, and says so when they are made.

    Returns (its pid, the pipe, the other).
    """
    order, answer = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        os.close(order[1])
        while word := os.read(order[0], 8):
            for _ in range(struct.unpack("<Q", word)[0]):
                os.getppid()
            os.write(answer[1], word)
        os._exit(0)
    os.close(order[0])
    return pid, order[1], answer[0]


def wchan(pid):
    with open(f"/proc/{pid}/wchan") as f:
        return f.read()


def is_waiting(pid):
    return state_of(pid) in ("I", "D") and wchan(pid) == WAITING


def nobody_waits_for_ever():
    """A while, then not again until the ring is read."""
    pid, order, answer = caller()
    with Device() as device:
        device.start(TRACE, [GETPPID], filters=BY_TGID, tgid=pid, flags=WAIT)
        for rounds in (1, 2):
            patience(SHORT)
            os.write(order, struct.pack("<Q", 30000))
            os.read(answer, 8)
            words, lost, waits = device.records_and_waits(0)
            check("what it overwrote then is counted", lost > 0, (len(words), lost))
            same("all its calls were counted", device.stat(GETPPID)[0], 30000 * rounds)
        same("it waited once each time", waits, 2)
        # The thread's own end ends the waiting.
        patience(LONG)
        os.write(order, struct.pack("<Q", 10 ** 9))
        wait_for("a thread that waits", lambda: is_waiting(pid))
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        seconds = time.monotonic() - began
        check("it can be killed meanwhile", seconds < LONG / 2000, seconds)
    os.close(order)
    os.close(answer)


def ends():
    """The session ends while a thread waits: that goes on at once, and the module can go."""
    patience(LONG)
    pid, order, answer = caller()
    with Device() as device:
        device.start(TRACE, [GETPPID], filters=BY_TGID, tgid=pid, flags=WAIT)
        os.write(order, struct.pack("<Q", 30000))
        wait_for("a thread that waits", lambda: is_waiting(pid))
        began = time.monotonic()
        device.stop()
        figure("seconds until the session was ended", round(time.monotonic() - began, 2))
        os.read(answer, 8)
        calls = device.stat(GETPPID)[0]
        words, lost = device.records(0)
        check("of its calls until then nothing is lost", 0 < calls < 30000 and not lost and len(words) // 2 > HALF, (calls, len(words), lost))
    run("rmmod", "jifl", check=True)
    same("the module is gone", is_loaded(), False)
    run("insmod", module_file(), *plant(), check=True)
    os.close(order)
    os.waitpid(pid, 0)
    os.close(answer)


def tests():
    nothing_is_lost()
    nobody_waits_for_ever()
    ends()


if __name__ == "__main__":
    main(tests)
