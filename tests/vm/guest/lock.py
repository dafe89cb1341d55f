# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl lock`, compared with locks for which a module knows how often and how long tasks waited
(modules/jifl_locks.c), and with waits that a program makes for a lock of the kernel's own
(contend.c).

usage: lock.py CONTEND

Needs two CPUs: the module's other thread is on the last.
"""

import json
import os
import re
import subprocess
from pathlib import Path

from lib import SLOWNESS, background, check, figure, interrupt, main, run, same, status, wait_for

MODULES = Path(os.environ["JIFL_ROOT"], "build/modules", os.uname().release)
LOCKS = Path("/proc/jifl_locks")
TRACING = Path("/sys/kernel/tracing")
MS, TIMES = 30, 3
# The line of it, and the type: what is waited for is known_LOCK, by take_CALLER.
KNOWN = {
    "spinlock": ("spinlock", "spinlock", "spinlock"),
    "rwlock:R": ("rwlock:R", "rwlock", "rwlock_read"),
    "rwlock:W": ("rwlock:W", "rwlock", "rwlock_write"),
    "rwsem:R": ("rwsem:R", "rwsem", "rwsem_read"),
    "rwsem:W": ("rwsem:W", "rwsem", "rwsem_write"),
    "semaphore": ("semaphore", "semaphore", "semaphore"),
    "rt-mutex": ("rt-mutex", "rt_mutex", "rt_mutex"),
    "pcpu-sem": ("pcpu-sem", "percpu_rwsem", "percpu_read"),
    # Two lines: its holder sleeps, and it does not.
    "mutex": ("mutex", "mutex", "mutex"),
    "mutex-spin": ("mutex", "mutex", "mutex"),
}
# What the kernel's own tracepoint says of each. It leaves out spinlocks that one waits for alone.
FLAGS = {"rwlock:R": "SPIN|READ", "rwlock:W": "SPIN|WRITE", "rwsem:R": "READ", "rwsem:W": "WRITE", "semaphore": "",
         "rt-mutex": "RT", "pcpu-sem": "READ|PERCPU", "mutex": "SPIN|MUTEX"}


def jifl(*arguments, status=0):
    """The objects that `jifl lock` writes, and what it notes."""
    out = Path("/run/locks")
    end = run("jifl", "lock", "-f", "ndjson", "-o", out, *arguments)
    same(f"jifl lock {' '.join(map(str, arguments))[:60]} ends well", end.returncode, status)
    return [json.loads(line) for line in out.read_text().splitlines()], end.stderr


def orders(ms, kinds=KNOWN, times=TIMES, shell="sh"):
    """A command that takes known locks, each so many times."""
    words = [f"echo '{kind} {ms} {times}' >{LOCKS}" for kind in kinds]
    return ["--", "taskset", "-c", "0", shell, "-ec", "\n".join(words)]


def known(rows):
    """Those that are about the module's locks."""
    return [row for row in rows if row["lock"].startswith("known_")]


def lines():
    """What the module says of each kind: the number of waits, and how long they took.

    That is at most how long all of them took, and the longest; and the same, at least.
    """
    said = (line.split() for line in LOCKS.read_text().splitlines())
    return {kind: [int(value) for value in values] for kind, *values in said}


def counted():
    """The same by type, lock and caller."""
    sums = {}
    for kind, values in lines().items():
        if kind in KNOWN:
            sums.setdefault(KNOWN[kind], []).append(values)
    return {name: [join(column) for join, column in zip((sum, sum, max, sum, max), zip(*values))]
            for name, values in sums.items()}


def known_waits():
    """Each lock that was waited for is there, by its caller, as often and as long.

    It is there in both of two sessions.
    """
    inner = Path("/run/inner")
    outer, stderr = jifl("sys:write", "--", "jifl", "lock", "-f", "ndjson", "-o", inner, "sys:write", *orders(MS))
    check("all ends were seen", stderr.count("waits whose end was not seen 0") == 2, stderr)
    judge(outer)
    judge([json.loads(line) for line in inner.read_text().splitlines()])


def judge(rows):
    found = {(row["type"], row["lock"], row["caller"].partition("+")[0]): row for row in known(rows)}
    want = {(kind, f"known_{lock} [jifl_locks]", f"take_{caller}"): value for (kind, lock, caller), value in counted().items()}
    same("the known locks, types and callers are those found", sorted(found), sorted(want))
    for name, (waits, ns, longest, kept, kept_longest) in want.items():
        row = found.get(name)
        if not row:
            continue
        same(f"{name}: waited for as often as the module says", (row["contended"], row["unfinished"]), (waits, 0))
        check(f"{name}: as long", kept <= row["wait_ns"] <= ns, (row, kept, ns))
        check(f"{name}: and at most", kept_longest <= row["max_ns"] <= longest, (row, kept_longest, longest))
        check(f"{name}: its caller is the module's", row["caller"].endswith(" [jifl_locks]"), row)
        figure(f"{name[0]}: of the module's time", f"{row['wait_ns'] / ns:.4f}")


def tracepoint():
    """The kernel's own tracepoint, whose calls are patched into the slow paths, sees the same."""
    event = TRACING / "events/lock/contention_begin/enable"
    shell = Path("/run/known")
    shell.write_bytes(Path("/bin/sh").read_bytes())
    shell.chmod(0o755)
    event.write_text("1")
    rows, _ = jifl("sys:*", "-n", "known", *orders(MS, times=1, shell=shell))
    event.write_text("0")
    flags = re.findall(r" known-\d+ .* contention_begin: .*\(flags=(.*)\)", (TRACING / "trace").read_text())
    for kind, flag in FLAGS.items():
        same(f"{kind}: as often as the tracepoint says", sum(row["contended"] for row in rows if row["type"] == kind), flags.count(flag))


def nested():
    """A wait within a wait is one of its own, and a part of the other."""
    rows, _ = jifl("sys:write", *orders(MS, ["nested"]))
    found = {(row["type"], row["lock"]): row for row in known(rows)}
    outside, inside = ("rwlock:W", "known_rwlock [jifl_locks]"), ("spinlock", "known_rwlock+0x4 [jifl_locks]")
    if not same("both locks are there", sorted(found), sorted([outside, inside])):
        return
    same("waited for as often", [(row["contended"], row["unfinished"]) for row in found.values()], [(TIMES, 0)] * 2)
    same("by the same", len({row["caller"] for row in found.values()}), 1)
    outside, inside = found[outside]["wait_ns"], found[inside]["wait_ns"]
    _, ns, _, kept, _ = lines()["nested"]
    rest = MS * TIMES * 1e6
    check("the one within for its part", kept <= inside <= outside - rest, (kept, inside, outside))
    check("the other for all of it", kept + rest <= outside <= ns, (kept, outside, ns))


def slow_path():
    """A function that waits for a lock, as a target: its waits are seen from their beginning."""
    before = lines()["rwsem:W"]
    rows, stderr = jifl("fn:rwsem_down_write_slowpath", *orders(MS, ["rwsem:W"]))
    _, ns, _, kept, _ = (now - then for now, then in zip(lines()["rwsem:W"], before))
    same("rwsem_down_write_slowpath: each wait", [(row["lock"], row["contended"], row["unfinished"]) for row in known(rows)],
         [("known_rwsem [jifl_locks]", TIMES, 0)])
    check("and how long it took", all(0 < kept <= row["wait_ns"] <= ns for row in known(rows)), (rows, kept, ns, stderr))


def known_text():
    """The text has the same, by lock, by caller and by both; the heading is the page's."""
    for by, heading in (("lock,caller", "LOCK +CALLER +TYPE"), ("lock", "LOCK +TYPE"), ("caller", "CALLER +TYPE")):
        end = run("jifl", "lock", "sys:write", "--by", by, *orders(MS, ["rwsem:R", "rwsem:W"]))
        text = end.stdout.splitlines()
        check(f"--by {by}: the heading", re.fullmatch(heading + " +CONTENDED +TOTAL WAIT +MAX WAIT +AVG WAIT", text[0]), end)
        mine = [re.split("  +", line) for line in text if re.match(r"known_rwsem|take_rwsem", line)]
        same(f"--by {by}: the types", sorted(line[-5] for line in mine), ["rwsem:R", "rwsem:W"])
        same(f"--by {by}: how often", [line[-4] for line in mine], [str(TIMES)] * 2)


def uncontended():
    """Who takes these locks alone waits for none; a session without waits says so in one line."""
    kinds = [kind for kind in KNOWN if kind != "mutex-spin"]
    rows, _ = jifl("sys:write", *orders(0, kinds))
    same("locks that nobody else has are not waited for", known(rows), [])
    end = run("jifl", "lock", "sys:getppid", "--", "sh", "-c", ":")
    same("where nothing is waited for one line says so", end.stdout.splitlines()[0],
         "# no lock was waited for and nothing tried again in 1 calls")
    rows, stderr = jifl("sys:getppid", "--", "sh", "-c", ":")
    same("for programs it is no line, and the note", (rows, stderr),
         ([], "no lock was waited for and nothing tried again in 1 calls\n"))


def retries():
    """A cmpxchg that fails so often is tried again so often; another is not.

    That is so whether the flag is asked or the value.
    """
    before = counted()
    rows, _ = jifl("sys:write", "--", "sh", "-c", f"echo 'cmpxchg 0 7' >{LOCKS}")
    found = sorted((row["type"], row["lock"], row["caller"].partition("+")[0], row["cmpxchg"] == row["caller"], row["retries"])
                   for row in known(rows))
    cell = "known_cell [jifl_locks]"
    same("retries are counted, by place and cell", found, [("cmpxchg", cell, "retry_cell", True, 7),
                                                           ("cmpxchg", cell, "retry_cell_compared", True, 7)])
    rows, _ = jifl("sys:write", "--", "sh", "-c", f"echo 'cmpxchg 0 0' >{LOCKS}")
    same("what succeeds at once is no retry", known(rows), [])
    same("and no lock was taken", counted(), before)


def writers(contend):
    """A file's lock, which two threads write to, is waited for once in each round, and so long."""
    file = "/run/contended"     # a tmpfs: one lock for a file, and nothing below
    end = run("sh", "-c", f"exec jifl lock sys:pwrite64 -f ndjson -o /run/locks -- {contend} {file} {TIMES} {MS}")
    total = int(end.stdout)
    rows = [json.loads(line) for line in Path("/run/locks").read_text().splitlines()]
    mine = [row for row in rows if row["type"] == "rwsem:W"]
    check("there is one such lock, the file's", len(mine) == 1, rows)
    same("it was waited for once in each round", (mine[0]["contended"], mine[0]["unfinished"]), (TIMES, 0))
    check("so long", MS * TIMES * 1e6 <= mine[0]["wait_ns"] <= total, (mine, total))
    check("by who writes to files", re.fullmatch(r"\w+_file_write_iter\+0x\w+", mine[0]["caller"]), mine)


def ended_meanwhile(contend):
    """A session that ends while a thread waits says so, and the thread goes on."""
    lock = background("jifl", "lock", "sys:pwrite64", "-f", "ndjson")
    wait_for("the session", lambda: status()["sessions"])
    writer = background(contend, "/run/contended", "hold", 0, stdin=subprocess.PIPE)
    same("a thread waits", writer.stdout.readline(), "waiting\n")
    out, err = interrupt(lock)
    check("the session ends meanwhile", writer.poll() is None, writer.poll())
    mine = [row for line in out.splitlines() if (row := json.loads(line))["type"] == "rwsem:W"]
    same("its wait has begun and not ended", [(row["contended"], row["unfinished"], row["wait_ns"]) for row in mine], [(1, 1, 0)])
    check("which the note says", "waits whose end was not seen 1" in err, err)
    writer.communicate(timeout=60 * SLOWNESS)
    same("the thread goes on", writer.returncode, 0)


def program(contend):
    same("jifl_locks is loaded", run("insmod", MODULES / "jifl_locks.ko").returncode, 0)
    known_waits()
    tracepoint()
    nested()
    slow_path()
    known_text()
    uncontended()
    retries()
    same("jifl_locks is unloaded", run("rmmod", "jifl_locks").returncode, 0)
    writers(contend)
    ended_meanwhile(contend)
    same("no session is left", status()["sessions"], [])


main(program)
