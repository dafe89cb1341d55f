# SPDX-License-Identifier: MIT OR Apache-2.0
"""A cache that is emptied again and again while several sessions have the same calls.

One of the sessions comes and goes.

usage: flushes.py MODULE CALLS

MODULE: jifl.ko as built for tests (host/kernel/plant.h). The machine poisons freed memory, so that
a task that goes on with freed memory fails at once.
"""

import json
from pathlib import Path

from lib import add, background, check, figure, interrupt, is_loaded, main, plant, run, same, session, status

PROGRAM = ("for i in 1 2 3; do ls /proc/self/fd >/dev/null; wc -c /etc/passwd; done; "
           "dd if=/dev/zero bs=777 count=300 status=none | sha256sum")
CALLS = 3000    # of each of the two tasks that do nothing else, each time
# One without a filter, three with: their calls are of mixes of two, and of none alone.
SESSIONS = [("block", []), ("insn", ["-n", "calls"]), ("call", ["-n", "dd"]), ("insn", ["-n", "ls"])]
FLUSHES = 6
VISITS = 4      # of the last of them, which comes and goes


def ended(owner):
    """Ends a session. Returns its calls, counted and missed."""
    out, _ = interrupt(owner)
    same("a session's exit status", owner.returncode, 0)
    data = json.loads(out)
    return sum(target["calls"] for target in data["targets"]), data["missed"]


def program(module, calls):
    native = run("sh", "-c", PROGRAM)
    end = run("/sbin/insmod", module, "cache_kb=128", "side_kb=256", *plant())
    same("the module loads", end.returncode, 0)
    owners = [session(kind, "sys:*", *words, "-f", "json") for kind, words in SESSIONS[:-1]]
    stop = Path("/tmp/stop")
    callers = [background("sh", "-c", f"while [ ! -e {stop} ]; do {calls} {CALLS} || exit 1; done") for _ in range(2)]
    runs = 0
    counted, missed = [0], [0]      # of the sessions that come and go first
    # However long that takes: the machine's time is limited.
    while status()["flushes"] < FLUSHES or runs < VISITS:
        kind, words = SESSIONS[-1]
        visitor = session(kind, "sys:*", *words, "-f", "json")
        end = run("sh", "-c", PROGRAM)
        same("output and status", (end.stdout, end.returncode), (native.stdout, native.returncode))
        calls_of, missed_of = ended(visitor)
        counted[0] += calls_of
        missed[0] += missed_of
        runs += 1
    flushes = status()["flushes"]
    stop.touch()
    for caller in callers:
        out, err = caller.communicate(timeout=300)
        check("tasks that make calls all the time end well", caller.returncode == 0, (out, err))
    for owner in reversed(owners):
        calls_of, missed_of = ended(owner)
        counted.append(calls_of)
        missed.append(missed_of)
    check("sessions have counted or missed calls", all(c + m for c, m in zip(counted, missed)), (counted, missed))
    check("calls were counted between the flushes", counted[-1] > 100, counted)
    figure("runs, flushes, calls counted and missed by each session", f"{runs}, {flushes}, {counted}, {missed}")
    add("flushes with several sessions", flushes)
    same("no session is left", status()["sessions"], [])
    end = run("/sbin/rmmod", "jifl")
    check("the module goes", end.returncode == 0 and not is_loaded(), end)


main(program)
