# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions start and end, in every possible way, while processes work.

usage: churn.py ROUNDS SEED	with the module
       churn.py SECONDS		the same load alone
"""

import random
import signal
import time
from pathlib import Path

from lib import SLOWNESS, Device, background, check, figure, is_loaded, main, run, same, status, wait_for

WORKER = Path(__file__).resolve().parent.parent / "programs/worker.sh"
LOAD = ["copy", "list", "fork", "pipe"]
LONGEST_END = 300 * SLOWNESS
TARGETS = [["sys:*"], ["sys:*"], ["sys:read", "sys:write", "sys:openat", "sys:close"], ["sys:*e*"],
           ["sys:clone", "sys:execve", "sys:wait4", "sys:exit_group"]]
# Tasks sleep in some of these, threads never leave others, and others are called in interrupts or
# have no ftrace site. Who is inside when a session begins is taken over.
FUNCTIONS = [["fn:vfs_*"], ["fn:do_wait*", "fn:pipe_read", "fn:schedule_timeout", "fn:do_select"], ["kthread:*"],
             ["softirq:*", "fn:hrtimer_interrupt", "fn:irq_work_run"], ["fn:rb_*", "fn:clear_page_*", "fn:strn*"],
             ["fn:kmem_cache_*", "fn:*wake_up*", "--yes"], ["fn:ksys_*", "fn:rcu_*", "--only"]]

# How long they take is measured. All of them are called all the time, and some in interrupts, too.
TIMED = [["fn:vfs_*"], ["fn:do_wait*", "fn:pipe_*", "fn:schedule_timeout"], ["fn:hrtimer_interrupt", "fn:irq_work_run"],
         ["fn:kmem_cache_alloc*", "fn:kmem_cache_free", "fn:_raw_spin_lock", "fn:_raw_spin_unlock"]]


def start_load():
    """The workers by the files that stop them."""
    return {f"/tmp/stop-{kind}": background("sh", WORKER, kind, f"/tmp/stop-{kind}") for kind in LOAD}


def stop_load(workers):
    for stop in workers:
        Path(stop).touch()
    for stop, worker in workers.items():
        out, err = worker.communicate(timeout=120 * SLOWNESS)
        done, bad = (int(word) for word in out.split()) if worker.returncode == 0 else (0, -1)
        figure(stop.removeprefix("/tmp/stop-"), f"{done} times")
        check(f"{stop}: all results are right", bad == 0, err)
        check(f"{stop}: it went on", done > 0, f"{worker.returncode} {out} {err}")


def for_a_while(chance, words):
    """The command ends the session by itself."""
    end = run("jifl", *words, "--for", f"{chance.randrange(10, 90)}ms", "-o", "/tmp/churn")
    return end.returncode == 0, end


def begin(chance, words):
    """A command whose session runs, or is about to."""
    owner = background("jifl", *words, "-o", "/tmp/churn")
    time.sleep(chance.uniform(0, 0.15))
    return owner


def killed(chance, words):
    owner = begin(chance, words)
    owner.kill()
    out = owner.communicate(timeout=LONGEST_END)
    return owner.returncode == -signal.SIGKILL, out


def interrupted(chance, words):
    owner = begin(chance, words)
    owner.send_signal(signal.SIGINT)
    out = owner.communicate(timeout=LONGEST_END)
    # It may have come before the command had asked for it to be caught.
    return owner.returncode in (0, -signal.SIGINT), out


def detached(chance, words):
    owner = begin(chance, words)
    end = run("jifl", "detach")
    owner.send_signal(signal.SIGINT)
    out = owner.communicate(timeout=LONGEST_END)
    return end.returncode == 0 and owner.returncode in (0, 4, -signal.SIGINT), (end, out)


def quick(chance, words):
    """Several sessions on one file, with hardly any time in between."""
    with Device() as device:
        for _ in range(3):
            device.start(chance.randrange(4), range(512))
            time.sleep(chance.uniform(0, 0.02))
            if chance.random() < 0.7:
                device.stop()
            else:
                break
    return True, ""


WAYS = [for_a_while, for_a_while, killed, killed, killed, interrupted, detached, quick]


def session(chance):
    """The words of a command."""
    targets = chance.choice([TARGETS, TARGETS, FUNCTIONS, FUNCTIONS, TIMED])
    words = chance.choice(targets)
    if targets is TIMED:
        return ["stat", *words]
    what = chance.choice(["insn", "insn", "block", "call", "none"])
    # No call of a thread that is inside begins.
    if (what, words[0]) == ("call", "kthread:*"):
        what = "block"
    return ["count", what, *words]


def with_sessions(rounds, seed):
    chance = random.Random(seed)
    longest = 0
    for i in range(rounds):
        way = chance.choice(WAYS)
        words = session(chance)
        start = time.monotonic()
        good, what = way(chance, words)
        if not good:
            check(f"round {i}: {way.__name__} {words}, seed {seed}", False, what)
        wait_for("the session's end", lambda: not status()["sessions"])
        longest = max(longest, time.monotonic() - start)
    figure("longest round", f"{longest:.1f} s")
    same("no block is left in the cache", status()["blocks"], 0)


def program(amount, seed=None):
    # Others wait in state D for a session's end: what is stuck shows, what takes long on a slow
    # host does not.
    run("sysctl", "-qw", f"kernel.hung_task_timeout_secs={120 * SLOWNESS}", "kernel.hung_task_warnings=10")
    workers = start_load()
    start = time.monotonic()
    if seed is None:
        same("the module is not there", is_loaded(), False)
        time.sleep(float(amount) * SLOWNESS)
    else:
        with_sessions(int(amount), seed)
    figure("time", f"{time.monotonic() - start:.0f} s")
    stop_load(workers)
    if seed is not None:
        end = run("jifl", "unload", "jifl")
        check("the module unloads", end.returncode == 0 and not is_loaded(), end)


if __name__ == "__main__":
    main(program)
