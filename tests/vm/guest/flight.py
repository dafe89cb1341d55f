# SPDX-License-Identifier: MIT OR Apache-2.0
"""The flight recorder while the machine lives: what it records, when it stops, whose it is.

usage: flight.py
"""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from lib import Device, background, check, complaints, figure, kernel_log, log_mark, main, reload, run, same, wait_for
from region import (ALL, AT_ERRNO, AT_REQUEST, END, FREEZE, MASK, RUNS, START, THAW, Recording, flight, recorder)

PWRITE64 = 18
TRACING = Path("/sys/kernel/tracing")

# Writes nothing at the places 0, 1, 2, ... of a file. The place is an argument.
WRITER = """
import ctypes, os, sys
pwrite = ctypes.CDLL(None).pwrite64
file = os.open("/dev/null", os.O_WRONLY)
for place in range(int(sys.argv[1])):
    pwrite(file, b"", ctypes.c_size_t(0), ctypes.c_long(place))
"""


def bit(recording, *names):
    return sum(1 << recording.names.index(name) for name in names)


def start_of(device, *names, **options):
    """Records these events alone: others may fill the rings while the host lets the machine wait."""
    flight(device, START, mask=ALL, **options)
    flight(device, MASK, mask=bit(Recording(device), *names))


def frozen_of(device):
    """What there is when recording has stopped: a processor that the host lets wait may be in the middle of a record."""
    flight(device, FREEZE)
    read = []

    def is_done():
        read.append(Recording(device))
        return len(read) > 1 and (read[-1].bad, read[-1].counts) == (read[-2].bad, read[-2].counts)

    wait_for("nothing changes any more", is_done)
    return read[-1]


def refused(name, number, function):
    try:
        function()
        check(name, False, "it was not refused")
    except OSError as error:
        same(name, errno.errorcode[error.errno], errno.errorcode[number])


def system_calls():
    """Each call of a process, with its arguments and its result, in order."""
    with recorder() as device:
        start_of(device, "sys_enter", "sys_exit", "sched_process_fork", "sched_process_exec", "sched_process_exit", count=1 << 16)
        calls = 3000
        writer = background(sys.executable, "-c", WRITER, str(calls))
        writer.communicate()
        recording = Recording(device)
    enters = [args for _, name, *_, args in recording.of("sys_enter", tid=writer.pid) if args[0] == PWRITE64]
    same("calls: each, in order", [args[4] for args in enters], list(range(calls)))
    exits = [args for *_, args in recording.of("sys_exit", tid=writer.pid) if args[0] == PWRITE64]
    same("calls: their results", (len(exits), {args[1] for args in exits}), (calls, {0}))
    lives = [name for _, name, *_ in recording.of("sched_process_fork", "sched_process_exec", "sched_process_exit", tid=writer.pid)]
    same("a process: it executes a program and ends", lives, ["sched_process_exec", "sched_process_exit"])
    forks = [args for *_, args in recording.of("sched_process_fork", tid=os.getpid())]
    check("a process: its parent has made it", writer.pid in [args[0] for args in forks], forks)


def switches():
    """The switches of a process are those of the kernel's own event, in the same order."""
    (TRACING / "buffer_size_kb").write_text("8192")
    (TRACING / "trace").write_text("")
    (TRACING / "events/sched/sched_switch/enable").write_text("1")
    with recorder() as device:
        start_of(device, "sched_switch", count=1 << 16)
        sleeper = background("taskset", "1", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.01; done")
        sleeper.communicate()
        recording = Recording(device)
    (TRACING / "events/sched/sched_switch/enable").write_text("0")
    pattern = re.compile(r"prev_comm=.* prev_pid=(\d+) .* ==> next_comm=.* next_pid=(\d+) ")
    all_of_them = [tuple(map(int, found.groups())) for found in map(pattern.search, (TRACING / "trace").read_text().splitlines()) if found]
    wanted = [pair for pair in all_of_them if sleeper.pid in pair]
    got = [(tid, args[0]) for _, _, _, tid, _, args in recording.of("sched_switch") if sleeper.pid in (tid, args[0])]
    check("switches: there are some", len(wanted) >= 20, wanted)
    same("switches: those of the kernel's event", got, wanted)


def messages():
    """Lines of the log are there: the cause of a death would be."""
    with recorder() as device:
        start_of(device, "log", count=1 << 14)
        Path("/dev/kmsg").write_text("the flight recorder was here\n")
        texts = [b"".join(arg.to_bytes(8, "little") for arg in args).split(b"\0")[0] for *_, args in Recording(device).of("log")]
    check("messages", any(b"the flight recorder was here" in text for text in texts), texts)


def masks_and_ice():
    """What is recorded changes while it runs. Frozen it stays as it is."""
    with recorder() as device:
        flight(device, START, mask=ALL, count=1 << 14)
        recording = Recording(device)
        flight(device, MASK, mask=bit(recording, "sys_exit"))
        before = Recording(device).counts
        for _ in range(100):
            os.getppid()
        recording = Recording(device)
        same("mask: as asked", recording.mask, bit(recording, "sys_exit"))
        new = [one for one in recording.records[-(sum(recording.counts) - sum(before)):]]
        check("mask: nothing else comes", {one[1] for one in new} == {"sys_exit"} and len(new) >= 100, new[:3])
        frozen = frozen_of(device)
        for _ in range(100):
            os.getppid()
        again = Recording(device)
        same("frozen: nothing comes", again.counts, frozen.counts)
        same("frozen: it says so", again.why, AT_REQUEST)
        same("frozen: all are whole", again.bad, 0)
        flight(device, THAW)
        for _ in range(100):
            os.getppid()
        thawed = Recording(device)
        check("thawed: it goes on", sum(thawed.counts) >= sum(again.counts) + 100 and thawed.why == RUNS, thawed.counts)


def stops_at_an_error():
    """The first system call that fails so is the last thing that is recorded."""
    with recorder() as device:
        flight(device, START, mask=3, count=1 << 14, stop_errno=-errno.EXDEV)
        refused("the error", errno.EXDEV, lambda: os.rename("/proc/self/comm", "/tmp/elsewhere"))
        for _ in range(100):
            os.getppid()
        recording = Recording(device)
    same("error: it has stopped", recording.why, AT_ERRNO)
    ours = [(name, args) for _, name, _, tid, _, args in recording.records if tid == os.getpid()]
    same("error: at that call", (ours[-1][0], ours[-1][1][1] - (1 << 64)), ("sys_exit", -errno.EXDEV))


def small_rings():
    """Under load, with rings of 64 records: what is there is whole, and is the newest."""
    with recorder() as device:
        flight(device, START, mask=ALL, count=64)
        loads = [background("dd", "if=/dev/zero", "of=/dev/null", "bs=1") for _ in range(2 * os.cpu_count())]
        time.sleep(1)
        # Records that are being written meanwhile are overwritten by the next reading.
        for _ in range(20):
            recording = frozen_of(device)
            cpus = len(recording.counts)
            # An interrupt may take the whole ring while a record is written, which then stands over a newer one.
            same("small rings: all are looked at", len(recording.records) + recording.bad, 64 * cpus)
            check("small rings: nearly all are whole", recording.bad <= 2 * cpus, recording.bad)
            flight(device, THAW)
        for one in loads:
            one.kill()
            one.communicate()
    figure("records in a second", sum(recording.counts))


def owners():
    """There is one recording. It ends with its file, unless it is kept."""
    first, second = Device(), Device()
    flight(first, START, mask=ALL, count=1 << 10)
    refused("there is one", errno.EBUSY, lambda: flight(second, START, mask=ALL, count=1 << 10))
    Recording(second)
    first.close()
    refused("it ends with its file", errno.ENOENT, lambda: Recording(second))
    flight(second, START, mask=ALL, count=1 << 10, keep=1)
    second.close()
    third = Device()
    before = sum(Recording(third).counts)
    run("true")
    check("it is kept", sum(Recording(third).counts) > before)
    flight(third, END)
    refused("it has ended", errno.ENOENT, lambda: flight(third, END))
    for name, options in {"no power of two": {"count": 1000}, "too few": {"count": 32}, "no event": {"mask": 1 << 63, "count": 64},
                          "a positive errno": {"count": 64, "stop_errno": 2}}.items():
        refused(f"wrong: {name}", errno.EINVAL, lambda options=options: flight(third, START, **{"mask": ALL, **options}))
    for memory in (b"nowhere", b"0x100000:0x100000", b"0x1000"):
        refused(f"memory: {memory}", errno.ENXIO, lambda memory=memory: flight(third, START, mask=ALL, count=64, memory=memory))
    third.close()
    killed = subprocess.Popen([sys.executable, "-c", f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
from region import *
device = recorder()
flight(device, START, mask=ALL, count=64)
print("begun", flush=True)
time.sleep(100)"""], stdout=subprocess.PIPE)
    killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    fourth = Device()
    refused("killed: it has ended", errno.ENOENT, lambda: Recording(fourth))
    flight(fourth, START, mask=ALL, count=64, keep=1)
    fourth.close()
    reload()
    fifth = Device()
    refused("it ends with the module", errno.ENOENT, lambda: Recording(fifth))
    fifth.close()


def come_and_go():
    """Recordings come and go, and masks change, under load."""
    loads = [background("dd", "if=/dev/zero", "of=/dev/null", "bs=1") for _ in range(os.cpu_count())]
    for round_ in range(20):
        with recorder() as device:
            flight(device, START, mask=ALL, count=64 << round_ % 8)
            flight(device, MASK, mask=7 << round_ % 20)
            flight(device, MASK, mask=ALL)
            before = sum(Recording(device).counts)
            run("true")
            check(f"come and go, {round_}: it records", sum(Recording(device).counts) > before)
    for one in loads:
        one.kill()
        one.communicate()


def flights():
    mark = log_mark()
    for part in (system_calls, switches, messages, masks_and_ice, stops_at_an_error, small_rings, owners, come_and_go):
        part()
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(flights)
