# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions come and go under load.

usage: churn.py ROUNDS		0: the load alone, as the control
"""

import os
import random
import signal
import subprocess
import time

from lib import check, figure, is_loaded, main, run, same, session, status, wait_for

# Each does the same for ever and stops with status 1 at the first wrong result.
LOADS = {
    "pipes": "while :; do [ $(seq 200 | tr -d '\\n' | wc -c) = 492 ] || exit 1; done",
    "files": "while :; do dd if=/dev/zero of=/tmp/load bs=4k count=50 2>/dev/null; "
             "[ $(stat -c %s /tmp/load) = 204800 ] || exit 1; rm /tmp/load; done",
    "forks": "while :; do i=0; while [ $i -lt 20 ]; do (exit 5); [ $? = 5 ] || exit 1; i=$((i+1)); done; done",
    "walks": "n=$(find /proc/sys | wc -l); while :; do [ $(find /proc/sys | wc -l) = $n ] || exit 1; done",
}


def one_round(chance):
    """Starts a session; it ends by itself, by Ctrl-C or by SIGKILL."""
    kind = chance.choice(["none", "call", "insn", "block"])
    end = chance.choice(["time", "interrupt", "kill"])
    if end == "time":
        done = run("jifl", "count", kind, "sys:*", "--for", f"{chance.randrange(10, 200)}ms")
        return done.returncode == 0, f"{kind} {end}: {done}"
    process = session(kind, "sys:*")
    time.sleep(chance.random() * 0.1)
    process.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    wait_for("the session's end", lambda: not status()["sessions"])
    return process.returncode == (0 if end == "interrupt" else -9), f"{kind} {end}: {process.returncode} {err}"


def churn(rounds):
    seed = int(os.environ.get("JIFL_TEST_SEED", time.time_ns() % 10**6))
    figure("seed", seed)
    chance = random.Random(seed)
    loads = {name: subprocess.Popen(["sh", "-c", script]) for name, script in LOADS.items()}
    for number in range(int(rounds)):
        good, detail = one_round(chance)
        if not good:
            check(f"round {number}", False, detail)
    if int(rounds):
        check(f"{rounds} rounds", True)
        figure("translated blocks", status()["translated_blocks"])
    else:
        time.sleep(20)
    for name, process in loads.items():
        same(f"load {name} still runs, with right results", process.poll(), None)
        process.kill()
        process.wait()
    if int(rounds):
        end = run("jifl", "unload", "jifl")
        check("the module unloads", end.returncode == 0 and not is_loaded(), end)


main(churn)
