# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions as targets in softirqs and hard interrupts, while the machine is busy with these.

usage: levels.py ROUNDS

The kernel counts its softirqs, by kind. What handles one kind is called as often. The network is
that of two namespaces, whose packets go from each loopback device to itself.
"""

import json
import time
from pathlib import Path

from lib import (PATIENCE, background, check, ends_clean, figure, interrupt, log_mark, main, report, run, same, session,
                 wait_for)

# Of each kind of softirq, what handles it.
HANDLERS = {"NET_RX": "net_rx_action", "TIMER": "run_timer_softirq"}
ENOUGH = 500    # softirqs of each kind
# Called at every level, with any lock held.
EVERYWHERE = """try_to_wake_up _raw_spin_lock _raw_spin_lock_irqsave _raw_spin_unlock_irqrestore ktime_get kfree
    kmem_cache_free __rcu_read_lock __rcu_read_unlock update_curr enqueue_task_fair netif_receive_skb_list_internal
    __netif_receive_skb_core process_backlog ip_rcv udp_rcv skb_release_data hrtimer_interrupt __hrtimer_run_queues
    update_process_times rcu_core rcu_sched_clock_irq __run_timers call_timer_fn raise_softirq_irqoff irq_work_run
    generic_smp_call_function_single_interrupt""".split()

# Sends packets to itself in a namespace of its own, and waits for short times in between.
NETWORK = """import fcntl, select, socket, struct
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(receiver, 0x8914, struct.pack("16sH14x", b"lo", 0x41))     # SIOCSIFFLAGS: up, running
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
n = 0
while True:
    n += 1
    sender.sendto(n.to_bytes(8, "little") * 20, receiver.getsockname())
    data = receiver.recv(1000)
    assert data == n.to_bytes(8, "little") * 20, data
    if n % 50 == 0:
        select.select([receiver], [], [], 0.0005)"""


def softirqs():
    """How many softirqs of each kind there have been."""
    lines = (line.split() for line in Path("/proc/softirqs").read_text().splitlines()[1:])
    return {kind.rstrip(":"): sum(map(int, counts)) for kind, *counts in lines}


def start_load():
    """Two namespaces with traffic, and what makes system calls."""
    words = ["unshare", "-n", "/usr/bin/python3", "-c", NETWORK]
    load = [background(*words, start_new_session=True) for _ in range(2)]
    load.append(background("/bin/sh", "-c", "while :; do cat /etc/hostname >/dev/null; done", start_new_session=True))
    time.sleep(1)
    return load


def against_the_kernel(what):
    """Each softirq is counted, or said to be missed: as many as the kernel counts."""
    outside = softirqs()
    owner = session(what, *(f"fn:{name}@vmlinux" for name in HANDLERS.values()), "-f", "json")
    inside = softirqs()
    # A busy host may leave the machine little time.
    wait_for("softirqs", lambda: all(softirqs()[kind] > inside[kind] + ENOUGH for kind in HANDLERS), PATIENCE)
    inside = {kind: count - inside[kind] for kind, count in softirqs().items()}
    out, _ = interrupt(owner)
    outside = {kind: count - outside[kind] for kind, count in softirqs().items()}
    for kind, name in HANDLERS.items():
        got = report(out)["by_name"].get(name, {"calls": 0, "missed": 0, "missed_by": {}})
        total = got["calls"] + got["missed"]
        check(f"{what}: {kind} by the kernel's counts", inside[kind] <= total <= outside[kind],
              (inside[kind], got, outside[kind]))
        check(f"{what}: hardly one is missed", got["missed"] <= got["calls"] / 100 and inside[kind] > 10, got)
        figure(f"{what}: {name}: calls, missed", (got["calls"], got["missed_by"]))


def beside_system_calls():
    """Interrupts in the middle of counted system calls: these cost what they cost without."""
    call = "import os\nfor n in range(20000): os.getppid()"

    def cost():
        end = run("jifl", "count", "insn", "sys:getppid", "-f", "json", "--", "/usr/bin/python3", "-c", call)
        got = report(end.stdout)["by_name"]["getppid"]
        same("calls of getppid", (got["calls"] >= 20000, got["missed"]), (True, 0))
        return got["min"], got["p50"]

    alone = cost()
    targets = targets_everywhere()
    owner = session("insn", *targets, "--context", "softirq,irq", "-f", "json")
    same("getppid beside functions in interrupts", cost(), alone)
    data = report(interrupt(owner)[0])
    calls = sum(target["calls"] for target in data["targets"])
    check("functions in interrupts were counted", calls > 1000, calls)


def targets_everywhere():
    """EVERYWHERE as targets, without what this kernel has no function of that name for."""
    sites = set(Path("/sys/kernel/tracing/available_filter_functions").read_text().split("\n"))
    return [f"fn:{name[:-1]}?" for name in EVERYWHERE if name in sites]


def rounds(count):
    """Sessions at all levels come and go, with filters and without."""
    targets = targets_everywhere()
    check("functions", len(targets) >= 15, targets)
    levels = {}
    for round_ in range(count):
        what = ("call", "insn", "block")[round_ % 3]
        words = [["--by", "context"], ["--by", "context,comm"], ["--by", "context", "--context", "irq"],
                 ["--by", "context", "--context", "softirq,task"]][round_ % 4]
        end = run("jifl", "count", what, *targets, *words, "--for", "300ms", "-f", "json")
        if not check(f"round {round_}: {what} {words}", end.returncode == 0, end):
            return
        for row in json.loads(end.stdout)["rows"]:
            levels[row["context"]] = levels.get(row["context"], 0) + row["calls"]
            check(f"round {round_}: {what} {words}: contexts", len(words) < 4 or row["context"] in words[3], row)
    same("calls were counted at each level", set(levels), {"task", "softirq", "irq"})
    figure("calls counted at each level", levels)


def profile(command, targets):
    """What it reports when it has gone on for long enough to see functions of interrupts; or None."""
    for seconds in (1, 4, 16, 64):
        end = run("jifl", command, *targets, "--for", f"{seconds}s", "-f", "json")
        if not check(f"{command} for {seconds} s", end.returncode == 0, end):
            return None
        data = json.loads(end.stdout)
        # Called at these levels alone.
        names = {row["name"].split("+")[0] for row in data.get("blocks", [])}
        at_levels = names & {"hrtimer_interrupt", "update_process_times"} and names & {"rcu_core", "__run_timers"}
        if data["calls"] > 100 and ("blocks" not in data or at_levels):
            return data
    check(f"{command}: calls, and functions of interrupts", False, (data["calls"], names))
    return None


def profiles():
    """Blocks and branches at all levels: blocks are counted there, and no branch contradicts them."""
    targets = targets_everywhere()
    for command in ("prof", "branch"):
        data = profile(command, targets)
        if not data:
            continue
        figure(f"{command}: calls, missed", (data["calls"], data["missed"]))
        for branch in data.get("branches", []):
            ways = branch["taken"], branch["not_taken"]
            if sum(ways) != branch["executed"] or max(ways) > branch["executed"]:
                check("a branch adds up", False, branch)


def levels(count):
    mark = log_mark()
    load = start_load()
    for what in ("call", "insn", "block"):
        against_the_kernel(what)
    beside_system_calls()
    profiles()
    rounds(int(count))
    ends_clean(load, mark)


if __name__ == "__main__":
    main(levels)
