# SPDX-License-Identifier: MIT OR Apache-2.0
"""The flight recorder while the machine lives: what it records, when it stops, whose it is.

usage: flight.py CALLS32

CALLS32 is the program calls32.
"""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from lib import (RELEASE, Device, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, module_file, plant,
                 reload, report, run, same, session, status, wait_for)
from region import (ALL, AT_ERRNO, AT_REQUEST, AT_SLOW, END, FREEZE, HOLD, MASK, OF_ARG0, OF_THREAD, RUNS, START, THAW, Recording,
                    add, flight, recorder)

# The module as built for tests keeps a thread on its way in (host/kernel/plant.h).
TEST_MODULE = module_file().replace("/modules/", "/modules-test/")
FRONT = Path("/sys/module/jifl/parameters/front")
# Before 6.16 calls of the kernel are redirected. Later tracepoints have to do, and there is no front.
HAS_FRONT = RELEASE < (6, 16)

PWRITE64, NANOSLEEP, CLOCK_NANOSLEEP, GETPID, GETPPID, RT_SIGTIMEDWAIT, EXECVE, EXIT = 18, 35, 230, 39, 110, 128, 59, 60
IA32 = 0x80000000
READ_32, GETPID_32 = 3, 20
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


def calls_of_32_bits(program_file):
    """Calls of 32-bit programs are those of their own table."""
    rounds = 50
    with recorder() as device:
        start_of(device, "sys_enter", "sys_exit", count=1 << 16)
        program = background(program_file, str(rounds))
        program.communicate()
        recording = Recording(device)
    for name in ("sys_enter", "sys_exit"):
        calls = [args[0] for *_, args in recording.of(name, tid=program.pid)]
        found = {number: calls.count(number) for number in (READ_32 | IA32, GETPID_32 | IA32)}
        same(f"32 bits: {name}", found, {READ_32 | IA32: rounds, GETPID_32 | IA32: rounds})
    results = {args[1] for *_, args in recording.of("sys_exit", tid=program.pid) if args[0] == READ_32 | IA32}
    same("32 bits: a result", results, {(1 << 64) - errno.EBADF})


def forks():
    """Who is made by fork comes out of it, too. A call that no table has leaves its result.

    Where the kernel's tracepoints have to do, these tell of the call before.
    """
    code = "import ctypes, os\nif os.fork():\n    os.wait()\n    ctypes.CDLL(None).syscall(5000)"
    with recorder() as device:
        start_of(device, "sys_enter", "sys_exit", "sched_process_fork", count=1 << 16)
        parent = background(sys.executable, "-c", code)
        parent.communicate()
        recording = Recording(device)
    child = next(args[0] for *_, args in recording.of("sched_process_fork", tid=parent.pid))
    first = recording.of("sys_enter", "sys_exit", tid=child)[0]
    same("fork: the child comes out of the call", (first[1], first[5][1]), ("sys_exit", 0))
    unknown = [(name, args[1]) for _, name, *_, args in recording.of("sys_enter", "sys_exit", tid=parent.pid) if args[0] == 5000]
    same("a call of no table", unknown[-1:], [("sys_exit", (1 << 64) - errno.ENOSYS)])
    check("a call of no table, once", [name for name, _ in unknown[:-1]] in ([], ["sys_enter"]), unknown)


def sessions_beside():
    """Sessions and recordings of the same calls come and go in any order, and both have all calls."""
    asker = "import os, sys\nfor _ in range(200): os.getppid()"

    def load(recording):
        made = background(sys.executable, "-c", asker)
        made.communicate()
        if recording:
            got = [args[0] for *_, args in Recording(device).of("sys_enter", tid=made.pid)]
            same("beside: the recording has all", got.count(GETPPID), 200)

    with recorder() as device:
        owner = session("insn", "sys:getppid", "-f", "json")
        load(False)
        start_of(device, "sys_enter", "sys_exit", count=1 << 16)
        load(True)
        got = report(interrupt(owner)[0])["by_name"]["getppid"]
        same("beside: the session has all", (got["calls"], got["missed"]), (400, 0))
        load(True)
        owner = session("call", "sys:getppid", "-f", "json")
        load(True)
        flight(device, END)
        load(False)
        same("beside: the next has, too", report(interrupt(owner)[0])["by_name"]["getppid"]["calls"], 400)


def at_the_front():
    """A thread that is on its way in when the recording ends writes nothing to the memory that is given back."""
    run("rmmod", "jifl", check=True)
    run("insmod", TEST_MODULE, *plant(), check=True)
    with recorder() as device:
        start_of(device, "sys_enter", count=1 << 12)
        asker = background(sys.executable, "-S", "-E", "-c", "import os, select, sys\n"
                           "while not select.select([sys.stdin], [], [], 0)[0]:\n    os.getpgid(0)\nprint('well')", stdin=-1)
        FRONT.write_text(str(asker.pid))
        wait_for("a thread is at the front", lambda: FRONT.read_text() == f"-{asker.pid}\n")
        flight(device, END)
        FRONT.write_text("0")
        same("at the front: the thread goes on", asker.communicate("stop\n"), ("well\n", ""))
    run("rmmod", "jifl", check=True)
    run("insmod", TEST_MODULE if plant() else module_file(), *plant(), check=True)


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


# The module measures in units of so many ticks.
UNIT = 1024


def ticks_of_calls(records):
    """How long the calls of a thread took, all of one number."""
    pairs = list(zip(records[::2], records[1::2]))
    same("slow: calls begin and end", ({(enter[1], leave[1]) for enter, leave in pairs}, len(records) % 2),
         ({("sys_enter", "sys_exit")}, 0))
    return [leave[0] - enter[0] for enter, leave in pairs]


def ticks_until_woken(recording):
    """How long after its switch each thread was woken, in the order in which they were."""
    since, ticks = {}, []
    for when, name, _, tid, _, args in recording.of("sched_switch", "sched_wakeup"):
        if name == "sched_switch":
            since[tid] = when
        elif args[0] in since:
            ticks.append(when - since.pop(args[0]))
    return ticks


def stops_at_what_is_slow():
    """A call that takes too long, and one event that comes too long after another, stop it; what is short does not.

    The host may let the machine wait in what is to be short. So it is by the times of records that a call is short or slow.
    """
    bound = 1_000_000_000
    code = "import time\nfor _ in range(5): time.sleep(0.002)\ntime.sleep(2)\nfor _ in range(5): time.sleep(0.001)"
    for what, slow in {"a call": (bound, CLOCK_NANOSLEEP, "sys_enter", "sys_exit", OF_THREAD, OF_THREAD),
                       "two events": (bound, None, "sched_switch", "sched_wakeup", OF_THREAD, OF_ARG0)}.items():
        with recorder() as device:
            flight(device, START, mask=ALL, count=1 << 10)
            names = Recording(device).names
        with recorder() as device:
            numbers = [names.index(name) for name in slow[2:4]]
            value = ALL if slow[1] is None else slow[1]
            flight(device, START, mask=sum(1 << n for n in numbers) | 3, count=1 << 16,
                   slow=(slow[0], value, *numbers, *slow[4:]))
            sleeper = background(sys.executable, "-c", code)
            sleeper.communicate()
            recording = Recording(device)
        same(f"slow, {what}: it has stopped", (recording.why, recording.names[recording.stop_event]), (AT_SLOW, slow[3]))
        ticks = bound * recording.khz // 1_000_000
        if slow[1] is None:
            measured = ticks_until_woken(recording)
            check(f"slow, {what}: one came too late", max(measured, default=0) > ticks, (ticks, sorted(measured)[-3:]))
            continue
        ours = [one for one in recording.of("sys_enter", "sys_exit", tid=sleeper.pid) if one[5][0] == CLOCK_NANOSLEEP]
        measured = ticks_of_calls(ours)
        check(f"slow, {what}: the last one took too long", measured[-1] > ticks, (ticks, measured))
        check(f"slow, {what}: those before did not", max(measured[:-1], default=0) < ticks + 2 * UNIT, (ticks, measured))
        last = [one for one in recording.records if one[3] == sleeper.pid][-1]
        same(f"slow, {what}: then the thread has no record any more", last, ours[-1])


WAITER = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
while True:
    signal.sigwait([signal.SIGUSR1])
    print(flush=True)
"""
# Its first thread ends alone. Some time later its second one executes a program, and gets the first one's number.
HEIR = """
import ctypes, os, threading, time

def inherit():
    time.sleep(0.3)
    os.execv("/bin/true", ["true"])

threading.Thread(target=inherit).start()
ctypes.CDLL(None).syscall(60, 0)
"""


def what_is_not_slow():
    """A call that has ended while less was recorded, and one that never ends, are not taken for a later one."""
    calls, bound = (0, 1, OF_THREAD, OF_THREAD), 100_000_000
    with recorder() as device:
        flight(device, START, mask=3, count=1 << 14, slow=(bound, RT_SIGTIMEDWAIT, *calls))
        fork = bit(Recording(device), "sched_process_fork")
        waiter = background(sys.executable, "-c", WAITER)

        def waits():
            wait_for("it waits", lambda: Path(f"/proc/{waiter.pid}/syscall").read_text().startswith(f"{RT_SIGTIMEDWAIT} "))

        def over():
            waiter.send_signal(signal.SIGUSR1)
            waiter.stdout.readline()

        for what, end, begin in (("frozen", lambda: flight(device, FREEZE), lambda: flight(device, THAW)),
                                 ("masked", lambda: flight(device, MASK, mask=fork), lambda: flight(device, MASK, mask=3))):
            waits()
            end()
            time.sleep(0.2)
            over()
            waits()
            begin()
            over()
            same(f"not slow, {what}: it goes on", Recording(device).why, RUNS)
        waiter.kill()
        waiter.communicate()
    with recorder() as device:
        flight(device, START, mask=3, count=1 << 16, slow=(bound, EXIT, *calls))
        heir = background(sys.executable, "-c", HEIR)
        heir.communicate()
        recording = Recording(device)
    ours = [(name, args[0]) for _, name, *_, args in recording.of("sys_enter", "sys_exit", tid=heir.pid)]
    check("not slow: the first thread has ended alone, and the second came out of execve",
          ("sys_enter", EXIT) in ours and ("sys_exit", EXECVE) in ours[ours.index(("sys_enter", EXIT)):], ours[-20:])
    same("not slow: it goes on after a call without an end", recording.why, RUNS)


def shown(*options):
    """The records that the command shows, as objects."""
    return [json.loads(line) for line in run("jifl", "flight", "show", "-f", "ndjson", *options, check=True).stdout.splitlines()]


READER = """
import os
open('/proc/self/comm', 'w').write('reader')
file = os.open('/dev/zero', os.O_RDONLY)
for n in range(1, 101): os.read(file, n)
"""


def places_of(reader):
    """What is recorded of a process that reads 1 to 100 bytes, one after the other."""
    reader.communicate()
    ours = [one for one in shown("-e", "reads") if one["tid"] == reader.pid]
    sizes = [one["arguments"]["count"] for one in ours]
    same("places: all calls, with their values", sizes[-100:], list(range(1, 101)))
    same("places: the second value", {one["arguments"]["file_f_flags"] & os.O_ACCMODE for one in ours[-100:]}, {os.O_RDONLY})
    # Also those that came by way of a breakpoint, which the kernel counts as an NMI.
    same("places: at the level of the task", {one["level"] for one in ours}, {"task"})
    at = [one["arguments"]["at"] for one in shown("-e", "vfs_read") if one["tid"] == reader.pid]
    # Behind the call of the tracer, where there is one.
    names = [name.split("+")[0] for name in at[-200:]]
    same("places: which one, by name", names, ["ksys_read", "vfs_read"] * 100)
    results = [one for one in shown("-e", "sys_exit") if one["tid"] == reader.pid and one["arguments"]["call"] == "read"]
    same("places: beside the results", [one["arguments"]["result"] for one in results][-100:], list(range(1, 101)))


def places_as_called():
    """Records that inserted code writes are those that the interpreter writes."""
    run("jifl", "flight", "start", "--keep", "-e", "warn", check=True)
    # What computes the caller is called, so this is interpreted.
    run("jifl", "flight", "add", "fn:vfs_read", "--record", "a=rdx, b=rsi, c=caller, d=r8, e=rbp", "--name", "called", check=True)
    run("jifl", "flight", "add", "fn:vfs_read", "--record", "a=rdx, b=rsi, c=rdx + 1, d=r8, e=rbp", "--name", "registers", check=True)
    run("jifl", "flight", "add", "fn:vfs_read", "fn:ksys_read", "--record", "rdx", "--name", "both", check=True)
    run("jifl", "flight", "add", "fn:vfs_read", "--if", "count == 50", "--name", "fifty", check=True)
    reader = background(sys.executable, "-c", READER)
    reader.communicate()
    values = {name: [list(one["arguments"].values()) for one in shown("-e", name) if one["tid"] == reader.pid]
              for name in ("registers", "called", "fifty")}
    own, others = values["registers"][-100:], values["called"][-100:]
    same("places: registers", [one[0] for one in own], list(range(1, 101)))
    same("places: what is computed of one", [int(str(one[2]), 0) for one in own], list(range(2, 102)))
    same("places: the same as where a function is called", [one[:2] + one[3:] for one in own], [one[:2] + one[3:] for one in others])
    both = [one["arguments"] for one in shown("-e", "both") if one["tid"] == reader.pid][-200:]
    same("places: two of them", [(one["at"].split("+")[0], int(str(one["rdx"]), 0)) for one in both],
         [(name, size) for size in range(1, 101) for name in ("ksys_read", "vfs_read")])
    check("places: a condition", len(values["fifty"]) >= 1)
    same("places: without a value", values["fifty"][-1], [])
    run("jifl", "flight", "stop", check=True)
    wait_for("no session is left", lambda: status()["sessions"] == [])


def levels():
    """Places in interrupts and softirqs are told as such."""
    run("jifl", "flight", "start", "--keep", "-e", "warn", check=True)
    run("jifl", "flight", "add", "fn:update_process_times", "--record", "user_tick", "--name", "tick", check=True)
    run("jifl", "flight", "add", "fn:rcu_core", "--name", "softly", check=True)

    def all_there():
        run("cat", "/proc/version")
        return shown("-e", "tick") and shown("-e", "softly")

    wait_for("there is a tick, and a softirq", all_there)
    same("levels: the timer's interrupt", {one["level"] for one in shown("-e", "tick")}, {"irq"})
    same("levels: a softirq", {one["level"] for one in shown("-e", "softly")}, {"softirq"})
    run("jifl", "flight", "stop", check=True)
    wait_for("no session is left", lambda: status()["sessions"] == [])


def places():
    """Places in the kernel's code are events, with values, until the recording ends. One of them stops it."""
    run("jifl", "flight", "start", "--keep", "-e", "sys_exit", check=True)
    run("jifl", "flight", "add", "fn:vfs_read", "--record", "count, file->f_flags", "--name", "reads", check=True)
    run("jifl", "flight", "add", "fn:vfs_read", "fn:ksys_read", "--if", "comm == \"reader\"", check=True)
    places_of(background(sys.executable, "-c", READER))
    # What stops a recording has to be looked at: nothing is written by inserted code any more.
    run("jifl", "flight", "add", "fn:do_getpgid", "--record", "pid", "--if", "pid == 77777", "--stop", check=True)
    same("places: each has a session", status()["sessions"] != [], True)
    places_of(background(sys.executable, "-c", READER))
    run("jifl", "flight", "mask", "-e", "sys_exit", check=True)
    before = len(shown("-e", "reads"))
    run("cat", "/proc/version")
    same("places: masked they are silent", len(shown("-e", "reads")), before)
    run("jifl", "flight", "mask", "-e", "sys_exit,probe", check=True)
    try:
        os.getpgid(1)
        os.getpgid(77777)
    except ProcessLookupError:
        pass
    why = json.loads(run("jifl", "flight", "status", "-f", "json", check=True).stdout)["stopped"]
    same("places: a condition stops it", why, "at event do_getpgid")
    run("jifl", "flight", "stop", check=True)
    wait_for("no session is left", lambda: status()["sessions"] == [])


def holds():
    """An event is recorded once its file is held, for the recording that has it, and not by that one's owner."""
    with recorder() as owner, recorder() as other:
        flight(owner, START, mask=ALL, count=64)
        number, recording = add(other, b"thing")
        same("hold: the same event is there", add(other, b"thing"), (number, recording))
        same("hold: it is not recorded yet", Recording(owner).mask >> number, 0)
        refused("hold: by the owner", errno.EINVAL, lambda: flight(owner, HOLD, added=number, recording=recording))
        refused("hold: no such event", errno.EINVAL, lambda: flight(other, HOLD, added=number + 1, recording=recording))
        refused("hold: no event of programs", errno.EINVAL, lambda: flight(other, HOLD, added=0, recording=recording))
        flight(owner, END)
        flight(owner, START, mask=ALL, count=64)
        same("hold: the next recording has its own number", add(other, b"thing"), (number, recording + 1))
        refused("hold: for the one before", errno.ESTALE, lambda: flight(other, HOLD, added=number, recording=recording))
        flight(other, HOLD, added=number, recording=recording + 1)
        same("hold: it is recorded", Recording(owner).mask >> number, 1)


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
    # What inserted code writes goes with its recording, too. The next one's events have the same numbers.
    for round_ in range(6):
        run("jifl", "flight", "start", "--keep", "-e", "warn", "--size", "64k", check=True)
        name = f"event{round_}"
        run("jifl", "flight", "add", "fn:vfs_read", "--record", f"count, {round_}", "--name", name, check=True)
        run("true")
        run("jifl", "flight", "freeze", check=True)
        rounds = {one["arguments"][str(round_)] for one in shown("-e", name)}
        same(f"come and go: the records of round {round_} are its own", rounds, {round_})
        run("jifl", "flight", "stop", check=True)
    wait_for("no session is left", lambda: status()["sessions"] == [])
    for one in loads:
        one.kill()
        one.communicate()


def flights(calls32):
    mark = log_mark()
    calls_of_32_bits(calls32)
    for part in (system_calls, forks, sessions_beside, switches, messages, masks_and_ice, stops_at_an_error,
                 stops_at_what_is_slow, what_is_not_slow, places, places_as_called, levels, holds, small_rings, owners, come_and_go,
                 *([at_the_front] if HAS_FRONT else [])):
        part()
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(flights)
