# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times of functions (jifl stat): each figure is between what is known to be less and to be more.

usage: stat.py

Clocks are read inside of what is measured, and around it. So no figure depends on how busy the
machine is. Where tasks are inside for the whole session the time is known exactly.
"""

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

from contexts import CONTEXTS, MODULE, call
from lib import (PIPE_READ, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, run, same, session, status,
                 wait_for)
from probe import Graphs, Kprobes
from reader import Reader, now
from times import NS, between, stat


def report_of(owner, name):
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    check(f"{name}: a report", out, err)
    report = json.loads(out)
    same(f"{name}: nothing is missed", (report["missed"], report["unwatched"]), (0, 0))
    rows = {row["function"]: row for row in report["functions"]}
    for row in rows.values():
        same(f"{name}: {row['function']}: wall", row["wall_ns"], row["cpu_ns"] + row["blocked_ns"] + row["runnable_ns"])
    return rows, report


def blocked():
    """A read waits until somebody writes: it is blocked from when it was seen asleep until the write, at least."""
    reader = Reader()
    owner = stat(f"fn:{PIPE_READ}", "-p", str(reader.process.pid))
    rounds = 10
    # The one that is in the middle ends here.
    before = now()
    os.write(reader.pipe, b"x")
    least = reader.waits(rounds, now, 0.05)
    reader.sleeps()
    rows, report = report_of(owner, "blocked")
    most = now() - before + report["start_ns"] + NS
    row = rows[PIPE_READ]
    same("blocked: calls", (row["calls"], row["adopted"], row["inside"]), (rounds + 1, 1, 1))
    between("blocked: as long as nobody writes", least, row["blocked_ns"], most)
    between("blocked: hardly anything else", 0, row["cpu_ns"], row["wall_ns"] - least)
    reader.end()


def all_the_time():
    """Tasks that are inside from the beginning to the end: each has all of the time, blocked."""
    readers = [Reader() for _ in range(4)]
    owner = stat(f"fn:{PIPE_READ}", "-n", "cat")
    time.sleep(0.5)
    rows, report = report_of(owner, "inside")
    row, elapsed = rows[PIPE_READ], report["elapsed_ns"]
    same("inside: calls", (row["calls"], row["adopted"], row["inside"], row["strays"]), (0, 4, 4, 0))
    check("inside: blocked all the time", abs(row["blocked_ns"] - 4 * elapsed) <= 8, (row, elapsed))
    same("inside: and nothing else", (row["cpu_ns"], row["runnable_ns"]), (0, 0))
    check("inside: four of them", abs(row["metrics"]["concurrency"] - 4) < 1e-6, row)
    for reader in readers:
        reader.end()


def runnable():
    """Two tasks that share a processor run, together, no longer than there was time. The rest they wait."""
    owner = stat("fn:vfs_read", "-n", "dd")
    before = now()
    both = [background("taskset", "1", "dd", "if=/dev/zero", "of=/dev/null", "bs=8M", "count=60") for _ in range(2)]
    for one in both:
        one.communicate()
    took = now() - before
    rows, _ = report_of(owner, "runnable")
    row = rows["vfs_read"]
    check("runnable: all reads", row["calls"] >= 120, row)
    between("runnable: no more than a processor has", 1, row["cpu_ns"], took)
    check("runnable: they wait for each other", row["runnable_ns"] > 0, row)


def each_context():
    """Calls in each context, of whom they are; calls inside calls are one time."""
    for context, about in CONTEXTS.items():
        name = about.get("function", "contexts_work")
        if name in ("contexts_many", "contexts_wide", "contexts_tail"):
            continue
        owner = stat(f"fn:{name}")
        before = now()
        made = call(context)
        most = now() - before
        rows, report = report_of(owner, context)
        row = rows[name]
        same(f"{context}: calls", row["calls"], sum(made.values()))
        same(f"{context}: all have ended", (row["inside"], row["adopted"], row["strays"], row["died"]), (0, 0, 0, 0))
        # Not the sum over recursion: all of that is within one call of this process.
        at_once = 1 if name == "contexts_recurse" else len(os.sched_getaffinity(0))
        between(f"{context}: no longer than it took", 0, row["cpu_ns"], most * at_once)
        check(f"{context}: it took its time", row["cpu_ns"] > 0, row)
    for level in ("task", "softirq", "irq"):
        owner = stat("fn:contexts_work", "--context", level)
        made = {context: call(context) for context in ("task", "tasklet", "hrtimer", "ipi")}
        rows, _ = report_of(owner, f"--context {level}")
        calls = rows.get("contexts_work", {}).get("calls", 0)
        same(f"--context {level}: calls", calls, sum(one[level] for one in made.values()))


def sleeping():
    """A function that sleeps; natively, too, as a kprobe before its places has it."""
    graphs = Graphs("fn:contexts_sleep")
    for natively in (False, True):
        name = f"sleep, {'natively' if natively else 'in copies'}"
        owner = stat("fn:contexts_sleep")
        at = graphs.instructions("contexts_sleep")[2][0]
        kprobes = Kprobes(f"contexts_sleep{at}") if natively else None
        before = now()
        made = sum(call("sleep").values())
        most = now() - before
        rows, _ = report_of(owner, name)
        row = rows["contexts_sleep"]
        same(f"{name}: calls", (row["calls"], row["inside"], row["strays"]), (made, 0, 0))
        check(f"{name}: it was blocked", 0 < row["blocked_ns"] <= most * 1.001, (row, most))
        if kprobes:
            same(f"{name}: the kprobe's hits", sum(kprobes.hits().values()), made)
            kprobes.clear()


def deaths():
    """Who dies inside is counted, and its time until then."""
    owner = stat("fn:get_signal", f"fn:{PIPE_READ}", "-n", "cat")
    before = now()
    for _ in range(3):
        reader = Reader()
        reader.process.send_signal(signal.SIGKILL)
        reader.process.wait()
        os.close(reader.pipe)
    most = now() - before
    rows, _ = report_of(owner, "deaths")
    row = rows["get_signal"]
    same("deaths: each is counted", (row["died"], row["inside"]), (3, 0))
    between("deaths: until then", 0, row["wall_ns"], 3 * most)
    # The read was given up before.
    same("deaths: nobody died in the read", (rows[PIPE_READ]["died"], rows[PIPE_READ]["inside"]), (0, 0))


def migration():
    """A task that goes to another processor at each call."""
    if os.cpu_count() < 2:
        return
    owner = stat("fn:sched_setaffinity", "fn:__x64_sys_sched_setaffinity", "-p", str(os.getpid()))
    calls = 200
    before = now()
    for i in range(calls):
        os.sched_setaffinity(0, {i % 2})
    most = now() - before
    os.sched_setaffinity(0, range(os.cpu_count()))
    rows, _ = report_of(owner, "migration")
    for name, row in rows.items():
        same(f"migration: calls of {name}", (row["calls"], row["inside"], row["strays"]), (calls + 1, 0, 0))
        between(f"migration: time of {name}", 0, row["wall_ns"], most * 1.5)
    inner, outer = (rows[name]["wall_ns"] for name in ("sched_setaffinity", "__x64_sys_sched_setaffinity"))
    check("migration: what is inside takes less", 0 < inner < outer, rows)


def threads():
    """Threads that begin and end: their figures stay."""
    owner = stat("fn:do_sys_openat2", "-p", str(os.getpid()))
    calls, number = 50, 40

    def work():
        for _ in range(calls):
            os.close(os.open("/dev/null", os.O_RDONLY))

    before = now()
    for _ in range(5):
        them = [threading.Thread(target=work) for _ in range(number // 5)]
        for one in them:
            one.start()
        for one in them:
            one.join()
    most = now() - before
    rows, _ = report_of(owner, "threads")
    row = rows["do_sys_openat2"]
    check("threads: calls of all", row["calls"] >= calls * number and row["inside"] == 0, row)
    between("threads: time of all", 0, row["cpu_ns"], most * os.cpu_count())


def renamed():
    """A task that gets the name that is asked for is looked at; it is not any more when it has another."""
    owner = stat("fn:do_sys_openat2", "-n", "jifl-named")
    own = Path("/proc/self/comm").read_text()
    counts = {}
    for name in ("jifl-named", own.strip(), "jifl-named"):
        Path("/proc/self/comm").write_text(name)
        time.sleep(0.02)  # comes to a processor anew
        for _ in range(10):
            os.close(os.open("/dev/null", os.O_RDONLY))
        counts[name] = counts.get(name, 0) + 10
        time.sleep(0.02)
    Path("/proc/self/comm").write_text(own)
    time.sleep(0.02)
    rows, _ = report_of(owner, "renamed")
    calls = rows["do_sys_openat2"]["calls"]
    # Opening comm to be renamed: within the name once, and once more at its end.
    same("renamed: calls under the name", calls, counts["jifl-named"] + 2)


def intervals():
    """Intervals add up to the report; the text forms have what was asked for."""
    owner = session("calls,wall", "fn:do_sys_openat2", "-i", "100ms", "-f", "ndjson", "-p", str(os.getpid()), command="stat")
    for _ in range(8):
        time.sleep(0.05)
        os.close(os.open("/dev/null", os.O_RDONLY))
    out, _ = interrupt(owner)
    *intervals, last = map(json.loads, out.splitlines())
    check("intervals: several", len(intervals) >= 3, out)
    rows = [row for one in intervals for row in one["interval"]]
    report, = last["functions"]
    for key in ("calls", "cpu_ns", "blocked_ns", "runnable_ns"):
        same(f"intervals: {key}", sum(row[key] for row in rows), report[key])
    csv = run("jifl", "stat", "calls,wall/calls", "fn:do_sys_openat2", "-f", "csv", "--", "cat", "/dev/null")
    title, line = csv.stdout.splitlines()
    same("csv: titles", title, "function,module,calls,wall/calls")
    check("csv: a line", line.startswith("do_sys_openat2,,") and csv.returncode == 0, csv)
    text = run("jifl", "stat", "fn:do_sys_openat2", "fn:vfs_write", "--", "cat", "/etc/hostname")
    check("text", text.stdout.split("\n")[1].startswith("FUNCTION "), text.stdout)


def many():
    """Whole globs: what cannot be looked at is left out and said."""
    owner = stat("fn:vfs_*", "fn:tcp_*", "--yes")
    for _ in range(20):
        os.listdir("/proc")
    rows, report = report_of(owner, "many")
    check("many: functions", len(rows) >= 5, list(rows))
    figure("functions, and their start in ms", f"{len(rows)}, {report['start_ns'] // 1_000_000}")


def processors_come_and_go():
    """A processor goes and comes while calls are made on all: each call counts, and each time is right."""
    switch = Path("/sys/devices/system/cpu/cpu1/online")
    if not switch.exists():
        return
    # Of /dev/null and its like: the C library opens other files, too.
    owner = stat("fn:memory_open", "-p", str(os.getpid()))
    before, stop, opened = now(), threading.Event(), [0, 0]

    def opens(place):
        while not stop.is_set():
            os.close(os.open("/dev/null", os.O_RDONLY))
            opened[place] += 1

    workers = [threading.Thread(target=opens, args=(place,)) for place in range(2)]
    for worker in workers:
        worker.start()
    rounds = 3
    for _ in range(rounds):
        for value in "01":
            where = os.open(switch, os.O_WRONLY)
            os.write(where, value.encode())
            os.close(where)
            time.sleep(0.1)
    stop.set()
    for worker in workers:
        worker.join()
    most = now() - before
    rows, _ = report_of(owner, "hotplug")
    row = rows["memory_open"]
    same("hotplug: calls", (row["calls"], row["inside"], row["strays"]), (sum(opened), 0, 0))
    between("hotplug: no longer than it took", 1, row["wall_ns"], 3 * most)
    check("hotplug: both threads were at work", min(opened) > 10, opened)


def jiffies():
    return int(re.search(r"^jiffies: (\d+)", Path("/proc/timer_list").read_text(), re.M)[1])


def counters():
    """Tracepoints that a task comes to inside of a function, and a variable that grows meanwhile."""
    owner = stat("calls,tracepoint:printk:console,tracepoint:printk:console/calls", "fn:vfs_write", "fn:vfs_read", "-p", str(os.getpid()))
    # The kernel takes 10 messages of a file in 5 seconds.
    rounds = 8
    with open("/dev/kmsg", "wb", buffering=0) as log, open("/dev/null", "wb", buffering=0) as nothing:
        for _ in range(rounds):
            log.write(b"counted")
            nothing.write(b"not counted")
    # Of another task, and outside of the function.
    run("sh", "-c", "echo other > /dev/kmsg")
    rows, _ = report_of(owner, "tracepoint")
    writes = rows["vfs_write"]["metrics"]
    same("tracepoint: each message", writes["tracepoint:printk:console"], rounds)
    check("tracepoint: for each call", abs(writes["tracepoint:printk:console/calls"] - rounds / writes["calls"]) < 1e-9, writes)
    same("tracepoint: none in others", rows.get("vfs_read", {"metrics": {"tracepoint:printk:console": 0}})["metrics"]
         ["tracepoint:printk:console"], 0)
    reader = Reader()
    first = jiffies()
    owner = stat("var:jiffies_64,tracepoint:sched:sched_switch", f"fn:{PIPE_READ}", "-p", str(reader.process.pid))
    least = reader.waits(rounds, jiffies, 0.02)
    rows, _ = report_of(owner, "variable")
    grown = rows[PIPE_READ]["metrics"]
    check("variable: as it has grown", least <= grown["var:jiffies_64"] <= jiffies() - first, (least, grown))
    # The first one was asleep before; where the last one is nobody has looked.
    check("variable: and each wait is a switch", rounds - 1 <= grown["tracepoint:sched:sched_switch"], grown)
    reader.end()


def refused():
    """One line each, and the way out."""
    for words, why in {
        ("fn:no_such_function",): "no such function; the nearest are",
        ("fn:do_exit",): "never returns",
        ("fn:do_exit*",): "none of 1 functions returns",
        ("cycles", "fn:vfs_read"): "a metric is calls, wall",
        ("wall",): "name the functions",
        ("fn:vfs_read%return",): "give fn:NAME",
        ("fn:vfs_read", "-i", "1s", "-f", "json"): "give -f ndjson",
        ("fn:*", "--yes"): "give narrower patterns",
        ("fn:vfs_read", "-p", "999999"): "no process or thread",
        ("tracepoint:none:such", "fn:vfs_read"): "tracepoint:none:such: the kernel itself has no such tracepoint",
        ("tracepoint:", "fn:vfs_read"): "give tracepoint:SUBSYSTEM:NAME",
        ("var:no_such_variable", "fn:vfs_read"): "no variable of that name",
        ("var:a,var:b,var:c,var:d,var:e", "fn:vfs_read"): "at most 4 tracepoints, variables, events, sums and distributions",
    }.items():
        end = run("jifl", "stat", *words, "--for", "10ms")
        check(f"refused: {' '.join(words)}", end.returncode and why in end.stderr and end.stderr.count("\n") == 1, end)


def nothing_is_left():
    owner = stat("fn:vfs_read", "fn:vfs_write", "fn:do_sys_openat2")
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    wait_for("the session ends with its owner", lambda: status()["sessions"] == [])


def stats():
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    for part in (blocked, all_the_time, runnable, each_context, sleeping, deaths, migration, threads, renamed, intervals, many, counters, processors_come_and_go, refused,
                 nothing_is_left):
        part()
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(stats)
