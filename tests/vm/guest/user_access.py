# SPDX-License-Identifier: MIT OR Apache-2.0
"""Code that is inserted where the kernel may access user memory: tasks are switched there, and go on as before.

usage: user_access.py

The machine's processor has no fast `rep stosb`. So the kernel calls rep_stos_alternative between stac and clac.
"""

import json
import signal

from lib import background, check, complaints, figure, interrupt, kernel_log, log_mark, main, same, session

SECONDS = 10


def test():
    mark = log_mark()
    owner = session("sys:read", "--paths", "-n", "dd", "-f", "json", command="prof")
    # In the foreground: otherwise timeout sends the signal twice, to its child and to its group.
    # dd dies of the second without a word if it comes between the first and what dd prints then.
    end = ("timeout", "--foreground", "-s", "INT", SECONDS)
    # Of no mapping, so of no page: each clears a few bytes of a buffer.
    words = (*end, "dd", "if=/dev/zero", "of=/dev/null", "bs=200")
    readers = [background(*words) for _ in range(4)]
    for one in readers:
        _, err = one.communicate()
        check("a reader goes on to its end", "records in" in err and one.returncode in (124, -signal.SIGINT), err)
    out, _ = interrupt(owner)
    found = json.loads(out)
    cleared = sum(row["calls"] for row in found["paths"] if row["path"][-1] == "rep_stos_alternative")
    check("user memory is cleared by a function", cleared > 10_000, cleared)
    figure("calls with access to user memory", cleared)
    same("the kernel has nothing to say", complaints(kernel_log(mark)), [])


main(test)
