# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work that a process submits to io_uring is done by its workers, which are threads of it.

usage: uring.py URING
"""

import json
import os
from pathlib import Path

from lib import background, check, complaints, interrupt, kernel_log, log_mark, main, report, run, same, session, state_of, status, wait_for

# Reads of /dev/zero by io_uring; the function is theirs alone, as read(2) has another.
N, READ = 50, "read_iter_zero"
FIFO = "/run/uring"


def tell(process, line):
    """Has the program carry out a line; returns what it says."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def of_task(process, task, name):
    """A task's file in /proc; nothing if the task has ended meanwhile."""
    try:
        return Path(f"/proc/{process.pid}/task/{task}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def workers(process):
    """Numbers of the workers of a process, by what the kernel calls them."""
    tasks = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
    return {task for task in tasks if of_task(process, task, "comm").startswith("iou-wrk-")}


def only_worker(process):
    """Waits until one worker is left; returns its number.

    Workers that have nothing to do end after some seconds, except the last one.
    """
    wait_for("one worker", lambda: len(workers(process)) == 1)
    return workers(process).pop()


def all_reads(process, owner, name):
    """Has the process read; returns the report of the session that looked at it."""
    same(f"{name}: it reads", tell(process, f"read {N}"), f"read {N}")
    return report(interrupt(owner)[0])


def by_process(process, other):
    """-p PID includes the workers, and no worker of another process."""
    for what in ("call", "insn"):
        owner = session(what, f"fn:{READ}", "-p", process.pid, "-f", "json")
        same("another process reads", tell(other, f"read {N}"), f"read {N}")
        target = all_reads(process, owner, what)["by_name"][READ]
        same(f"{what} -p: calls, missed", (target["calls"], target["missed_by"]), (N, {}))
    own, others = workers(process), workers(other)
    check("both have workers", own and others, (own, others))
    worker = only_worker(process)
    owner = session("call", f"fn:{READ}", "-t", worker, "-f", "json")
    target = all_reads(process, owner, "-t of a worker")["by_name"].get(READ, {"calls": 0})
    check("-t of a worker: no more than all", target["calls"] <= N, target)
    if workers(process) == {worker}:
        same("-t of the only worker: calls", target["calls"], N)
    # The task itself is in a system call. Its workers are in none.
    for under, expected in (([], N), (["--under", "sys:io_uring_enter"], 0)):
        owner = session("call", f"fn:{READ}", "-p", process.pid, *under, "-f", "json")
        data = all_reads(process, owner, f"under {under}")
        same(f"under {under}: calls", data["by_name"].get(READ, {"calls": 0})["calls"], expected)
    owner = session("insn", f"fn:{READ}", "--by", "comm,pid", "-p", process.pid, "-f", "json")
    same("by comm: it reads", tell(process, f"read {N}"), f"read {N}")
    rows = json.loads(interrupt(owner)[0])["rows"]
    same("by comm, pid: calls are those of the workers",
         (sum(row["calls"] for row in rows), {row["comm"] for row in rows}, {row["pid"] for row in rows}),
         (N, {f"iou-wrk-{process.pid}"}, {process.pid}))


def by_command(uring):
    """A command's workers are the command's."""
    line = f"echo read {N} | {uring}"
    end = run("jifl", "count", "call", f"fn:{READ}", "-f", "json", "-o", "/run/uring.json", "--", "sh", "-c", line)
    same("-- CMD: it works", (end.returncode, end.stdout), (0, f"read {N}\n"))
    target = report(Path("/run/uring.json").read_text())["by_name"][READ]
    same("-- CMD: calls, missed", (target["calls"], target["missed_by"]), (N, {}))


def traced(process):
    """Calls of workers are recorded; none waits for the reader on a way that it does not go."""
    owner = session(f"fn:{READ}", "-p", process.pid, "-f", "ndjson", command="trace")
    same("trace: it reads", tell(process, f"read {N}"), f"read {N}")
    out, err = interrupt(owner)
    calls = [json.loads(line) for line in out.splitlines()]
    same("trace: calls", (len(calls), {call["function"] for call in calls}), (N, {READ}))
    check("trace: nothing is lost", "records lost 0, calls missed 0" in err, err)


def by_thread(process):
    """kthread: means the workers' own function, for all their lives."""
    name = f"iou-wrk-{process.pid}"
    listed = run("jifl", "list", "kthread:iou-wrk-*")
    check("they are listed", f"kthread:{name}" in listed.stdout and "io_wq" in listed.stdout, listed)
    for word in (f"kthread:{name}", "kthread:iou-wrk-*"):
        # A worker that has nothing to do ends after some seconds.
        same(f"{word}: it reads before", tell(process, f"read {N}"), f"read {N}")
        there = len(workers(process))
        owner = session("block", word, "-p", process.pid, "-f", "json")
        data = all_reads(process, owner, word)
        tasks, left = data["adoption"]["tasks"], data["adoption"]["left"]
        same(f"{word}: left alone", left, {})
        check(f"{word}: workers are adopted", 1 <= tasks <= there, (data["adoption"], there))
        check(f"{word}: what they execute is counted", sum(one["adopted_sum"] for one in data["targets"]) > N, data)


def asleep(process):
    """A worker that sleeps in a function is taken over."""
    os.mkfifo(FIFO)
    same("a worker opens a FIFO", tell(process, f"open {FIFO}"), "submitted")
    def is_inside():
        return any("fifo_open" in of_task(process, worker, "stack") for worker in workers(process))
    wait_for("a worker in fifo_open", is_inside)
    owner = session("insn", "fn:fifo_open", "-p", process.pid, "--adopt", "-f", "json")
    with open(FIFO, "wb"):
        same("it is opened", tell(process, "wait"), "opened 0")
    data = report(interrupt(owner)[0])
    same("a sleeping worker is adopted", data["adoption"], {**data["adoption"], "tasks": 1, "left": {}})
    target = data["by_name"]["fifo_open"]
    check("what it executed then is counted", target["adopted_sum"] > 0, target)


def program(uring):
    mark = log_mark()
    process, other = (background(uring, stdin=-1) for _ in range(2))
    for one in (process, other):
        same("it reads natively", tell(one, f"read {N}"), f"read {N}")
    by_process(process, other)
    by_command(uring)
    traced(process)
    by_thread(process)
    asleep(process)
    # Adopted workers end with their process.
    tell(process, f"read {N}")
    owner = session("block", f"kthread:iou-wrk-{process.pid}", "-f", "json")
    process.stdin.close()
    same("it ends", process.wait(60), 0)
    wait_for("it is gone", lambda: state_of(process.pid) == "")
    interrupt(owner)
    other.stdin.close()
    same("the other ends", other.wait(60), 0)
    same("no session is left", status()["sessions"], [])
    same("nothing is said", complaints(kernel_log(mark)), [])


main(program)
