# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes around instrumented tasks: processors, cgroups, the freezer, namespaces.

usage: surroundings.py CALLS
"""

import os
import signal
import time
from pathlib import Path

from lib import (SLOWNESS, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, report, run, same,
                 session, status)

CGROUPS = Path("/sys/fs/cgroup")
PROGRAM = ["sh", "-c", "for i in 1 2 3 4 5; do ls -l /proc/self/fd | wc -l; head -c 100000 /dev/zero | sha256sum; done"]
N = 2000
CALLS = ["sys:*"]
# In all contexts, in threads that each processor has for itself, and on the ways of a processor that
# goes or comes, and of tasks that freeze.
FUNCTIONS = ["fn:vfs_*", "fn:ksys_*", "fn:*wake_up*", "fn:*_timer*", "fn:kthread*", "fn:*freez*", "fn:cpuhp_*", "fn:*_cpu_dead",
             "fn:*_online_cpu", "fn:*_offline_cpu", "fn:net_rx_action", "fn:rcu_core", "fn:tick_*", "fn:hrtimer_*", "--yes"]


class Load:
    """Two processes that make system calls for as long as this is open."""

    def __enter__(self):
        self.all = [background("sh", "-c", "while :; do ls / > /dev/null; done", start_new_session=True)
                    for _ in range(2)]
        return self

    def __exit__(self, *_):
        for process in self.all:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def online(cpu, value):
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(value)


def processors(name, targets):
    """A processor goes and comes while calls run on it; sessions start and end with it away."""
    native = run(*PROGRAM).stdout
    owner = session("insn", *targets, "-f", "json")
    with Load():
        for round_ in range(4 if SLOWNESS == 1 else 1):
            online(1, "0")
            same(f"{name}: processor away {round_}: results", run(*PROGRAM).stdout, native)
            online(1, "1")
            same(f"{name}: processor back {round_}: results", run(*PROGRAM).stdout, native)
        online(1, "0")
        out, _ = interrupt(owner)
        same(f"{name}: the session ends without it", owner.returncode, 0)
        owner = session("block", *targets, "-f", "json")
        same(f"{name}: another begins without it", run(*PROGRAM).stdout, native)
        online(1, "1")
        same(f"{name}: and sees it come", run(*PROGRAM).stdout, native)
        interrupt(owner)
        same(f"{name}: and ends", owner.returncode, 0)
    data = report(out)
    check(f"{name}: calls were counted", any(target["calls"] for target in data["targets"]), data["targets"][:3])
    figure(f"{name}: processors", f"{sum(target['calls'] for target in data['targets'])} calls, missed {data['missed']}")


def freezer(name, targets):
    """A frozen cgroup of tasks in instrumented calls does not hold the end of the session."""
    cgroup = CGROUPS / "frozen"
    cgroup.mkdir()
    native = run(*PROGRAM).stdout
    owner = session("insn", *targets, "-f", "json")
    program = background(*PROGRAM, preexec_fn=lambda: (cgroup / "cgroup.procs").write_text(str(os.getpid())))
    time.sleep(0.05)
    (cgroup / "cgroup.freeze").write_text("1")
    while "frozen 1" not in (cgroup / "cgroup.events").read_text():
        time.sleep(0.01)
    start = time.monotonic()
    interrupt(owner)
    same(f"{name}: the session ends", owner.returncode, 0)
    figure(f"{name}: end of a session with frozen tasks", f"{time.monotonic() - start:.2f} s")
    same(f"{name}: nothing is left in the cache", status()["blocks"], 0)
    (cgroup / "cgroup.freeze").write_text("0")
    out, err = program.communicate(timeout=60)
    same(f"{name}: the thawed program's results", (out, program.returncode), (native, 0))
    cgroup.rmdir()


def cgroup_moves(calls):
    """A task is counted for as long as it is in the cgroup of the filter."""
    inside, outside = CGROUPS / "inside", CGROUPS / "outside"
    inside.mkdir()
    outside.mkdir()
    owner = session("insn", "sys:getresuid", "--cgroup", inside, "-f", "json")
    script = f"{calls} {N}; echo $$ > {inside}/cgroup.procs; {calls} {N}; " \
             f"echo $$ > {outside}/cgroup.procs; {calls} {N}"
    same("the program ends well", run("sh", "-c", script).returncode, 0)
    out, _ = interrupt(owner)
    target = report(out)["by_name"]["getresuid"]
    same("calls in the cgroup", (target["calls"], target["missed"]), (N, 0))
    for cgroup in (inside, outside):
        cgroup.rmdir()


def namespaces(calls):
    """Tasks in other namespaces are found by the ids that the command's namespace has for them."""
    command = ["unshare", "--time", "--pid", "--fork", "--mount", "--uts", "--ipc", "--net", "--boottime", "100000",
               calls, N]
    end = run("jifl", "count", "insn", "sys:getresuid", "-f", "json", "-o", "/tmp/report", "--", *command)
    same("exit status", end.returncode, 0)
    target = report(Path("/tmp/report").read_text())["by_name"]["getresuid"]
    same("calls in namespaces", (target["calls"], target["missed"]), (N, 0))


def program(calls):
    run("mount", "-t", "cgroup2", "none", CGROUPS)
    mark = log_mark()
    for name, targets in (("calls", CALLS), ("functions", FUNCTIONS)):
        processors(name, targets)
        freezer(name, targets)
    cgroup_moves(calls)
    namespaces(calls)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(program)
