# SPDX-License-Identifier: MIT OR Apache-2.0
"""What calls are about (jifl stat --by): each object has the calls and the times of its own calls.

usage: objects.py

As in stat.py, clocks are read inside of what is measured, and around it.
"""

import json
import os
import signal
import threading
import time
from pathlib import Path

from contexts import CONTEXTS, DEPTH, MODULE, N, call
from lib import PIPE_READ, check, complaints, figure, interrupt, kernel_log, log_mark, main, reload, run, same, session, status
from probe import Graphs, Kprobes
from reader import Reader, now
from times import NS, between, stat

SEED = 0x1234567812345678
INODE = "file->f_inode->i_ino"
# Of pipe_read.
PIPE = "iocb->ki_filp->f_inode->i_ino"


def by(expression, *words):
    return stat(*words, "--by", expression)


def objects_of(owner, name, label):
    """(objects by what they are, the others, the report)"""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    check(f"{name}: a report", out, err)
    report = json.loads(out)
    same(f"{name}: nothing is missed", (report["missed"], report["unwatched"]), (0, 0))
    for row in report["functions"]:
        same(f"{name}: {row['by']}: wall", row["wall_ns"], row["cpu_ns"] + row["blocked_ns"] + row["runnable_ns"])
    others = [row for row in report["functions"] if row["others"]]
    return {row["by"][label]: row for row in report["functions"] if not row["others"]}, others, report


def calls_of(rows):
    return {key: row["calls"] for key, row in rows.items()}


def files():
    """Each file has its own reads, whoever makes them."""
    paths = [Path(f"/tmp/object-{i}") for i in range(5)]
    for path in paths:
        path.write_bytes(b"x" * 100)
    owner = by(INODE, "fn:vfs_read", "-p", str(os.getpid()))
    wanted = {}

    def reads(turns):
        for i, path in enumerate(paths):
            with open(path, "rb", buffering=0) as file:
                for _ in range(turns + i):
                    os.pread(file.fileno(), 10, 0)

    threads = [threading.Thread(target=reads, args=(turns,)) for turns in (3, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, path in enumerate(paths):
        wanted[path.stat().st_ino] = 3 + 40 + 2 * i
    rows, others, _ = objects_of(owner, "files", INODE)
    got = calls_of(rows)
    same("files: reads of each", {inode: got.get(inode) for inode in wanted}, wanted)
    same("files: none is left over", [row["calls"] for row in others], [])
    owner = by("file->f_path", "fn:vfs_read", "-p", str(os.getpid()))
    reads(7)
    rows, _, _ = objects_of(owner, "names", "file->f_path")
    same("names: reads of each", {path.name: calls_of(rows).get(path.name) for path in paths},
         {path.name: 7 + i for i, path in enumerate(paths)})


def waits():
    """Each pipe's readers wait for it alone: also those that still do at the end, and those that did at the beginning."""
    readers = [Reader() for _ in range(3)]
    inodes = [os.stat(f"/proc/{reader.process.pid}/fd/0").st_ino for reader in readers]
    before = now()
    owner = by(PIPE, f"fn:{PIPE_READ}", "-n", "cat")
    # The reads in which they were end here. They are about nobody knows what.
    for reader in readers:
        os.write(reader.pipe, b"x")
    rounds = (2, 5, 0)
    least = [reader.waits(turns, now, 0.05) for reader, turns in zip(readers, rounds)]
    for reader in readers:
        reader.sleeps()
    seen = now()
    time.sleep(0.2)
    inside = now() - seen
    rows, others, report = objects_of(owner, "waits", PIPE)
    most = now() - before
    for i, inode in enumerate(inodes):
        row = rows[inode]
        same(f"waits: reads of pipe {i}", (row["calls"], row["inside"], row["adopted"]), (rounds[i] + 1, 1, 0))
        between(f"waits: as long as nobody writes to pipe {i}", least[i] + inside, row["blocked_ns"], most)
    same("waits: those from before", [(row["calls"], row["adopted"], row["inside"]) for row in others], [(0, 3, 0)])
    for reader in readers:
        reader.end()


def deaths():
    """A reader that is killed inside of the kernel: its object has it."""
    owner = by("comm", "fn:get_signal", "-n", "cat")
    for _ in range(3):
        reader = Reader()
        reader.process.send_signal(signal.SIGKILL)
        reader.process.wait()
        os.close(reader.pipe)
    rows, _, _ = objects_of(owner, "deaths", "comm")
    same("deaths", (rows["cat"]["died"], rows["cat"]["inside"]), (3, 0))


def each_context():
    """Calls in each context, by their argument, natively, too; each level has its own."""
    graphs = Graphs("fn:contexts_work")
    first = graphs.instructions("contexts_work")[1][0]
    for natively in (False, True):
        for context in [name for name, about in CONTEXTS.items() if not about.get("function")]:
            name = f"{context}, {'natively' if natively else 'in copies'}"
            owner = by("level,rdi", "fn:contexts_work")
            kprobes = Kprobes(f"contexts_work{first}") if natively else None
            made = call(context)
            rows, others, report = objects_of(owner, name, "rdi")
            same(f"{name}: none is left over", others, [])
            calls = {}
            for row in report["functions"]:
                calls.setdefault(row["by"]["level"], {})[row["by"]["rdi"]] = row["calls"]
            same(f"{name}: by level", {level: sum(calls.get(level, {}).values()) for level in made}, made)
            check(f"{name}: arguments", all(0 <= int(str(x), 0) - SEED < N for one in calls.values() for x in one), calls)
            if sum(made.values()) == N:
                same(f"{name}: each argument", len(rows), len({x for one in calls.values() for x in one}))
            if kprobes:
                same(f"{name}: the kprobe's hits", sum(kprobes.hits().values()), sum(made.values()))
                kprobes.clear()


def callers():
    """Who calls is the one that a probe has found, and so is the stack."""
    for expression in ("caller", "stack"):
        probes = session("fn:contexts_work", "--by", expression, "-f", "json", command="probe")
        owner = by(expression, "fn:contexts_work")
        made = sum(sum(call(context).values()) for context in ("task", "timer", "ipi", "recursion", "work"))
        out, _ = interrupt(owner)
        key = str if expression == "caller" else ";".join
        got = {key(row["by"][expression]): row["calls"] for row in json.loads(out)["functions"]}
        out, _ = interrupt(probes)
        groups = json.loads(out)["groups"]
        wanted = {}
        for one in groups:
            name = one["by"]["caller"] if expression == "caller" else ";".join(one["stack"])
            wanted[name] = wanted.get(name, 0) + one["hits"]
        same(f"{expression}: as a probe has it", got, wanted)
        check(f"{expression}: of the module's own", sum(got.values()) >= made and any("contexts_recurse" in one for one in got), got)


def recursion():
    """Calls inside each other are about what the first one is about."""
    owner = by("rdi", "fn:contexts_recurse")
    made = sum(call("recursion").values())
    rows, _, _ = objects_of(owner, "recursion", "rdi")
    same("recursion: the outermost", {int(str(key), 0) & 0xffffffff: row["calls"] for key, row in rows.items()}, {DEPTH: made})


def no_room():
    """What finds no room is among the others, and said."""
    room = 16
    reload(f"probe_groups={room}")
    owner = by("rdi", "fn:contexts_work")
    made = sum(call("task").values())
    rows, others, _ = objects_of(owner, "no room", "rdi")
    same("no room: calls", (sum(calls_of(rows).values()), [row["calls"] for row in others]), (room, [made - room]))
    owner = session("fn:contexts_work", "--by", "rdi", command="stat")
    call("task")
    out, _ = interrupt(owner)
    check("no room: it is said", "calls are about what found no room" in out, out)
    reload()


def intervals():
    """Intervals add up to the report; the text forms have what was asked for."""
    owner = session("calls", "fn:contexts_work", "--by", "rdi", "-i", "100ms", "-f", "ndjson", command="stat")
    for _ in range(6):
        call("task", 10)
        time.sleep(0.06)
    out, _ = interrupt(owner)
    *parts, last = map(json.loads, out.splitlines())
    check("intervals: there are some", parts, out)
    sums = {}
    for row in (row for one in parts for row in one["interval"]):
        sums[row["by"]["rdi"]] = sums.get(row["by"]["rdi"], 0) + row["calls"]
    same("intervals: calls", sums, {row["by"]["rdi"]: row["calls"] for row in last["functions"]})
    csv = run("jifl", "stat", "calls,wall", "fn:do_sys_openat2", "--by", "comm,cpu", "-f", "csv", "--", "cat", "/dev/null")
    title, line, *_ = csv.stdout.splitlines()
    same("csv: titles", title, "function,module,comm,cpu,calls,wall")
    check("csv: a line", line.startswith("do_sys_openat2,,cat,") and csv.returncode == 0, csv)
    text = run("jifl", "stat", "calls", "fn:do_sys_openat2", "--by", "file=comm", "--", "cat", "/dev/null")
    check("text", text.stdout.splitlines()[0].split() == ["FUNCTION", "FILE", "CALLS"], text.stdout)


def counters():
    """Tracepoints, too."""
    owner = session("calls,tracepoint:printk:console", "fn:vfs_write", "--by", "count", "-p", str(os.getpid()), "-f", "json",
                    command="stat")
    with open("/dev/kmsg", "wb", buffering=0) as log, open("/dev/null", "wb", buffering=0) as nothing:
        for size, turns in ((11, 2), (12, 3)):
            for _ in range(turns):
                log.write(b"x" * size)
                nothing.write(b"x" * 13)
    rows, _, _ = objects_of(owner, "counters", "count")
    got = {size: rows[size]["metrics"]["tracepoint:printk:console"] for size in (11, 12, 13)}
    same("counters: messages by their size", got, {11: 2, 12: 3, 13: 0})


def refused():
    """One line each, and the way out."""
    for words, why in {
        ("fn:vfs_read", "--by", "file->f_nothing"): "f_nothing",
        ("fn:vfs_read", "--by", "nothing"): "`nothing` is unknown; ",
        ("fn:vfs_read", "--by", "$ret"): "ret",
        ("fn:vfs_read", "--by", ""): "empty",
        ("fn:vfs_read", "--by", "comm,comm,comm,comm,comm"): "--by: these need 80 bytes",
    }.items():
        end = run("jifl", "stat", *words, "--for", "10ms")
        check(f"refused: {' '.join(words)}", end.returncode and why in end.stderr and end.stderr.count("\n") == 1, end)


def objects():
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    for part in (files, waits, deaths, each_context, callers, recursion, intervals, counters, no_room, refused):
        began = now()
        part()
        figure(f"{part.__name__}: seconds", (now() - began) // NS)
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(objects)
