# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl mem`, compared with copies of known size and with the code that was executed; and its
trace, compared with itself.

usage: mem.py
"""

import json
import os
import re
import struct
from collections import Counter
from pathlib import Path

import touches
from lib import Device, check, complaints, figure, interrupt, main, run, same, session, status

PROFILE = 6
TIMES = 40
IOVEC = 16  # bytes of one
SIZES = [1, 7, 64, 4096, 12345, 70000]
PYTHON = ["/usr/bin/python3", "-S", "-E", "-c"]


def mem(*words):
    """What it says, its exit being what it should be."""
    end = run("jifl", "mem", "-f", "json", *words)
    check(f"mem {' '.join(words[:2])} ends well", end.returncode == 0, end)
    return json.loads(end.stdout), end.stderr


def region(report, name):
    return next(row for row in report["regions"] if row["name"] == name)


def nothing_lost(name, report):
    lost = {key: report[key] for key in ("lost", "beyond_records", "stray", "unrecorded_blocks", "missed")}
    same(f"{name}: nothing is lost", sum(lost.values()), 0)


# --- copies of known size -----------------------------------------------------------------------


def copies():
    """The interpreter makes neither call itself. Its buffers' pages are there or not: no matter."""
    Path("/run/file").write_bytes(b"x" * max(SIZES))
    for size in SIZES:
        program = f"import os; f = os.open('/run/file', 2); os.preadv(f, [bytearray({size})], 0)"
        report, _ = mem("sys:preadv2", "--", *PYTHON, program)
        user = region(report, "user")
        same(f"a read of {size} bytes: calls", report["calls"], 1)
        same(f"a read of {size} bytes stores them, and loads where to", (user["bytes_stored"], user["bytes_loaded"]),
             (size, IOVEC))
        nothing_lost(f"a read of {size} bytes", report)
    # Into a pipe: files look at each page of the buffer before they copy it.
    for size in SIZES[:-1]:
        report, _ = mem("sys:writev", "--", *PYTHON, f"import os; os.writev(os.pipe()[1], [bytes({size})])")
        user = region(report, "user")
        same(f"a write of {size} bytes loads them", (user["bytes_stored"], user["bytes_loaded"]), (0, IOVEC + size))
        nothing_lost(f"a write of {size} bytes", report)


# --- against the code -----------------------------------------------------------------------------


def entries(directory):
    """Of a trace: (type, size, number), thread by thread."""
    for path in sorted((directory / "trace").iterdir()):
        yield path.name, list(struct.iter_unpack("<HHQ", path.read_bytes()))


READ, WRITE, INSTR, THREAD, EXIT, HEADER, FOOTER, MARKER, NO_FETCH = 0, 1, 10, 22, 23, 25, 26, 28, 29


def by_code():
    """Each instruction that was executed has made its accesses, those of the stack too."""
    names = {"getppid": os.getppid, "umask": lambda: os.umask(18), "getpgid": lambda: os.getpgid(0)}
    directory = Path("/run/drmemtrace")
    blocks = []
    with Device() as device:
        device.start(PROFILE, [110, 95, 121], filters=1 << 1, tgid=os.getpid())
        own = status()["sessions"][0]["id"]
        process = session(*[f"sys:{name}" for name in names], "-f", "json", "--drmemtrace", directory,
                          "-p", os.getpid(), command="mem")
        for call in names.values():
            for _ in range(TIMES):
                call()
        blocks.extend(json.loads(run("jifl", "dump", "--session", own, "-f", "json").stdout)["blocks"])
        out, err = interrupt(process)
        device.stop()
        executed = {(count.orig, count.length): count.executed for count in device.counts()[0]}
    report = json.loads(out)
    nothing_lost("of simple calls", report)
    same("all calls are there", report["calls"], len(names) * TIMES)
    reads, writes = touches.executed(blocks, executed, touches.all_of)
    same("loads and stores are those of the code", (report["loads"], report["stores"]), (reads, writes))
    check("tables add up", all(sum(row[key] for row in report["regions"]) == report[key]
                               for key in ("loads", "stores", "bytes_loaded", "bytes_stored")), report["regions"])
    found = {row["name"]: row for row in report["objects"]}
    check("the current task is looked up in each call", sum(
        row["loads"] for name, row in found.items() if name in ("current_task", "pcpu_hot")) >= 2 * TIMES, found)
    stack = region(report, "stack")
    same("the stack's are 8 bytes each", (stack["bytes_loaded"], stack["bytes_stored"]),
         (8 * stack["loads"], 8 * stack["stores"]))
    trace(directory, report)
    figure("loads and stores of simple calls", f"{reads}, {writes}")


def trace(directory, report):
    """It is as its form has it, and says the same as the tables."""
    kinds, bytes_ = Counter(), Counter()
    files, alone = list(entries(directory)), 0
    for name, found in files:
        thread = int(re.fullmatch(r"jifl\.(\d+)\.trace", name)[1])
        same(f"{name} begins and ends", [entry[0] for entry in (found[0], found[-2], found[-1])], [HEADER, EXIT, FOOTER])
        same(f"{name} is the thread's", [number for kind, _, number in found if kind in (THREAD, EXIT)], [thread] * 2)
        for before, (kind, size, _) in zip(found, found[1:]):
            kinds[kind] += 1
            if kind in (READ, WRITE):
                bytes_[kind] += size
                alone += before[0] not in (READ, WRITE, INSTR, NO_FETCH)
    same("there is this thread alone", len(files), 1)
    same("no access is without an instruction", alone, 0)
    same("the trace has all loads and stores", (kinds[READ], kinds[WRITE]), (report["loads"], report["stores"]))
    same("and their bytes", (bytes_[READ], bytes_[WRITE]), (report["bytes_loaded"], report["bytes_stored"]))


# --- trouble ------------------------------------------------------------------------------------


MEM = 9
GETPPID = 110
RECORD = 7  # of the type


def overrun():
    """Who does not read in time is told how much is gone; what is left begins with a record."""
    os.sched_setaffinity(0, {0})
    with Device() as device:
        device.start(MEM, [GETPPID], filters=1 << 1, tgid=os.getpid())
        for _ in range(30000):
            os.getppid()
        device.stop()
        taken, lost = [], 0
        while True:
            words, lost = device.records(0)
            if not words:
                break
            taken += words
        same("calls are counted, lost records or not", device.stat(GETPPID)[0], 30000)
    kinds, at = Counter(), 0
    while at < len(taken):
        what = taken[at]
        kinds[what >> 28] += 1
        at += 2 + 2 * (what >> 25 & 7 if what >> 28 == RECORD else 0)
    # begin, resume, end, time, stack, access
    same("what is left is whole", at, len(taken))
    check("it has records of all kinds, and no others", set(kinds) <= {1, 2, 3, 4, 6, 7} and kinds[3] > 100
          and kinds[RECORD] > 1000, kinds)
    check("the loss is told", lost > len(taken) // 2 > 10000, (lost, len(taken)))
    figure("words taken, and lost in an overrun", f"{len(taken) // 2}, {lost}")
    os.sched_setaffinity(0, set(range(os.cpu_count())))


def trouble():
    end = run("jifl", "mem", "sys:*", "--records", "1000", "--", "true")
    check("what there is no room for is told", end.returncode == 0 and "beyond --records" in end.stderr
          and "too low" in end.stderr, end.stderr)
    Path("/run/full/trace").mkdir(parents=True)
    Path("/run/full/trace/old").write_text("")
    end = run("jifl", "mem", "sys:read", "--drmemtrace", "/run/full", "--", "true")
    check("an old trace is not written over", end.returncode == 1 and end.stderr.count("\n") == 1
          and "name another" in end.stderr, end.stderr)
    end = run("sh", "-c", "jifl mem 'sys:*' -- ls -lR /etc | head -2")
    same("a reader may go", end.returncode, 0)


def same_results():
    """A program does the same, whatever is recorded of it."""
    words = ["sh", "-c", "for i in 1 2 3; do (echo $i; cat /etc/passwd) | sort | md5sum; done; ls -l /etc | md5sum"]
    native = run(*words)
    seen = run("jifl", "mem", "sys:*", "-o", "/dev/null", "--", *words)
    same("the same output", (seen.stdout, seen.returncode), (native.stdout, native.returncode))
    figure("a shell's calls", seen.stderr.strip())


def to_the_byte():
    """Each byte of the buffer is stored to once, and nothing beside it."""
    size, directory = 12345, Path("/run/bytes")
    end = run("jifl", "mem", "sys:preadv2", "-o", "/dev/null", "--drmemtrace", directory, "--", *PYTHON,
              f"import ctypes, os; f = os.open('/run/file', 2); b = bytearray({size}); os.preadv(f, [b], 0); "
              f"print(ctypes.addressof((ctypes.c_char * {size}).from_buffer(b)))")
    buffer, stored = int(end.stdout), Counter()
    for _, found in entries(directory):
        for kind, length, address in found:
            if kind == WRITE and address < 1 << 63:
                stored.update(range(address, address + length))
    same("the buffer is what is stored to", (min(stored), max(stored), len(stored)), (buffer, buffer + size - 1, size))
    same("each byte of it once", set(stored.values()), {1})


def bits():
    """The word that has a bit, in the bitmap of open files: three words lie between these two."""
    directory = Path("/run/bits")
    os.dup2(0, 255)     # the bitmap has room for all of them
    process = session("sys:dup2", "-o", "/dev/null", "--drmemtrace", directory, "-p", os.getpid(), command="mem")
    os.dup2(0, 8)
    os.dup2(0, 200)
    interrupt(process)
    for file in (8, 200, 255):
        os.close(file)
    writes, at = {}, None
    for _, found in entries(directory):
        for kind, size, number in found:
            if kind in (INSTR, NO_FETCH):
                at = number
            elif kind == WRITE and size == 8:
                writes.setdefault(at, []).append(number)
    apart = {numbers[1] - numbers[0] for numbers in writes.values() if len(numbers) == 2}
    check("the bits of files 8 and 200 are 24 bytes apart", 24 in apart, apart)


def program():
    copies()
    to_the_byte()
    bits()
    by_code()
    overrun()
    trouble()
    same_results()
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(), [])


main(program)
