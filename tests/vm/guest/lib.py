# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions for the programs beside this file, which run in the throwaway machine.

Each program makes many checks in one boot and prints a line for each check; harness.guest reads the
lines. A check that fails does not end the program, because the other checks are still of use.
"""

import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections import namedtuple
from contextlib import contextmanager
from pathlib import Path

RELEASE = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
# What a read of a pipe runs: the name since 6.16, and the one before.
PIPE_READ = "anon_pipe_read" if RELEASE >= (6, 16) else "pipe_read"

_failed = 0
_sums = {}
# Seconds at the last check, and those that the processors had been idle.
_last = (0.0, 0.0)
# JIFL_TEST_FIRST: the first check that fails ends the program.
FIRST, PROGRAM = "JIFL_TEST_FIRST" in os.environ, os.getpid()


def _say(word, name, detail):
    print(" ".join(f"{word} {name}{': ' if detail else ''}{detail}".splitlines()), flush=True)


def _say_time(name):
    """What a check took, with all that came since the one before, if that is a second or more.

    Only with JIFL_TEST_TIMES: looking makes system calls, which some of these programs count.
    """
    global _last
    if "JIFL_TEST_TIMES" not in os.environ:
        return
    now = [float(word) for word in Path("/proc/uptime").read_text().split()]
    seconds, idle = now[0] - _last[0], (now[1] - _last[1]) / os.cpu_count()
    if seconds >= 1:
        _say("took", f"{seconds:.1f} {max(idle, 0):.1f} {name}", "")
    _last = now


def check(name, good, detail=""):
    """Notes whether the condition called name holds; detail is shown if not."""
    global _failed
    _say_time(name)
    if good:
        _say("ok", name, "")
    else:
        _failed += 1
        _say("FAILED", name, str(detail)[:2000])
        if FIRST and os.getpid() == PROGRAM:
            os._exit(1)
    return good


def same(name, got, want):
    """Checks that got equals want."""
    return check(name, got == want, f"got {got!r}, want {want!r}")


def figure(name, value):
    """A number that the test shows."""
    _say("figure", name, str(value))


def add(name, value):
    """Adds to a number that is summed up over all programs."""
    _sums[name] = _sums.get(name, 0) + value


def add_totals():
    """Adds what the module has counted since it was loaded."""
    if not is_loaded():
        return
    totals = status()
    for name in TOTALS:
        if name in totals:
            add(name, totals[name])
    for cause, count in totals["native_exits"].items():
        add(f"native exits: {cause}", count)
    for cause, count in totals["missed_by"].items():
        add(f"missed: {cause}", count)


def main(function):
    """Runs the program: its only exit."""
    _say_time("the boot")
    try:
        function(*sys.argv[1:])
        add_totals()
    except Exception:
        check("the program itself", False, traceback.format_exc())
    if _failed:
        for line in died():
            _say("died", line, "")
    for name in sorted(_sums):
        _say("sum", name, str(_sums[name]))
    _say("end", "of checks", "")
    if "JIFL_TEST_END" in os.environ:
        print(os.environ["JIFL_TEST_END"], file=sys.stderr, flush=True)
    sys.exit(1 if _failed else 0)


# Of `jifl status`: what only grows.
TOTALS = ["translated_blocks", "translated_insns", "dispatches", "links", "flushes", "invalidated", "faults", "missed",
          "refused", "injected", "evicted"]


# --- processes ---------------------------------------------------------------------


# What a kernel with checks of its own takes longer.
SLOWNESS = int(os.environ.get("JIFL_TEST_SLOWNESS", "1"))
# With what should end, in seconds: a host may be slow. The machine has a limit of its own.
PATIENCE = 400


def run(*command, timeout=PATIENCE, **options):
    """A command's end: returncode, stdout, stderr, as text."""
    if command[:2] == ("jifl", "unload"):
        add_totals()    # they go with the module
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                          timeout=timeout * SLOWNESS, **options)


def background(*command, **options):
    """A command that runs on; its output is kept in pipes."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, errors="replace", **options)


def same_cost(name, got, want):
    """Checks that instructions or blocks of a call, least and most, are the same.

    On a kernel with checks of its own some calls execute more: lockdep a few, and each thousandth
    access is watched by KCSAN, for thousands. There, the least is the same within 1 %.
    """
    if SLOWNESS == 1:
        return same(name, got, want)
    return check(f"{name}, the least within 1 %", abs(got[0] - want[0]) <= want[0] / 100, f"got {got!r}, want {want!r}")


def costs_the_same(name, target):
    """Checks that all calls of a report's target executed as many instructions, or blocks."""
    same_cost(name, (target["min"], target["max"]), (target["min"], target["min"]))


def wait_for(what, condition, timeout=60):
    """Waits until condition() holds, and returns the seconds that took."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > timeout * SLOWNESS:
            raise TimeoutError(f"{what}: not within {timeout} s")
        time.sleep(0.02)
    return time.monotonic() - start


def settled(read, is_good, seconds=10):
    """What read() returns as soon as is_good(it), or after that time.

    What is freed may go late, a leak does not.
    """
    deadline = time.monotonic() + seconds * SLOWNESS
    while not is_good(seen := read()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return seen


def state_of(pid, tid=None):
    """A thread's state as /proc shows it: R, S, Z, ...; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/task/{tid or pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


# A program that makes many calls and does nothing else.
DD = ["/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=20000", "status=none"]


# --- jifl ----------------------------------------------------------------------------


def status():
    """What `jifl status` says."""
    return json.loads(run("jifl", "status", "-f", "json").stdout)


def session(*arguments, command="count"):
    """Starts `jifl COMMAND` in the background; returns when its session runs, beside others."""
    before = len(status()["sessions"])
    process = background("jifl", command, *arguments)

    def started():
        if process.poll() is not None:
            raise RuntimeError(f"jifl {command} {arguments} ended: {process.stderr.read()}")
        return len(status()["sessions"]) > before

    # A host that is busy with other machines may take minutes for it.
    wait_for("the session", started, PATIENCE)
    return process


def interrupt(process):
    """Ends a session as Ctrl-C does; returns its stdout and stderr."""
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=PATIENCE * SLOWNESS)


@contextmanager
def all_sites_patched():
    """Around the start and the end of a session of all functions.

    The kernel patches the sites of all of them in one go, and needs all processors for each few
    hundred. On a busy host that takes longer than its watchdogs wait for, which know nothing of hosts.
    Of the last one here only kernels know that find defects.
    """
    waits = {Path("/proc/sys/kernel/watchdog_thresh"): "0",
             Path("/proc/sys/kernel/hung_task_timeout_secs"): "0",
             Path("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout"): "300",
             Path("/sys/module/workqueue/parameters/watchdog_thresh"): "0"}
    usual = {path: path.read_text() for path in waits if path.exists()}
    for path in usual:
        path.write_text(waits[path])
    try:
        yield
    finally:
        for path, value in usual.items():
            path.write_text(value)


def report(text):
    """A JSON report, with its targets by the names of the system calls and functions."""
    data = json.loads(text)
    data["by_name"] = {target["syscall"] or target["function"]: target for target in data["targets"]}
    add("calls counted", sum(target["calls"] for target in data["targets"]))
    return data


def module_file():
    """The module that was built for this kernel."""
    return f"{os.environ['JIFL_ROOT']}/build/modules/{os.uname().release}/jifl.ko"


def plant():
    """What tells a test module which bug it is to have (tests/planted/kernel); else nothing."""
    return [f"plant={os.environ['JIFL_PLANT']}"] if "JIFL_PLANT" in os.environ else []


def is_loaded(name="jifl"):
    return os.path.exists(f"/sys/module/{name}")


def reload(*parameters):
    """Loads the module anew, with these parameters."""
    run("jifl", "unload", "jifl")
    end = run("/sbin/insmod", module_file().replace("/modules/", "/modules-test/" if plant() else "/modules/"),
              *parameters, *plant())
    check(f"the module loads with {parameters}", end.returncode == 0 and is_loaded(), end)


def log_mark():
    """Writes a line into the kernel's log, behind which kernel_log() then looks."""
    mark = f"mark {os.urandom(8).hex()}"
    Path("/dev/kmsg").write_text(mark)
    return mark


def kernel_log(mark=None):
    """The kernel's log, without times, all there still is or the lines behind a mark."""
    lines = [line.partition("] ")[2] for line in run("dmesg", "--raw").stdout.splitlines()]
    if mark is None:
        return lines
    if mark not in lines:
        raise RuntimeError(f"the kernel's log has gone round: {len(lines)} lines, none of them the mark")
    return lines[lines.index(mark) + 1:]


def died():
    """What the kernel says of programs that died of faults, and whether memory has of the command what its file has."""
    lines = [line for line in kernel_log() if re.search(r"^traps: |: segfault at |^Code: ", line)]
    if lines:
        command = Path(shutil.which("jifl"))
        cached = command.read_bytes()
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        differing = [hex(at) for at, (one, other) in enumerate(zip(cached, command.read_bytes())) if one != other]
        lines.append(f"the command in memory differs from its file at {len(differing)} bytes: {' '.join(differing[:40])}")
    return lines


def complaints(lines=None):
    """What the module has said beyond who did what, in all of the log or these lines of it."""
    own = re.compile(r"jifl: (?!session \d+ (started|ended): |flight recording (started|ended): |refused: |.*taint)")
    return [line for line in (kernel_log() if lines is None else lines) if own.match(line)]


def ends_clean(load, mark):
    """Ends the load's processes, leaders of groups; checks that the module leaves nothing."""
    for process in load:
        check("the load runs on", process.poll() is None, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    same("blocks left", status()["blocks"], 0)
    same("the module can go", run("rmmod", "jifl").returncode, 0)
    check("it is gone", not is_loaded())
    same("the kernel's log", complaints(kernel_log(mark)), [])


Count = namedtuple("Count", "orig executed taken target length insns branch")
NO_BRANCH = 0xffffffff


def known_functions():
    """(module, name) of each that is a function by kallsyms, by its address; module: "" for the kernel itself."""
    found = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, kind, name, *module = line.split()
        # Padding before functions has names, too.
        if kind in "tTwW" and not name.startswith("__pfx_"):
            found.setdefault(int(address, 16), (module[0].strip("[]") if module else "", name))
    return found


# Why functions are refused: of include/uapi/jifl_refusals.h, in its order, without JIFL_REFUSED_.
REASONS = re.findall(r"X\(JIFL_REFUSED_(\w+),",
                     Path(f"{os.environ['JIFL_ROOT']}/include/uapi/jifl_refusals.h").read_text())


class Device:
    """/dev/jifl without the command in between: its requests as include/uapi/jifl.h has them."""

    SIZES = {"info": 48, "start": 224, "stop": 16, "stat": 216, "status": 512, "session": 64, "detach": 24,
             "plugin_ctl": 40, "plugin": 48, "routine": 96, "block": 112, "records": 48, "table": 56,
             "plugin_read": 72, "warm": 56, "irq": 96, "hits": 32, "replacement": 208, "flight": 152}

    SYSCALL, FUNCTION = 1, 2    # kinds of targets
    OPTIONAL = 1                # a flag of functions
    ONLY = 1                    # a scope of functions
    COMM, ADOPT = 1 << 2, 1 << 20   # a filter, a flag of sessions

    def __init__(self):
        self.fd = os.open("/dev/jifl", os.O_RDWR | os.O_CLOEXEC)
        self.refused = []   # why targets of the list were, 0: they were not
        self.refused_splices = []   # the same of places
        self.numbers = []   # of the last session's system calls, in the order of its list

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.fd)

    @staticmethod
    def number(name, size=None):
        """The request's number, of another size if wanted."""
        return 3 << 30 | (size or Device.SIZES[name]) << 16 | 0xF1 << 8 | list(Device.SIZES).index(name)

    def call(self, name, body=b""):
        """Makes a request: its size and then body; returns the answer. OSError as it comes."""
        size = self.SIZES[name]
        data = bytearray(struct.pack("<I", size) + body.ljust(size - 4, b"\0"))
        fcntl.ioctl(self.fd, self.number(name), data)
        return bytes(data)

    @staticmethod
    def target(nr, kind=SYSCALL, scope=0, address=0, name=b"", flags=0, refused=0, condition=0, reserved=0):
        """A target as a session's list has it."""
        return struct.pack("<IIQQ64sIIII", kind, scope, nr, address, name, flags, refused, condition, reserved)

    @staticmethod
    def function(address, name="", flags=0, condition=0):
        """A function as a target."""
        return Device.target(0, Device.FUNCTION, address=address, name=name.encode(), flags=flags, condition=condition)

    @staticmethod
    def splice(address, target=0, where=0, action=0):
        """A place in the function with this index in the list of targets."""
        return struct.pack("<QIIII", address, target, where, 0, action)

    @staticmethod
    def op(code, arg=0, imm=0, width=0, flags=0):
        """An op of a program."""
        return struct.pack("<BBBBIQ", code, width, flags, 0, arg, imm)

    @staticmethod
    def condition(callers=(), values=()):
        """Calls from these ranges, with these first arguments."""
        ranges = [word for each in callers for word in each]
        return struct.pack("<II16Q8Q", len(callers), len(values), *(ranges + [0] * 16)[:16], *(list(values) + [0] * 8)[:8])

    def start(self, kind, numbers, filters=0, pid=0, tgid=0, flags=0):
        self.numbers = list(numbers)
        self.start_of(kind, [self.target(nr) for nr in self.numbers], filters, pid, tgid, flags)

    def start_of(self, kind, targets, filters=0, pid=0, tgid=0, flags=0, number=None, conditions=(), under=(),
                 splices=(), programs=(), bpf=-1, strings=b"", ring=0, comm=b""):
        """Starts a session with this list; number: as many targets are said to be there. Returns the answer.

        self.refused has what the module answers for each target, in whatever way the request ends.
        So has self.refused_splices for each place. programs: lists of ops.
        """
        ops = [op for program in programs for op in program]
        begins = [sum(map(len, programs[:index])) for index in range(len(programs))]
        actions = [struct.pack("<IIiI", begin, len(program), bpf, 0) for begin, program in zip(begins, programs)]
        actions_of, ops_of, strings_of = (ctypes.create_string_buffer(data, max(len(data), 1))
                                          for data in (b"".join(actions), b"".join(ops), strings))
        targets_of = ctypes.create_string_buffer(b"".join(targets), sum(map(len, targets)))
        number = len(targets) if number is None else number
        conditions_of = ctypes.create_string_buffer(b"".join(conditions))
        under_of = ctypes.create_string_buffer(b"".join(under))
        splices_of = ctypes.create_string_buffer(b"".join(splices), sum(map(len, splices)))
        try:
            return self.call("start", struct.pack(
                "<IIiiIQQ16sIIQ8xIIQIIQI36xQIIIIQQQ", kind, filters, pid, tgid, 0, 0, 0, comm, flags, number,
                ctypes.addressof(targets_of), 0, len(conditions), ctypes.addressof(conditions_of), 0, len(under),
                ctypes.addressof(under_of), len(splices), ctypes.addressof(splices_of), len(programs), len(ops),
                len(strings), ring, ctypes.addressof(actions_of), ctypes.addressof(ops_of), ctypes.addressof(strings_of)))
        finally:
            self.refused_splices = [words[3] for words in struct.iter_unpack("<QIIII", splices_of.raw)]
            self.refused = [words[-3] for words in struct.iter_unpack("<IIQQ64sIIII", targets_of.raw)]

    def stop(self):
        """(threads that were inside, nanoseconds)"""
        return struct.unpack("<4xIQ", self.call("stop"))

    def sessions(self):
        return struct.unpack_from("<4xI", self.call("status"))[0]

    def stat(self, nr, form="<8xQ8xQ"):
        """(calls, sum) of a system call, or what else the form takes."""
        return struct.unpack_from(form, self.stat_of(self.numbers.index(nr)))

    def stat_of(self, index):
        """The answer about the target in this place of the list."""
        return self.call("stat", struct.pack("<I", index))

    def records(self, cpu, room=1 << 17):
        """Takes what a session of kind trace has recorded on a CPU: (words, lost)."""
        words, lost, _ = self.records_and_waits(cpu, room)
        return words, lost

    def records_and_waits(self, cpu, room=1 << 17):
        """Takes what a session of kind trace has recorded on a CPU.

        Returns (words, lost, how often threads have waited for it).
        """
        buffer = (ctypes.c_uint32 * (2 * room))()
        answer = self.call("records", struct.pack("<IIIQ", cpu, room, 0, ctypes.addressof(buffer)))
        n, lost, waits = struct.unpack("<8xI4x8xQQ8x", answer)
        return buffer[:2 * n], lost, waits

    # Tables: kinds of sessions, and keys.
    PROFILE, LOCK, MEM, PROBE, KEYS = 6, 8, 9, 10, 1 << 31

    def hits(self, cpu, room=1 << 17):
        """Records of programs: their bytes, and how many have been lost since the start."""
        buffer = ctypes.create_string_buffer(room)
        answer = self.call("hits", struct.pack("<IIIQQ", cpu, room, 0, ctypes.addressof(buffer), 0))
        length, lost = struct.unpack_from("<I", answer, 8)[0], struct.unpack_from("<Q", answer, 24)[0]
        return buffer.raw[:length], lost

    def table(self, table, entry=0, first=0, room=0, address=0, cpu=0):
        """The answer to a request for entries of a table, each of `entry` bytes."""
        return self.call("table", struct.pack("<IIIIIQ", table, entry, first, room, cpu, address))

    def counts(self, room=1 << 13):
        """What a session of kind profile counted: (Count by Count, blocks without a counter)."""
        buffer = (ctypes.c_uint64 * (6 * room))()
        found, n = [], room
        while n == room:
            answer = self.table(self.PROFILE, 48, len(found), room, ctypes.addressof(buffer))
            n, refused = struct.unpack("<16xI4x8xQ16x", answer)
            found += [Count(*words) for words in struct.iter_unpack("<QQQQIIIxxxx", memoryview(buffer).cast("B")[:48 * n])]
        return found, refused
