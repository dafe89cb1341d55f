#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""One load in a machine whose clock counts instructions: natively, and while events are recorded.

What is counted is what the load's processes run, by the scheduler's clock (cpu.stat of their control
group). While they wait for the host, that clock goes on, too, but nothing of theirs runs.

usage: guest.py LOAD

Prints an object: for each way the instructions of its rounds, and how many records there were.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOAD = Path(__file__).resolve().parent.parent / "layout/load.sh"
EVENTS = Path("/sys/kernel/tracing/events")
GROUP = Path("/sys/fs/cgroup/load")
ROUNDS = 3
WARM = 2

# What the flight recorder records unless told otherwise, as far as the kernel has events of these names.
SAME = ["raw_syscalls", "sched/sched_switch", "sched/sched_wakeup", "sched/sched_migrate_task", "sched/sched_process_fork",
        "sched/sched_process_exec", "sched/sched_process_exit", "signal/signal_generate", "irq/irq_handler_entry",
        "irq/irq_handler_exit", "irq/softirq_entry", "irq/softirq_exit", "block/block_rq_issue", "block/block_rq_complete",
        "exceptions/page_fault_user", "exceptions/page_fault_kernel", "oom/mark_victim", "module/module_load",
        "module/module_free", "error_report/error_report_end", "printk/console", "net/netif_receive_skb",
        "net/net_dev_start_xmit"]
WAYS = {"native": None, "flight": [], "flight -e sys": ["-e", "sys"], "flight -e sched,proc,block,log": ["-e", "sched,proc,block,log"],
        "events": None, "native again": None}


def once(load):
    return subprocess.run(["sh", LOAD, load, "once"], capture_output=True, text=True, check=True).stdout


def ran():
    """What all of the load have run so far, in nanoseconds."""
    stat = dict(line.split() for line in (GROUP / "cpu.stat").read_text().splitlines())
    return int(stat["usage_usec"]) * 1000


def measured(load, want):
    """The instructions of some rounds."""
    rows = []
    for number in range(WARM + ROUNDS):
        begin = ran()
        got = once(load)
        took = ran() - begin
        if got != want:
            raise RuntimeError(f"{load} printed {got!r}, not {want!r}")
        if number >= WARM:
            rows.append(took)
    return rows


def jifl(*words):
    return subprocess.run(["jifl", "flight", *words], capture_output=True, text=True, check=True).stdout


def records():
    return sum(json.loads(jifl("status", "-f", "json"))["begun"])


def switch(on):
    for name in SAME:
        if (EVENTS / name / "enable").exists():
            (EVENTS / name / "enable").write_text("1" if on else "0")


def main(load):
    # Its scans come at any time, and are much code.
    Path("/sys/kernel/mm/transparent_hugepage/enabled").write_text("never")
    # This process, too, which does little.
    GROUP.mkdir()
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    found = {"ways": {}, "records": {}}
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["sh", LOAD, load, "begin"], check=True, cwd=directory, stdout=subprocess.DEVNULL)
        os.chdir(directory)
        want = once(load)
        for way, words in WAYS.items():
            if way == "events":
                switch(True)
            elif words is not None:
                jifl("start", "--keep", *words)
            before = records() if words is not None else 0
            found["ways"][way] = measured(load, want)
            if way == "events":
                switch(False)
            elif words is not None:
                found["records"][way] = (records() - before) // (WARM + ROUNDS)
                jifl("stop")
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
