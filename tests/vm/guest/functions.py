# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions of the kernel as targets.

usage: functions.py ROUNDS

The functions are called by everything that runs: in system calls, faults, kernel threads, with
locks held, interrupts off and inside the scheduler.
"""

import signal
import time
from pathlib import Path

from contexts import MODULE
from lib import (background, check, ends_clean, figure, interrupt, log_mark, main, module_file, plant, report, run, same,
                 session, wait_for)

# Called all the time. Each kernel has most of them.
BUSY = """vfs_read vfs_write do_filp_open path_openat dput mutex_lock mutex_unlock _raw_spin_lock _raw_spin_unlock
    _raw_spin_lock_irqsave _raw_spin_unlock_irqrestore __rcu_read_lock __rcu_read_unlock schedule schedule_timeout
    ktime_get kfree kmem_cache_free kernel_clone do_exit handle_mm_fault pipe_read pipe_write wait_for_completion
    update_curr pick_next_task_fair enqueue_task_fair try_to_wake_up __module_address is_ftrace_trampoline
    copy_from_kernel_nofault process_one_work kthread_worker_fn worker_thread __kthread_parkme""".split()

LOAD = ["while :; do cat /etc/hostname /proc/self/stat >/dev/null; done",
        "while :; do ls -lR /etc >/dev/null 2>&1; done",
        "dd if=/dev/zero bs=64k 2>/dev/null | cat >/dev/null"]


def targets():
    """As globs, because these leave out what cannot be a target on this kernel."""
    sites = Path("/sys/kernel/tracing/available_filter_functions").read_text().splitlines()
    return [f"fn:{name[:-1]}?" for name in BUSY if name in sites]


# The module as built for tests keeps a thread at a door that goes (host/kernel/plant.h).
TEST_MODULE = module_file().replace("/modules/", "/modules-test/")
DOOR = Path("/sys/module/jifl/parameters/door")
# Asks for its group again and again, until a line comes.
ASKER = """import os, select, sys
while not select.select([sys.stdin], [], [], 0)[0]:
    os.getpgid(0)
print("well")"""
# A session ends sooner by far, even on a busy host.
SECONDS_OF_AN_END = 5


def at_a_door():
    """A session ends when no thread is at a door that it takes away, and the thread goes on."""
    run("rmmod", "jifl", check=True)
    run("insmod", TEST_MODULE, *plant(), check=True)
    asker = background("/usr/bin/python3", "-S", "-E", "-c", ASKER, stdin=-1)
    owner = session("call", "fn:do_getpgid", "-f", "json")
    DOOR.write_text("1")
    owner.send_signal(signal.SIGINT)
    wait_for("a thread is at the door", lambda: DOOR.read_text() == "3\n")
    deadline = time.monotonic() + SECONDS_OF_AN_END
    while owner.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    check("at a door: the session's end waits for the thread", owner.poll() is None, owner.poll())
    DOOR.write_text("0")
    out, err = owner.communicate()
    same("at a door: exit status", (owner.returncode, err.startswith("Detaching... ")), (0, True))
    check("at a door: calls", report(out)["by_name"]["do_getpgid"]["calls"] > 0, out)
    same("at a door: the thread goes on", asker.communicate("stop\n"), ("well\n", ""))
    run("rmmod", "jifl", check=True)
    run("insmod", TEST_MODULE if plant() else module_file(), *plant(), check=True)


def one_system_call():
    """A handler costs the same as a function, from its first instruction, and as a system call."""
    call = "import os, sys\nfor n in range(200): os.getppid()"
    for what in ("insn", "block"):
        costs = []
        for target, name in (("sys:getppid", "getppid"), ("fn:__x64_sys_getppid", "__x64_sys_getppid")):
            end = run("jifl", "count", what, target, "-f", "json", "--", "/usr/bin/python3", "-c", call)
            got = report(end.stdout)["by_name"][name]
            check(f"{what} {target}: calls", got["calls"] >= 200 and not got["missed"], got)
            costs.append(got["min"])
        same(f"{what} of getppid", costs[1], costs[0])


def another_comes():
    """A door that leads straight to a session's copy leads to both sessions' when another comes."""
    calls = 1000

    def ask():
        run("/usr/bin/python3", "-S", "-E", "-c", f"import os\nfor n in range({calls}): os.getpgid(0)")

    first = session("call", "fn:do_getpgid", "-f", "json")
    ask()
    second = session("call", "fn:do_getpgid", "-f", "json")
    ask()
    of_first = report(interrupt(first)[0])
    ask()
    of_second = report(interrupt(second)[0])
    for name, data in (("first", of_first), ("second", of_second)):
        got = data["by_name"].get("do_getpgid", {"calls": 0, "missed": 0})
        same(f"calls of the {name} session", (got["calls"], got["missed"]), (2 * calls, 0))


def rounds(count):
    """Sessions come and go under load."""
    functions = targets()
    load = [background("/bin/bash", "-c", line, start_new_session=True) for line in LOAD]
    calls = 0
    for round_ in range(count):
        what = ("call", "insn", "block")[round_ % 3]
        end = run("jifl", "count", what, *functions, "--for", "200ms", "-f", "json")
        if not check(f"round {round_}: {what}", end.returncode == 0, end):
            break
        data = report(end.stdout)
        calls += sum(target["calls"] for target in data["targets"])
        check(f"round {round_}: functions", data["functions"]["entered"] >= 25, data["functions"])
    check("calls were counted", calls > 1000 * count, calls)
    figure("calls counted in all rounds", calls)
    return load


def beside_each_other():
    """Three sessions at once, of which one ends early: none has another's counts, or its code."""
    whole = session("insn", "sys:*", "-f", "json")
    first = session("call", "fn:vfs_read", "fn:dput", "-f", "json")
    for _ in range(5):
        end = run("jifl", "count", "insn", "fn:vfs_read", "fn:do_filp_open", "--for", "300ms", "-f", "json")
        same("the session that comes and goes", end.returncode, 0)
        inner = report(end.stdout)["by_name"]["vfs_read"]
        same("its calls inside those of others are counted", (inner["calls"] > 0, inner["missed_by"].get("nested", 0)),
             (True, 0))
    out, _ = interrupt(first)
    data = report(out)["by_name"]
    same("calls inside the other session's calls are counted", (data["vfs_read"]["calls"] > 0, data["vfs_read"]["missed"]),
         (True, 0))
    out, _ = interrupt(whole)
    check("the session on system calls counts", report(out)["by_name"]["read"]["calls"] > 0, out[:200])


def not_a_session_more():
    """Sessions with functions have a lane of their own."""
    owners = [session("call", "fn:vfs_read", "-f", "json") for _ in range(4)]
    end = run("jifl", "count", "call", "fn:dput", "--for", "1s")
    check("a fifth is refused", end.returncode == 1 and "as many sessions as can be" in end.stderr, end)
    for owner in owners:
        interrupt(owner)
    same("and then it is not", run("jifl", "count", "call", "fn:dput", "--for", "100ms").returncode, 0)


def known():
    """Functions are known as they are now, whatever earlier commands have kept."""
    kept = Path("/run/jifl/functions")

    def listed(name):
        end = run("jifl", "list", f"fn:{name}")
        if end.returncode:
            same(f"{name}: it is refused", (end.returncode, "no such function" in end.stderr), (1, True))
        return end.stdout

    everything = listed("vfs_*")
    for damage in (lambda all: all[:len(all) // 2], lambda all: all.replace(b"vfs_read", b"vfs_reed", 1)[1:],
                   lambda all: b"", lambda all: all):
        kept.write_bytes(damage(kept.read_bytes()))
        same("the same functions", listed("vfs_*"), everything)
    for _ in range(2):
        same("a module's function before it comes", listed("contexts_work"), "")
        same("the module comes", run("insmod", MODULE).returncode, 0)
        check("its function then", "contexts_work" in listed("contexts_work"), listed("contexts_work"))
        same("the module goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("nobody else reads it", kept.stat().st_mode & 0o777, 0o600)
    kept.chmod(0o666)
    kept.write_bytes(kept.read_bytes().replace(b"vfs_read", b"vfs_reed"))
    same("what others may have written is not used", listed("vfs_*"), everything)
    same("and it is root's alone again", kept.stat().st_mode & 0o777, 0o600)


def functions(count):
    mark = log_mark()
    at_a_door()
    known()
    one_system_call()
    another_comes()
    load = rounds(int(count))
    beside_each_other()
    not_a_session_more()
    ends_clean(load, mark)


if __name__ == "__main__":
    main(functions)
