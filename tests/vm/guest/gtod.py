# SPDX-License-Identifier: MIT OR Apache-2.0
"""djprobe's table with today's peers: what a probe adds to gettimeofday, in instructions.

usage: gtod.py PROGRAM MODULES FENTRY PERFRING [LTTNG]

PROGRAM: tests/vm/gtodbench. MODULES: a directory with RELEASE/gtod.ko and RELEASE/gtod_peers.ko.
FENTRY: tests/vm/fentry. PERFRING: tests/vm/perfring. LTTNG: build/lttng, where scripts/lttng-setup
has made it. The machine's clock counts instructions. The rows stand for the lists 4 (handlers that do nothing) and 11 (with a record) of M. Hiramatsu:
"Overhead Evaluation about Kprobes and Djprobe (Direct Jump Probe)", 2005.
"""

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from lib import check, complaints, figure, main, run, same, status, wait_for
from lttng import LTTng
from text_changes import append

PROGRAM, FENTRY, PERFRING = sys.argv[1], *sys.argv[3:5]
LTTNG = sys.argv[5] if len(sys.argv) > 5 else None
# Calls of PROGRAM.
CALLS = 4000
MODULES = Path(sys.argv[2]) / os.uname().release
FUNCTION = "__x64_sys_gettimeofday"
TRACING = Path("/sys/kernel/tracing")
KPROBES = Path("/sys/kernel/debug/kprobes/list")
OPTIMISATION = Path("/proc/sys/debug/kprobes-optimization")
PARAMETERS = Path("/sys/module/gtod/parameters")
RECORD = "jifl probe --record, 64 bytes"
RECORDS = ["--record", "rdi", "-f", "ndjson"]
FAR_RECORD = f"{RECORD}, its ring far from gs"
SYS_BPF, PERCPU_ARRAY = 321, 6
# What each row adds to a call.
ADDED = {}
NATIVE = None


def bench(*before):
    """Instructions of a call, while what stands before it runs."""
    end = run(*before, PROGRAM)
    check(f"{before} runs", end.returncode == 0, end)
    return int(end.stdout.split()[0])


def row(name, ticks):
    ADDED[name] = ticks - NATIVE
    figure(f"{name}, adds", ADDED[name])
    return ADDED[name]


def good(name, *words):
    end = run(*words)
    return check(name, end.returncode == 0, end)


@contextmanager
def kprobe(offset, **parameters):
    words = [f"{name}={value}" for name, value in {"function": FUNCTION, "offset": offset, **parameters}.items()]
    good(f"a kprobe: {words}", "insmod", MODULES / "gtod_peers.ko", *words)
    yield
    good("it goes", "rmmod", "gtod_peers")


def kind(offset):
    """As the kernel lists it: OPTIMIZED, FTRACE, or nothing."""
    lines = [line for line in KPROBES.read_text().splitlines() if f"{FUNCTION}+{offset:#x} " in line]
    return re.findall(r"\[(\w+)\]", lines[0]) if lines else None


def optimised_place():
    """The first place behind the tracer's site at which a kprobe becomes a jump."""
    end = run("jifl", "probe", "--list", f"fn:{FUNCTION} insn", "-f", "json")
    offsets = [int(one["place"].partition("+")[2], 16) for one in json.loads(end.stdout)["list"]]
    OPTIMISATION.write_text("1")
    for offset in [each for each in offsets if each > 9][:12]:
        words = [f"function={FUNCTION}", f"offset={offset}"]
        if run("insmod", MODULES / "gtod_peers.ko", *words).returncode:
            continue
        deadline = time.monotonic() + 3
        while "OPTIMIZED" not in (kind(offset) or []) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        found = "OPTIMIZED" in (kind(offset) or [])
        good("the kprobe goes", "rmmod", "gtod_peers")
        if found:
            return offset
    raise RuntimeError(f"no kprobe in {FUNCTION} becomes a jump: {offsets}")


def kprobes(offset):
    for name, at, optimised, wanted in (("kprobe, int3", offset, "0", []), ("kprobe, optimised", offset, "1", ["OPTIMIZED"]),
                                        ("kprobe, by ftrace", 0, "1", ["FTRACE"])):
        OPTIMISATION.write_text(optimised)
        with kprobe(at):
            if "OPTIMIZED" in wanted:
                wait_for(name, lambda: kind(offset) == wanted)
                time.sleep(1)
            # The kernel may list one at the entry behind its endbr64.
            found = kind(at) if kind(at) is not None else kind(4)
            same(f"{name}: what it is", found, wanted)
            row(name, bench())
    with kprobe(0, at_return="1"):
        row("kretprobe", bench())


def attached(name, *command):
    """The row of a program that says when it is attached. What it prints at its end."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    same(f"{name}: it is attached", process.stdout.readline().strip(), "attached")
    row(name, bench())
    found = [int(word) for word in process.communicate("\n", timeout=60)[0].split()]
    check(f"{name}: it has seen each call", found[0] >= CALLS, found)
    return found


def bpf():
    ways = {"BPF fentry": "entry", "BPF fexit": "exit", "BPF kprobe": "kprobe"}
    # CONFIG_FPROBE, which Debian's 6.1 is without.
    if " register_fprobe\n" in Path("/proc/kallsyms").read_text():
        ways["BPF kprobe.multi"] = "multi"
    for name, way in ways.items():
        attached(f"{name}, which counts", FENTRY, FUNCTION, way, "all")


@contextmanager
def first_memory_full():
    """The part of processors' own memory that 32 bits reach from gs has no room for a ring, as on a machine that has
    run for long: BPF's map has 8 bytes of each processor for each entry.
    """
    attributes = struct.pack("<IIII", PERCPU_ARRAY, 4, 8, 20000).ljust(72, b"\0")
    fd = ctypes.CDLL(None).syscall(SYS_BPF, 0, attributes, len(attributes))
    check("there is such a map", fd >= 0, fd)
    yield
    os.close(fd)


def places(offset):
    """JIFL's, as commands, and as handlers of a plugin."""
    words = {"jifl probe, counter at the entry": [f"fn:{FUNCTION}"],
             "jifl probe, counter at the place": [f"fn:{FUNCTION}+{offset:#x}"],
             "jifl probe, counters at both": [f"fn:{FUNCTION}", f"fn:{FUNCTION}+{offset:#x}"],
             RECORD: [f"fn:{FUNCTION}+{offset:#x}", *RECORDS],
             "jifl probe --record, three registers": [f"fn:{FUNCTION}+{offset:#x}", "--record", "rdi,rsi,rdx", "-f", "ndjson"],
             "jifl probe --record, seven registers": [f"fn:{FUNCTION}+{offset:#x}", "--record", "rdi,rsi,rdx,rcx,r8,r9,rsp",
                                                      "-f", "ndjson"]}
    for name, places_ in words.items():
        row(name, bench("jifl", "probe", *places_, "-o", "/tmp/probed", "--"))
    with first_memory_full():
        row(FAR_RECORD, bench("jifl", "probe", f"fn:{FUNCTION}+{offset:#x}", *RECORDS, "-o", "/tmp/probed", "--"))
    records = Path("/tmp/probed").read_text().count('"values":')
    check("it has recorded each call", records >= CALLS, records)
    good("the plugin comes", "jifl", "load", MODULES / "gtod.ko")
    for name, how in (("djprobe's form, no-op handler with all registers", "noop"),
                      ("djprobe's form, handler that calls", "call"), ("djprobe's form, record of 64 bytes", "record")):
        for parameter, value in (("function", FUNCTION), ("how", how), ("offset", offset)):
            (PARAMETERS / parameter).write_text(str(value))
        good(f"{how} starts", "jifl", "start", "gtod")
        row(name, bench())
        if how == "record":
            records = run("jifl", "read", "gtod").stdout.splitlines()
            check("records were written", len(records) >= 4000, len(records))
        good(f"{how} stops", "jifl", "stop", "gtod")
    good("the plugin goes", "jifl", "unload", "gtod")


def events(offset):
    """The kernel's own records, into ftrace's ring."""
    (TRACING / "kprobe_events").write_text(
        f"p:gtod/at {FUNCTION}+{offset:#x} di=%di si=%si dx=%dx cx=%cx r8=%r8 r9=%r9 sp=%sp\n")
    wanted = {"a tracepoint of system calls": "syscalls/sys_enter_gettimeofday", "a kprobe with seven values": "gtod/at"}
    # Since 6.5.
    has_fprobes = "f[:" in (TRACING / "README").read_text()
    if has_fprobes:
        same("an fprobe event", append(TRACING / "dynamic_events", f"f:gtod/entry {FUNCTION}\n"), "")
        wanted["an fprobe"] = "gtod/entry"
    for name, event in wanted.items():
        enable = TRACING / "events" / event / "enable"
        enable.write_text("1")
        time.sleep(2)
        row(f"ftrace event, {name}", bench())
        enable.write_text("0")
    for name, event in wanted.items():
        found = attached(f"perf event, {name}", PERFRING, (TRACING / "events" / event / "id").read_text().strip())
        figure(f"perf event, {name}: bytes", found[1])
    (TRACING / "dynamic_events").write_text("")


def lttng():
    """LTTng's records, over the oldest ones, so that none waits for a reader."""
    if not LTTNG:
        figure("LTTng", "not set up, so not measured: scripts/lttng-setup")
        return
    # At the entry: of a place inside a function LTTng 2.13.9 forgets the offset on the way to the kernel.
    place, task = [f"--probe={FUNCTION}", "at"], ["pid", "tid", "procname"]
    with LTTng(LTTNG) as tracer:
        for name, event, contexts, events in (("of the system call, its begin and its end", ["--syscall", "gettimeofday"], (), 2),
                                              ("a kprobe at the entry", place, (), 1),
                                              ("a kprobe at the entry, with process, thread and command", place, task, 1)):
            with tracer.session(event, contexts):
                if event is place:
                    same("LTTng's kprobe: what it is", kind(0) if kind(0) is not None else kind(4), ["FTRACE"])
                row(f"LTTng event, {name}", bench())
            lines, used, lost = tracer.taken()
            found = [line for line in lines if "gettimeofday: " in line or " at: " in line]
            check(f"LTTng event, {name}: it has seen each call", len(found) >= CALLS * events and not lost,
                  (len(found), lost, lines[-3:]))
            same("and nothing else", len(found), len(lines))
            figure(f"LTTng event, {name}: bytes", f"{used / len(lines) * events:.1f}")


def program(*_):
    global NATIVE
    NATIVE = bench()
    figure("gettimeofday, natively", NATIVE)
    same("it is always the same", bench(), NATIVE)
    offset = optimised_place()
    figure("the place", f"{FUNCTION}+{offset:#x}")
    kprobes(offset)
    bpf()
    events(offset)
    lttng()
    places(offset)
    same("and again at the end", bench(), NATIVE)
    noop = ADDED["djprobe's form, no-op handler with all registers"]
    check("a no-op handler with all registers: at most 60", 0 < noop <= 60, ADDED)
    check("less than an optimised kprobe", noop < ADDED["kprobe, optimised"], ADDED)
    entry, both = ADDED["jifl probe, counter at the entry"], ADDED["jifl probe, counters at both"]
    check("a counter with its door: at most 18", 0 < entry <= 18, ADDED)
    check("a counter where the door is: at most 2", both - entry <= 2, ADDED)
    check("a record of 64 bytes: less than an optimised kprobe that does nothing",
          ADDED[RECORD] < ADDED["kprobe, optimised"], ADDED)
    check("a record of 64 bytes with its door: at most 50", 0 < ADDED[RECORD] < ADDED[FAR_RECORD] <= 50, ADDED)
    check("a record of seven values: less than the kernel's", ADDED["jifl probe --record, seven registers"] <
          ADDED["ftrace event, a kprobe with seven values"], ADDED)
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(), [])


if __name__ == "__main__":
    main(program)
