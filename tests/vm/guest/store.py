# SPDX-License-Identifier: MIT OR Apache-2.0
"""What plugins store, how they pass data on, and which events they are told of; and the order of
several plugins.

usage: store.py PLUGINS CALLS MODULE

PLUGINS: a directory with RELEASE/NAME.ko of plugins/store.c, and of plugins/order.c under two
names. MODULE: jifl.ko as built for tests (host/kernel/plant.h).
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from lib import (background, check, complaints, figure, kernel_log, log_mark, main, module_file, plant, run, same,
                 status, wait_for)

PYTHON = "/usr/bin/python3"
MODULES = Path(module_file()).parent
PLUGINS = Path(sys.argv[1]) / os.uname().release
CALLS = 1000
PROCESSES = 6
# A record of plugins/order.c, which names a place in the kernel.
PLACE = re.compile(r"\d+ [12] [\w.]+\+0x[0-9a-f]+/0x[0-9a-f]+")

# Makes calls, says so, and stays until it is told to end. Then it makes them again, alone.
STAYS = f"""import os, sys
def calls():
    for _ in range({CALLS}): os.getresuid()
calls()
print(flush=True)
sys.stdin.read()
calls()"""


def good(name, *words):
    end = run("jifl", *words)
    return check(name, end.returncode == 0 and not end.stderr, end)


def start(name, **parameters):
    for parameter, value in parameters.items():
        Path(f"/sys/module/{name}/parameters/{parameter}").write_text(str(value))
    mark = log_mark()
    good(f"{name} starts", "start", name)
    return mark


def stop(mark):
    """Its sums, and what else is in the log."""
    good("store stops", "stop", "store")
    lines = kernel_log(mark)
    sums = [line for line in lines if line.startswith(("store: calls", "store: queue", "store: ends"))]
    same("sums, and how often it ended", len(sums), 3)
    counts = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", " ".join(sums))}
    figure("store", counts)
    same("nothing is wrong", counts["wrong"], 0)
    same("each CPU's counts", counts["cpus"], counts["calls"])
    same("calls of tasks, and of those without room", counts["task_calls"] + counts["without_task"], counts["calls"])
    same("which were counted", counts["refused"], counts["without_task"])
    same("pieces of the heap that there were not", counts["heap_refused"], counts["without_room"])
    same("what was put into the queue, and found no room", counts["put"] + counts["queue_refused"], counts["calls"])
    same("what was put in comes out", (counts["taken"], counts["taken_sum"]), (counts["put"], counts["put_sum"]))
    return counts, [line for line in lines if line not in sums]


def read(name="store", *words):
    """Lines, split, and how many records there were and were lost."""
    end = run("jifl", "read", name, *words)
    said = re.fullmatch(r"# records (\d+), lost (\d+)\n", end.stderr)
    check(f"{name} is read", end.returncode == 0 and said, end)
    lines = [line.split() for line in end.stdout.splitlines()]
    same("as many lines as records", len(lines), int(said[1]))
    return lines, int(said[2])


def refused(name, said, *words):
    end = run("jifl", *words)
    check(name, end.returncode == 1 and said in end.stderr and end.stderr.count("\n") == 1, end)


def whole(calls):
    """With room for all: nothing is lost, and all that count agree."""
    refused("what is not loaded is not read", "no plugin store", "read", "store")
    good("store is loaded", "load", PLUGINS / "store.ko")
    refused("nor what was never started", "no records", "read", "store")
    mark = start("store")
    follower = background("jifl", "read", "store", "--follow", "-o", "/tmp/followed")
    pids = []
    for _ in range(PROCESSES):
        process = subprocess.Popen([calls, str(CALLS)])
        pids.append(process.pid)
        same("calls are made", process.wait(), 0)
    counts, lines = stop(mark)
    check("a reader that follows ends with the plugin", follower.wait(60) == 0, follower)
    said = follower.stderr.read()
    followed = [line.split() for line in Path("/tmp/followed").read_text().splitlines()]
    rest, lost = read()
    same("he has taken all", (rest, lost), ([], 0))
    same("which were so many", (len(followed), said), (counts["calls"], f"# records {len(followed)}, lost 0\n"))
    times = [int(line[0]) for line in followed]
    # Of several CPUs, what is just being put in may be taken later.
    check("in the order of their times", sum(a > b for a, b in zip(times, times[1:])) <= 20, times[:5])
    for pid in pids:
        same("each call of a process", [int(line[6]) for line in followed if line[4] == str(pid)],
             list(range(1, CALLS + 1)))
    names = {line[7] for line in followed}
    check("of the routine", len(names) == 1 and names.pop().endswith("_sys_getresuid"), followed[:3])
    check("tasks that made them", PROCESSES <= counts["tasks"] < 100, counts)
    check("most were gone when it stopped", counts["drained"] < counts["tasks"], counts)
    same("what is left in the queue", counts["left"], counts["calls"] - PROCESSES * (CALLS // 3))
    check("routines", counts["routines"] > 300 and counts["used"] == 16 * counts["routines"], counts)
    same("there is no mistake, and room for all", complaints(lines), [])


def full():
    """Without room: what is lost is counted, to the last."""
    mark = start("store", tasks=4, records=100, heap_kb=1, queued=33)
    processes = [subprocess.Popen([PYTHON, "-S", "-E", "-c", STAYS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                 for _ in range(PROCESSES)]
    for process in processes:
        process.stdout.readline()
    # One after the other: while several put in and take out, one whose CPU the host stops may leave
    # the queue empty.
    for process in processes:
        process.communicate()
    counts, lines = stop(mark)
    check("tasks without room", counts["without_task"] >= CALLS and counts["task_calls"] >= CALLS, counts)
    taken, lost = read()
    same("records, and those lost", (len(taken) + lost, lost), (counts["calls"], counts["lost"]))
    check("as many as there is room for", 0 < len(taken) <= 100 * os.cpu_count() and lost, (len(taken), lost))
    check("the queue, of 64, is full but for what was taken last", 64 - PROCESSES <= counts["left"] <= 64, counts)
    check("pieces of a heap", counts["heap_refused"] and counts["routines"] == 1024 // 16, counts)
    said = sorted(line.partition("plugin store: ")[2] for line in lines if "plugin store: " in line)
    times = {"heap": counts["heap_refused"], "queue": counts["queue_refused"], "ring": lost, "storage of tasks": counts["refused"]}
    same("the log says so", said, [f"{name}: {n} times there was no room" for name, n in times.items()])
    Path("/sys/module/store/parameters/heap_kb").write_text(str(1 << 31))
    refused("what there is no memory for", "did not start: Cannot allocate memory", "start", "store")


def modules():
    """Of modules that are there, come and go it is told, in this order."""
    mark = start("store", tasks=64, records=10, heap_kb=4096, queued=65536)
    # The newest comes first there.
    there = [line.split()[0] for line in Path("/proc/modules").read_text().splitlines()][::-1]
    for _ in range(2):
        same("a module comes", run("insmod", MODULES / "jifl_known.ko").returncode, 0)
        same("it goes", run("rmmod", "jifl_known").returncode, 0)
    good("a plugin comes", "load", PLUGINS / "order.ko")
    good("it goes", "unload", "order")
    counts, lines = stop(mark)
    told = [line.removeprefix("store: module ") for line in lines if line.startswith("store: module")]
    want = [f"{name} is there" for name in there]
    want += ["jifl_known comes", "jifl_known goes"] * 2 + ["order comes", "order goes"]
    same("modules", told, want)
    same("their number", (counts["there"], counts["came"], counts["went"]), (len(there), 3, 3))


def places(lines):
    """Lines of order's records, without the name of the plugin that its own code has behind it."""
    return [[word for word in line if not word.startswith("[")] for line in lines]


def order():
    """Of two plugins at the same places the one started first is first, whatever their lanes."""
    for name in ("order", "other"):
        good(f"{name} is loaded", "load", PLUGINS / f"{name}.ko")
    start("other", pid=os.getpid())
    for first, second in (("other", "order"), ("order", "other")):
        start(second, pid=os.getpid())
        for _ in range(CALLS):
            os.getppid()
        (one, lost), (two, lost_too) = read(first), read(second)
        same("nothing is lost", (lost, lost_too), (0, 0))
        check("records of both", len(one) >= len(two) >= 4 * CALLS, (len(one), len(two)))
        one = one[-len(two):]
        same("at the same places", [place for _, *place in places(one)], [place for _, *place in places(two)])
        times = [int(line[0]) for pair in zip(one, two) for line in pair]
        same(f"{first} and {second} take turns, in this order", times, sorted(times))
        # Its place among the sessions is taken by the one that starts next.
        good(f"{first} stops", "stop", first)
    good("other stops", "stop", "other")
    for name in ("order", "other"):
        good(f"{name} is unloaded", "unload", name)


def source_lines():
    """Behind the places that records name, where there is debug information.

    That is the plugin's own, not the kernel's.
    """
    good("order is loaded", "load", PLUGINS / "order.ko")
    start("order", pid=os.getpid())

    def shown(**environment):
        for _ in range(CALLS):
            os.getppid()
        end = run("jifl", "read", "order", "--lines", env=os.environ | environment)
        lines = end.stdout.splitlines()
        notes = end.stderr.splitlines()
        check("order is read", end.returncode == 0 and len(notes) == 2 and len(lines) >= 4 * CALLS
              and notes[1] == f"# records {len(lines)}, lost 0", end.stderr)
        check("what is missing is said once", re.fullmatch(
            "jifl: no source lines of the kernel: its debug information is not here; install .*", notes[0]), notes)
        own = {place for place in (line.split(" ", 2)[2] for line in lines) if place.startswith("at_point+")}
        kernel = [line for line in lines if "at_point+" not in line]
        same("of the kernel there are none", [line for line in kernel if not PLACE.fullmatch(line)], [])
        return own

    (plain,) = shown()
    check("nor of the plugin", re.fullmatch(r"at_point\+0x0/0x[0-9a-f]+ \[order\]", plain), plain)
    finder = Path(tempfile.mkdtemp()) / "debuginfod-find"
    # $2 is a build id; find.rs passes over what has another.
    finder.write_text(f"#!/bin/sh\necho {PLUGINS}/order.ko\n")
    finder.chmod(0o755)
    (start_of,) = re.findall(r"(\w+) t at_point$", run("nm", PLUGINS / "order.ko").stdout, re.MULTILINE)
    # The code that a function begins with is of its first line, or the one before: binutils knows.
    line = run("addr2line", "-e", PLUGINS / "order.ko", "-j", ".text", start_of).stdout.strip()
    check("the line is the plugin's", re.fullmatch(r"/.*/order\.c:\d+", line), line)
    same("and shown", shown(DEBUGINFOD_URLS="here", PATH=f"{finder.parent}:{os.environ['PATH']}"), {f"{plain} ({line})"})
    good("order stops", "stop", "order")
    good("order is unloaded", "unload", "order")
    end = run("jifl", "read", "order", "--source", "/")
    check("what is of no use is refused", end.returncode == 2 and "--lines of read" in end.stderr, end)


def flushes(calls, module):
    """In a cache that is too small, each flush is told of; calls go on."""
    good("store is unloaded", "unload", "store")
    good("jifl is unloaded", "unload", "jifl")
    same("jifl is loaded with a small cache", run("insmod", module, "cache_kb=512",
                                                     "side_kb=512", *plant()).returncode, 0)
    good("store is loaded", "load", PLUGINS / "store.ko")
    same("nothing has been emptied", status()["flushes"], 0)
    mark = start("store")

    def work():
        program = f"ls -l /usr/lib | sort | tail -1; cat /proc/version; {calls} 100"
        same("a program runs", run("sh", "-c", program).returncode, 0)
        return status()["flushes"] >= 2

    wait_for("the cache is emptied", work)
    counts, _ = stop(mark)
    # The last one's end empties it, too.
    same("flushes that it was told of", counts["flushes"], status()["flushes"] - 1)
    check("code is seen again", counts["again"] == counts["flushes"] >= 2, counts)
    good("store is unloaded", "unload", "store")


def program(_, calls, module):
    whole(calls)
    full()
    modules()
    order()
    source_lines()
    flushes(calls, module)


main(program)
