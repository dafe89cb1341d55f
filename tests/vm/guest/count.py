# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl count`: figures computed from counts of blocks, compared with other sessions on the same
calls; counts by task and CPU, compared with programs that know their own calls; histograms of known
values.
"""

import contextlib
import ctypes
import errno
import json
import os
import re
import select
import signal
import time
from collections import Counter
from pathlib import Path

import touches
from lib import Device, check, figure, interrupt, main, reload, run, same, session, state_of, status, wait_for

CALL, INSN, PROFILE = 1, 2, 6
GETPPID = 110
TRACING = Path("/sys/kernel/tracing")
TIMES = 40
# Names of system calls that Python makes only when it is told to.
CALLS = {
    "getcwd": os.getcwd,
    "umask": lambda: os.umask(18),
    "access": lambda: os.access("/etc/passwd", 4),
    "getpgid": lambda: os.getpgid(0),
    "uname": os.uname,
    "getppid": os.getppid,
}
TARGETS = [f"sys:{name}" for name in CALLS]


def make_calls():
    for call in CALLS.values():
        for _ in range(TIMES):
            call()


def at_once(work, *counts):
    """What `jifl count` says in each of these ways of the same work of this process."""
    sessions = [session(*words, "-f", "json", "-p", os.getpid()) for words in counts]
    work()
    reports = []
    for process in sessions:
        out, err = interrupt(process)
        check(f"{process.args[2:5]} ends well", process.returncode == 0, (process.returncode, err))
        reports.append(json.loads(out))
    return reports


def rows(report, key, figure):
    return {row[key]: row[figure] for row in report["rows"]}


# --- what follows from counts of blocks ---------------------------------------------------------


def opcodes():
    insn, opcode, by_func, branch = at_once(make_calls, ["insn", *TARGETS], ["opcode", *TARGETS],
                                            ["insn", *TARGETS, "--by", "func"], ["branch", *TARGETS, "--by", "func"])
    truth = sum(target["instructions"] for target in insn["targets"])
    same("all calls are in all of them", [report["calls"] for report in (opcode, by_func, branch)],
         [len(CALLS) * TIMES] * 3)
    same("nothing is missed", [report["missed"] for report in (insn, opcode, by_func, branch)], [0] * 4)
    same("opcodes: the sum is the instructions", opcode["total"]["executed"], truth)
    same("opcodes: all code is known", (opcode["unknown_blocks"], opcode["unknown_instructions"]), (0, 0))
    found = rows(opcode, "opcode", "executed")
    same("opcodes: thunks are a line", found.get("(thunk)", 0), opcode["thunk_instructions"])
    same("by function: the sum is the instructions", by_func["total"]["instructions"], truth)
    conditional = sum(n for name, n in found.items() if re.fullmatch(r"j(?!mp$)\w+|loop\w*", name))
    same("branches are what jumps on a condition", branch["total"]["executed"], conditional)
    check("branches go one way or the other", all(row["taken"] + row["not_taken"] == row["executed"] > 0
                                                  for row in branch["rows"]), branch["rows"][:5])
    check("they go both ways", branch["total"]["taken"] and branch["total"]["not_taken"], branch["total"])
    figure("instructions by opcode, opcodes", f"{truth}, {len(found)}")


def memory():
    """Read off what is shown of the code, for calls with simple code."""
    names = ["getppid", "umask", "getpgid"]

    targets = [f"sys:{name}" for name in names]
    blocks = []
    with Device() as device:
        device.start(PROFILE, [GETPPID, 95, 121], filters=1 << 1, tgid=os.getpid())
        own = status()["sessions"][0]["id"]

        def work():
            for name in names:
                for _ in range(TIMES):
                    CALLS[name]()
            blocks.extend(json.loads(run("jifl", "dump", "--session", own, "-f", "json").stdout)["blocks"])

        load, store = at_once(work, ["load", *targets], ["store", *targets, "--by", "func"])
        device.stop()
        executed = {(count.orig, count.length): count.executed for count in device.counts()[0]}
    reads, writes = touches.executed(blocks, executed, touches.named)
    check("there are some", reads > 10 * TIMES and writes > TIMES, (reads, writes))
    same("reads of memory", load["total"]["loads"], reads)
    same("writes of memory, by function", store["total"]["stores"], writes)
    same("of as many instructions", store["total"]["instructions"], load["total"]["instructions"])


def functions():
    func, block, by_func = at_once(make_calls, ["func", *TARGETS], ["block", *TARGETS],
                                   ["block", *TARGETS, "--by", "func"])
    calls = rows(func, "func", "calls")
    for name in ("getppid", "umask", "getpgid"):
        same(f"{name} is called as often as it is", calls[f"__x64_sys_{name}"], TIMES)
    same("blocks by function are all blocks", by_func["total"]["executed"],
         sum(target["blocks_executed"] for target in block["targets"]))


def changed_code():
    """Of code that is other code when it is looked at, nothing is said."""
    symbols = re.findall(r"^(\w+) [tT] (__x64_sys_getppid)$", Path("/proc/kallsyms").read_text(), re.M)
    # Behind endbr64, where there is one, and the place for tracers.
    at = int(symbols[0][0], 16) + (5 if os.uname().release.startswith("6.1.") else 9)
    run("mount", "-t", "tracefs", "none", TRACING)

    def work():
        for _ in range(TIMES):
            os.getppid()
        events = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
        os.write(events, f"p:count/changed {at:#x}\n".encode())
        os.close(events)
        (TRACING / "events/count/enable").write_text("1")

    insn, opcode = at_once(work, ["insn", "sys:getppid"], ["opcode", "sys:getppid"])
    (TRACING / "events/count/enable").write_text("0")
    (TRACING / "kprobe_events").write_text("")
    found = rows(opcode, "opcode", "executed")
    check("what has changed is not known", found.get("(unknown)", 0) >= TIMES
          and found["(unknown)"] == opcode["unknown_instructions"] and opcode["unknown_blocks"] > 0, opcode)
    same("and still counted", opcode["total"]["executed"], insn["targets"][0]["instructions"])


# --- by task and CPU ----------------------------------------------------------------------------


def worker(comm, cpu, calls):
    """A process that waits for a byte, then makes so many calls."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(w)
        Path("/proc/self/comm").write_text(comm)
        os.sched_setaffinity(0, {cpu})
        os.read(r, 1)
        for _ in range(calls):
            os.getppid()
        os._exit(0)
    os.close(r)
    wait_for("read", lambda: state_of(pid) == "S")
    return pid, w


def keys():
    last = os.cpu_count() - 1
    work = [("alpha", 0, 100), ("alpha", last, 37), ("beta", last, 250), ("b,\"\t", 0, 1)]
    workers = [(*worker(*kind), *kind) for kind in work]
    ways = [["call", "--by", "comm,pid,cpu"], ["insn", "--by", "pid"], ["block", "--by", "cpu,comm"], ["insn"]]
    sessions = [session(*way, "sys:getppid", "-f", "json") for way in ways]
    for pid, w, *_ in workers:
        os.write(w, b"x")
        os.close(w)
        same("a worker ends well", os.waitpid(pid, 0)[1], 0)
    call, insn, block, all_insns = [json.loads(interrupt(process)[0]) for process in sessions]
    found = {(row["comm"], row["pid"], row["cpu"]): row["calls"] for row in call["rows"]}
    for pid, _, comm, cpu, calls in workers:
        same(f"calls of {comm!r} on {cpu}", {key: n for key, n in found.items() if key[1] == pid},
             {(comm, pid, cpu): calls})
    by_pid = {row["pid"]: row for row in insn["rows"]}
    same("calls by process", [by_pid[pid]["calls"] for pid, *_ in workers], [calls for *_, calls in workers])
    costs = {by_pid[pid]["instructions"] / calls for pid, *_, calls in workers}
    check("each costs the same", max(costs) - min(costs) < 0.1 * max(costs), costs)
    by_both = {(row["comm"], row["cpu"]): row["calls"] for row in block["rows"]}
    expected = Counter()
    for comm, cpu, calls in work[:3]:
        expected[comm, cpu] += calls
    same("calls by CPU and name", {key: by_both.get(key) for key in expected}, dict(expected))
    same("columns are in one order", block["by"], ["comm", "cpu"])
    target = all_insns["targets"][0]
    same("all keys together are all", [insn["total"], call["total"]["calls"]],
         [{"calls": target["calls"], "instructions": target["instructions"]}, target["calls"]])
    same("all keys have room", [report["other"]["calls"] for report in (call, insn, block)], [0, 0, 0])
    end = run("jifl", "count", "insn", "sys:exit_group", "--by", "comm", "-f", "json", "--", "true")
    same("a call that does not return is counted", rows(json.loads(end.stdout), "comm", "calls"), {"true": 1})


def few_keys():
    reload("count_keys=16")
    script = "i=0; while [ $i -lt 40 ]; do (:) & wait; i=$((i + 1)); done"
    end = run("jifl", "count", "call", "sys:exit_group", "--by", "pid", "-f", "json", "--", "sh", "-c", script)
    report = json.loads(end.stdout)
    same("there are as many keys as have room", len(report["rows"]), 16)
    same("the others are counted together", (report["total"]["calls"], report["other"]["calls"]), (41, 25))
    check("which is said", "25 calls found no room" in end.stderr, end.stderr)
    reload()


# --- histograms ---------------------------------------------------------------------------------


def drawn(report, name):
    """Of a histogram: negative ones, and the others by their lower bounds."""
    target = next(target for target in report["targets"] if target["syscall"] == name)
    return target, target["negative"], {b["low"]: b["count"] for b in target["buckets"] if b["count"]}


def sizes():
    libc = ctypes.CDLL(None)
    zero = os.open("/dev/zero", os.O_RDONLY)
    buffer = ctypes.create_string_buffer(1 << 16)

    def work():
        for size in (0, 1, 2, 3, 4, 1000, 1000, 1 << 12, 1 << 16):
            libc.pread(zero, buffer, size, 0)
        for _ in range(3):
            libc.pread(-1, buffer, 5, 0)

    retval, arg = at_once(work, ["hist:retval", "sys:pread64"], ["hist:ARG2", "sys:pread64"])
    expected = {0: 1, 1: 1, 2: 2, 4: 1, 512: 2, 1 << 12: 1, 1 << 16: 1}
    target, negative, buckets = drawn(retval, "pread64")
    same("what read returns", (target["calls"], negative, buckets), (12, 3, expected))
    same("its sum, least and most", (target["sum"], target["min"], target["max"]),
         (10 + 2000 + (1 << 12) + (1 << 16), 0, 1 << 16))
    target, negative, buckets = drawn(arg, "pread64")
    same("what it is asked for", (target["calls"], negative, buckets), (12, 0, {**expected, 4: 4}))
    os.close(zero)


def sleeper():
    """The process that is in clock_nanosleep, or None."""
    for path in Path("/proc").glob("[0-9]*/syscall"):
        with contextlib.suppress(OSError):
            if path.read_text().startswith("230 "):
                return int(path.parent.name)
    return None


def durations():
    times = []

    def work():
        for _ in range(5):
            begin = time.monotonic_ns()
            select.select([], [], [], 0.03)
            times.append(time.monotonic_ns() - begin)

    (report,) = at_once(work, ["hist:duration", "sys:select", "sys:pselect6"])
    target, negative, buckets = drawn(report, report["targets"][0]["syscall"])
    same("all are timed", (target["calls"], negative, sum(buckets.values())), (5, 0, 5))
    check("they last as long as they sleep, and not longer than they take",
          30e6 <= target["min"] <= target["sum"] / 5 <= target["max"] <= max(times)
          and target["sum"] <= sum(times), (target, times))
    check("buckets hold what is in them", all(target["min"] < 2 * low and low <= target["max"] for low in buckets), buckets)
    end = run("jifl", "count", "hist:retval", "sys:pause", "sys:exit_group", "-f", "json", "--", "sh", "-c", "exit 3")
    target, negative, buckets = drawn(json.loads(end.stdout), "exit_group")
    same("who does not return has no result", (target["calls"], target["no_return"], negative, buckets), (1, 1, 0, {}))
    process = session("hist:duration", "sys:clock_nanosleep", "-f", "json", "--", "sleep", "300")
    wait_for("it sleeps", lambda: status()["sessions"] and sleeper())
    time.sleep(0.1)
    os.kill(sleeper(), signal.SIGKILL)
    out = process.communicate(timeout=60)[0]
    target = drawn(json.loads(out), "clock_nanosleep")[0]
    check("a sleep that is killed lasts until then", target["calls"] == 1 and 1e8 <= target["max"] < 60e9, target)


# --- the door and the page ----------------------------------------------------------------------


def refused():
    with Device() as device:
        for name, kind, flags in [("a duration of instructions", INSN, 1 << 8), ("two values", CALL, 3 << 8),
                                  ("a value by process", CALL, 1 << 8 | 1 << 6), ("a profile by CPU", PROFILE, 1 << 7),
                                  ("two arguments", CALL, 3 << 10), ("a seventh argument", CALL, 1 << 16)]:
            try:
                device.start(kind, [GETPPID], flags=flags)
                check(f"{name} is refused", False)
            except OSError as e:
                same(f"{name} is refused", e.errno, errno.EINVAL)
        device.start(INSN, [GETPPID])
        with contextlib.suppress(FileNotFoundError):
            device.table(device.KEYS)
            check("a session without keys has none", False)


def program():
    for part in (opcodes, memory, functions, changed_code, keys, few_keys, sizes, durations, refused):
        begin = time.monotonic()
        part()
        figure(f"{part.__name__}: seconds", round(time.monotonic() - begin, 1))
    same("no session is left", status()["sessions"], [])


main(program)
