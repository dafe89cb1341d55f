# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel's text changes while all system calls are instrumented, and then their functions, and
each change takes effect in them.

usage: text_changes.py FENTRY ROUNDS [CHANGE...]

Without the module the program is the control: it makes the same changes alone. CHANGE is a name in
changes() below; without any name the program makes all changes.

A change is made when the code that it changes has been translated and run. Effects are counted:
there are exactly as many as calls were made.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import struct
import time
from pathlib import Path

from kcore import kernel_memory
from lib import (PATIENCE, SLOWNESS, Device, background, check, figure, is_loaded, kernel_log, log_mark, main, module_file, run,
                 same, session, state_of, status, wait_for)

MODULES = Path(module_file()).parent
WORKER = Path(__file__).resolve().parent.parent / "programs/worker.sh"
TRACING = Path("/sys/kernel/tracing")
MINE = TRACING / "instances/jifl-test"
CALLS = 20
# Which no program of the load makes; a shell makes getppid when it begins.
GETSID = 124
READ = 0
ENTRY = "x64_sys_call"


def write(path, text, flags=os.O_TRUNC):
    """To a file of tracefs or sysctl: the error's name, empty when it was taken."""
    try:
        fd = os.open(path, os.O_WRONLY | flags)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as e:
        return errno.errorcode[e.errno]
    return ""


def append(path, text):
    return write(path, text, os.O_APPEND)


def must(path, text):
    error = write(path, text)
    if error:
        raise RuntimeError(f"{text!r} into {path}: {error}")


def insert(name, *parameters):
    return run("insmod", MODULES / f"{name}.ko", *parameters)


def remove(name):
    end = run("rmmod", name)
    check(f"{name} is removed", end.returncode == 0 and not is_loaded(name), end)


# --- what is called -------------------------------------------------------------------------


def cmdline():
    return Path("/proc/cmdline").read_text()


def show_cmdline(n=CALLS):
    """Executes cmdline_proc_show n times."""
    for _ in range(n):
        cmdline()


ZERO = os.open("/dev/zero", os.O_RDONLY)


def read_zero(n=CALLS):
    """Executes ksys_read and vfs_read n times."""
    for _ in range(n):
        os.read(ZERO, 1)


def send_signals(n=CALLS):
    for _ in range(n):
        os.kill(os.getpid(), signal.SIGUSR1)


# --- tracing ----------------------------------------------------------------------------------


def trace_lines(tracing=MINE):
    """What a trace holds. Nothing is added while it is read."""
    must(tracing / "tracing_on", "0")
    text = (tracing / "trace").read_text(errors="replace")
    must(tracing / "tracing_on", "1")
    return text.splitlines()


def hits(pattern, tracing=MINE):
    """Lines of this process in a trace that match."""
    return len([line for line in trace_lines(tracing)
                if re.search(rf"-{os.getpid()} +[\[(]", line) and re.search(pattern, line)])


def clear(tracing=MINE):
    must(tracing / "trace", "")


def only_mine(event):
    """The event, a directory, is about this process alone. Returns the file that switches it."""
    must(event / "filter", f"common_pid == {os.getpid()}")
    return event / "enable"


def counted(name, work, pattern, tracing=MINE):
    """Checks that work leaves as many lines as it makes calls."""
    clear(tracing)
    work()
    same(f"{name}: as many hits as calls", hits(pattern, tracing), CALLS)


def uncounted(name, work, pattern, tracing=MINE):
    clear(tracing)
    work()
    same(f"{name}: no hits when it is off", hits(pattern, tracing), 0)


def toggled(name, file, work, pattern, rounds, tracing=MINE):
    """An event goes on and off around calls."""
    work()
    for _ in range(rounds):
        must(file, "1")
        counted(name, work, pattern, tracing)
        must(file, "0")
        uncounted(name, work, pattern, tracing)


@contextlib.contextmanager
def probes(kind, *definitions):
    """kprobe_events or uprobe_events that exist for a while; of this process alone."""
    file = TRACING / f"{kind}_events"
    for definition in definitions:
        same(f"{definition!r}", append(file, definition + "\n"), "")
    try:
        yield
    finally:
        for definition in definitions:
            same(f"{definition!r} goes", append(file, "-:" + definition.split()[0].partition(":")[2] + "\n"), "")


def static_keys(rounds):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    generated = only_mine(MINE / "events/signal/signal_generate")
    toggled("tracepoint", generated, send_signals, r"signal_generate: sig=10 ", rounds)
    # A second user makes the tracepoint's static call lead elsewhere.
    other = only_mine(TRACING / "events/signal/signal_generate")
    must(generated, "1")
    toggled("tracepoint, two users", other, send_signals, r"signal_generate: sig=10 ", rounds, TRACING)
    counted("tracepoint, the first user", send_signals, r"signal_generate: sig=10 ")
    must(generated, "0")
    must(TRACING / "trace", "")

    for _ in range(rounds):
        for value in ["1", "0"]:
            must("/proc/sys/kernel/sched_schedstats", value)
            same(f"sched_schedstats={value} in a read of /proc/self/sched",
                 "wait_sum" in Path("/proc/self/sched").read_text(), value == "1")


def function_tracer(rounds):
    must(MINE / "set_ftrace_pid", str(os.getpid()))
    must(MINE / "set_ftrace_filter", "cmdline_proc_show")
    show_cmdline()
    for _ in range(rounds):
        must(MINE / "current_tracer", "function")
        counted("function tracer", show_cmdline, "cmdline_proc_show")
        must(MINE / "current_tracer", "nop")
        uncounted("function tracer", show_cmdline, "cmdline_proc_show")
    append(MINE / "set_ftrace_filter", "vfs_read\n")
    must(MINE / "current_tracer", "function")
    counted("function tracer, vfs_read", read_zero, "vfs_read")
    must(MINE / "current_tracer", "nop")


def graph_tracer(rounds):
    must(TRACING / "options/funcgraph-proc", "1")
    must(TRACING / "set_graph_function", "cmdline_proc_show")
    must(TRACING / "set_ftrace_filter", "cmdline_proc_show")
    for _ in range(rounds):
        must(TRACING / "current_tracer", "function_graph")
        clear(TRACING)
        show_cmdline()
        must(TRACING / "tracing_on", "0")
        text = (TRACING / "trace").read_text(errors="replace")
        same("function_graph: as many hits as calls",
             len(re.findall(rf"-{os.getpid()} .*cmdline_proc_show\(\);", text)), CALLS)
        must(TRACING / "tracing_on", "1")
        must(TRACING / "current_tracer", "nop")
        show_cmdline()
    must(TRACING / "set_graph_function", "")
    must(TRACING / "set_ftrace_filter", "")


# Some thousand; not those of timers, which a slow machine would not get out of any more.
MANY = "vfs_* ksys_* do_sys_* *_read* *_write* *alloc_* *_open* *path* proc_* seq_* copy_* __x64_sys_*"


def many_functions(rounds):
    """Thousands of fentry sites at a time are patched under load, then called by all that works."""
    must(TRACING / "set_ftrace_filter", MANY)
    for tracer in ["function", "function_graph"]:
        for _ in range(rounds):
            must(TRACING / "current_tracer", tracer)
            show_cmdline(2)
            must(TRACING / "tracing_on", "0")
            with open(TRACING / "trace", errors="replace") as f:
                text = f.read(1 << 20)
            must(TRACING / "current_tracer", "nop")
            must(TRACING / "tracing_on", "1")
            check(f"{tracer}, many functions: calls are seen", "vfs_read" in text, text[-1000:])
            same(f"{tracer}, many functions: the command line is right", cmdline(), COMMAND_LINE)
    must(TRACING / "set_ftrace_filter", "")


COMMAND_LINE = cmdline()


def inner_offset(function):
    """An offset into a function, near its entry and so always executed, where a kprobe can be."""
    for offset in range(9, 40):
        if not append(TRACING / "kprobe_events", f"p:jt/inner {function}+{offset}\n"):
            append(TRACING / "kprobe_events", "-:jt/inner\n")
            return offset
    raise RuntimeError(f"no place for a kprobe in {function}")


def kprobes(rounds):
    offset = inner_offset("cmdline_proc_show")
    show_cmdline()
    read_zero()
    # Others sleep in vfs_read, too: more than the 10 at a time that it would follow.
    wanted = [("p:jt/entry cmdline_proc_show", show_cmdline), (f"p:jt/inner cmdline_proc_show+{offset}", show_cmdline),
              ("r50:jt/back cmdline_proc_show", show_cmdline), ("p:jt/vfs vfs_read", read_zero),
              ("r50:jt/vfsback vfs_read", read_zero), ("p:jt/ksys ksys_read", read_zero),
              ("r50:jt/ksysback ksys_read", read_zero)]
    for definition, work in wanted:
        name = definition.split()[0].partition("/")[2]
        with probes("kprobe", definition):
            toggled(definition, only_mine(MINE / f"events/jt/{name}"), work, rf" {name}: ", rounds)
    # Jump-optimised, which comes some time after it was placed.
    offset = inner_offset("vfs_read")
    with probes("kprobe", f"p:jt/inner vfs_read+{offset}"):
        enable = only_mine(MINE / "events/jt/inner")
        must(enable, "1")
        counted("kprobe in vfs_read", read_zero, " inner: ")
        if OPTIMISES:
            took = wait_for("the kprobe's optimisation", lambda: is_optimised(offset))
            figure("a kprobe is optimised after", f"{took:.1f} s")
        counted("optimised kprobe", read_zero, " inner: ")
        must(enable, "0")
        uncounted("optimised kprobe", read_zero, " inner: ")


OPTIMISES = set()  # what the kernel optimises natively: kprobes, or nothing


def is_optimised(offset):
    return re.search(rf"vfs_read\+0x{offset:x}\s.*OPTIMIZED", Path("/sys/kernel/debug/kprobes/list").read_text())


def optimised_natively():
    """6.1 optimises no kprobe in a function that returns by a thunk: to it an indirect jump."""
    offset = inner_offset("vfs_read")
    with probes("kprobe", f"p:jt/inner vfs_read+{offset}"):
        enable = only_mine(MINE / "events/jt/inner")
        must(enable, "1")
        try:
            wait_for("the kprobe's optimisation", lambda: is_optimised(offset), timeout=20)
            OPTIMISES.add("kprobes")
        except TimeoutError:
            figure("kprobes", "are not optimised on this kernel natively")
        must(enable, "0")


SLEEPERS = 5


def in_pipe():
    """Where readers of a pipe sleep, as the load does too.

    The function, descriptors, what sleeps, what wakes n.
    """
    gate, wake = os.pipe()
    return "pipe_read", [gate, wake], lambda: os.read(gate, 1) == b"w", lambda n: os.write(wake, b"w" * n)


def in_eventfd():
    """Where readers of an eventfd sleep, as nobody else does: the same four as in_pipe."""
    fd = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_CLOEXEC)
    return "eventfd_read", [fd], lambda: os.eventfd_read(fd) == 1, lambda n: os.eventfd_write(fd, n)


class Sleepers:
    """Processes that have fallen asleep in a function.

    place is where they go on, there or below: NAME+OFFSET.
    """

    def __init__(self, kind, n=SLEEPERS):
        self.function, self.fds, sleep, self.rouse = kind()
        self.pids = [self.start(sleep) for _ in range(n)]
        wait_for("the sleepers", lambda: len(found := self.places()) == 1 and None not in found)
        self.place = self.places().pop()

    @staticmethod
    def start(sleep):
        pid = os.fork()
        if not pid:
            os._exit(0 if sleep() else 1)
        return pid

    def place_of(self, pid):
        """None while it does not sleep there."""
        stack = Path(f"/proc/{pid}/stack").read_text() if state_of(pid) == "S" else ""
        return stack.split()[1].partition("/")[0] if self.function in stack else None

    def places(self):
        return {self.place_of(pid) for pid in self.pids}

    def wake(self, name, run_into):
        """Checks that they get what they wait for; the probe at their place sees all, or none."""
        clear()
        self.rouse(len(self.pids))
        ends = [os.waitpid(pid, 0)[1] for pid in self.pids]
        same(f"{name}: sleepers wake at {self.place}", ends, [0] * len(self.pids))
        text = "\n".join(line for line in trace_lines() if " asleep: " in line)
        same(f"{name}: those that run into the probe",
             [pid for pid in self.pids if re.search(rf"-{pid} +[\[(]", text)], self.pids if run_into else [])
        for fd in self.fds:
            os.close(fd)


def sleepers_trap():
    """The copy of what they return to lies behind the copy of the call, and is dropped under them.

    It lies there if no probe was at that place when the call was translated. So they sleep where
    nobody else does: a load that sleeps there too makes the call anew while the probe is still
    there, and from then on it is as in sleepers_branch. What a user relies on, that each runs into
    the probe, is the same on both ways.
    """
    before = status() if is_loaded() else None
    waiting = Sleepers(in_eventfd)
    with probes("kprobe", f"p:jt/asleep {waiting.place}"):
        must(MINE / "events/jt/asleep/enable", "1")
        waiting.wake("a probe comes", run_into=True)
        must(MINE / "events/jt/asleep/enable", "0")
    if before:
        after = status()
        # If the cache was emptied meanwhile, they have returned to the kernel's own code.
        check("they came by traps in dropped blocks",
              after["traps"] - before["traps"] >= SLEEPERS or after["flushes"] != before["flushes"], (before, after))


def sleepers_branch():
    """The call is translated while a probe is at the place that it returns to.

    An int3 has no copy, so a branch lies behind the copy of the call, for good: linked while there
    is no probe, and cut when one comes. Who returns over it meets no trap.
    """
    enable = MINE / "events/jt/asleep/enable"
    # The jump in the int3's place would have a copy.
    must("/proc/sys/debug/kprobes-optimization", "0")
    waiting = Sleepers(in_pipe)
    with probes("kprobe", f"p:jt/asleep {waiting.place}"):
        must(enable, "1")
        waiting.wake("a probe comes, others sleep there too", run_into=True)
        first, others = Sleepers(in_pipe, 1), Sleepers(in_pipe)
        must(enable, "0")
        first.wake("the probe has gone", run_into=False)
        must(enable, "1")
        others.wake("the probe is there again", run_into=True)
        must(enable, "0")
    must("/proc/sys/debug/kprobes-optimization", "1")


def sleepers(rounds):
    """Code changes that tasks return to, which sleep in what it called."""
    for _ in range(rounds):
        sleepers_trap()
        sleepers_branch()


def uprobes(rounds):
    library = "/dev/shm/jifl-test-libz.so"
    shutil.copy(next(Path("/usr/lib/x86_64-linux-gnu").glob("libz.so.1")).resolve(), library)
    symbols = run("nm", "-D", "--defined-only", library).stdout
    place = re.search(r"^([0-9a-f]+) T zlibVersion$", symbols, re.M).group(1)
    function = ctypes.CDLL(library).zlibVersion

    def work():
        for _ in range(CALLS):
            function()

    with probes("uprobe", f"p:jt/user {library}:0x{place}", f"r:jt/userback {library}:0x{place}"):
        toggled("uprobe", only_mine(MINE / "events/jt/user"), work, " user: ", rounds)
        toggled("uretprobe", only_mine(MINE / "events/jt/userback"), work, " userback: ", rounds)


# --- BPF, livepatch, modules ----------------------------------------------------------------------

# The debug kernels have no type information, without which functions have no BPF programs.
HAS_BTF = Path("/sys/kernel/btf/vmlinux").exists()


def fentry(program, function, where):
    """An attached BPF program, or the number of the error."""
    process = background(program, function, where, stdin=subprocess.PIPE)
    said = process.stdout.readline().split()
    if said[:1] == ["attached"]:
        return process
    out, err = process.communicate(timeout=30)
    if said[:1] != ["refused"]:
        raise RuntimeError(f"fentry {function} {where}: {said} {out} {err}")
    return int(said[1])


def detach(process):
    """How often it was run into by this process."""
    out, err = process.communicate("\n", timeout=60)
    if process.returncode:
        raise RuntimeError(f"fentry: {err}")
    return int(out)


def bpf(program, rounds):
    if not HAS_BTF:
        check("Debian's kernels have BTF", SLOWNESS > 1)
        figure("BPF", "left out: this kernel has no BTF")
        return
    for where in ["entry", "exit"]:
        for _ in range(rounds):
            show_cmdline()
            attached = fentry(program, "cmdline_proc_show", where)
            show_cmdline()
            same(f"BPF f{where}: as many hits as calls", detach(attached), CALLS)
    for _ in range(rounds):
        same("sockets are made", sockets(), [0] * CALLS)
        attached = fentry(program, "bpf_lsm_socket_create", "lsm")
        check("the BPF LSM program is attached", not isinstance(attached, int), attached)
        same("a BPF LSM program denies them", sockets(), [errno.EACCES] * CALLS)
        same("BPF LSM: as many hits as calls", detach(attached), CALLS)
        same("sockets are made again", sockets(), [0] * CALLS)


def sockets():
    """The numbers of the errors of making as many."""
    errors = []
    for _ in range(CALLS):
        try:
            socket.socket(socket.AF_UNIX).close()
            errors.append(0)
        except OSError as error:
            errors.append(error.errno)
    return errors


@contextlib.contextmanager
def patched(name, *parameters):
    """All threads are in the livepatch, and afterwards out of it again."""
    sysfs, refcnt = Path("/sys/kernel/livepatch") / name, Path("/sys/module") / name / "refcnt"
    start = time.monotonic()
    end = insert(name, *parameters)
    check(f"{name} loads", end.returncode == 0, end)
    wait_for("the livepatch", lambda: (sysfs / "transition").read_text() == "0\n", 120)
    figure(f"{name} is complete after", f"{time.monotonic() - start:.1f} s")
    yield
    start = time.monotonic()
    must(sysfs / "enabled", "0")
    # The directory goes before the last reference does.
    wait_for("the end of the livepatch", lambda: not sysfs.exists() and refcnt.read_text() == "0\n", 120)
    figure(f"{name} is reverted after", f"{time.monotonic() - start:.1f} s")


def livepatch(rounds):
    for _ in range(rounds):
        show_cmdline()
        with patched("jifl_livepatch"):
            same("the livepatch takes effect", [cmdline() for _ in range(3)], ["patched\n"] * 3)
        same("what it replaced is back", [cmdline() for _ in range(3)], [COMMAND_LINE] * 3)
        remove("jifl_livepatch")


def livepatch_of_entry():
    """It has the calls that pass sessions, whether it was there before them or not."""
    name = "jifl_livepatch_entry"
    seen = Path("/sys/module") / name / "parameters/seen"
    with Device() as device:
        device.start(2, [GETSID])
        are_counted("before a livepatch of the entry function", device)
        with patched(name, f"table={symbols('sys_call_table')[0]}", f"pid={os.getpid()}"):
            are_counted("beside a livepatch that came later", device)
            pass_by()
            same("it has the calls that pass", int(seen.read_text()), CALLS)
            device.stop()
            with Device() as second:
                second.start(2, [GETSID])
                are_counted("beside a livepatch that was there", second)
                pass_by()
                same("that one has them, too", int(seen.read_text()), 2 * CALLS)
                second.stop()
        remove(name)


def modules(rounds):
    """Code of one module stands where another's was."""
    places = {"a": set(), "b": set()}
    for i in range(6 * rounds):
        which, answer = ("a", "1\n") if i % 2 == 0 else ("b", "2\n")
        end = insert(f"jifl_swap_{which}")
        check(f"jifl_swap_{which} loads", end.returncode == 0, end)
        places[which].add(Path(f"/sys/module/jifl_swap_{which}/sections/.text").read_text())
        same(f"jifl_swap_{which} answers", [Path("/proc/jifl_swap").read_text() for _ in range(3)], [answer] * 3)
        end = run("jifl", "trace", "sys:read", "--", "cat", "/proc/jifl_swap")
        same(f"functions of jifl_swap_{which} in a trace", sorted(re.findall(r"\bswap_\w+", end.stdout)),
             ([f"swap_piece_{c}" for c in "abcdefghijklmnop"] if which == "b" else []) + ["swap_show"])
        remove(f"jifl_swap_{which}")
    shared = places["a"] & places["b"]
    check("they stood at the same address", shared, places)
    figure("addresses of the two modules, those of both",
           f"{len(places['a'])}, {len(places['b'])}, {len(shared)}")


# --- the entry ----------------------------------------------------------------------------------


def calls_of(device, nr=GETSID):
    return device.stat(nr)[0]


def are_counted(name, device):
    before = calls_of(device)
    for _ in range(CALLS):
        os.getsid(0)
    same(f"{name}: calls are counted", calls_of(device) - before, CALLS)


def switches(device):
    """What would disarm us does not."""
    are_counted("before", device)
    same("ftrace_enabled=0 is refused", write("/proc/sys/kernel/ftrace_enabled", "0"), "EBUSY")
    are_counted("after ftrace_enabled=0", device)
    enabled = "/sys/kernel/debug/kprobes/enabled"
    must(enabled, "0")
    are_counted("kprobes/enabled=0", device)
    must(enabled, "1")
    are_counted("kprobes/enabled=1", device)


def refusal(owner):
    """A session is refused, with the owner's name in the log."""
    mark = log_mark()
    end = run("jifl", "count", "insn", "sys:getppid", "--for", "1s")
    check(f"after {owner}: a session is refused with one line",
          end.returncode == 1 and len(end.stderr.splitlines()) == 1 and ENTRY in end.stderr, end)
    lines = [line for line in kernel_log(mark) if line.startswith(f"jifl: the call of {ENTRY} is taken by ")]
    check(f"after {owner}: the log names the owner", len(lines) == 1 and owner in lines[0], kernel_log(mark))


def kernel_bytes(address, size):
    """Bytes of the kernel's text."""
    return kernel_memory([(address, size)])[0]


def symbols(*names):
    """Addresses of the kernel's symbols."""
    lines = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    found = {words[2]: int(words[0], 16) for words in lines if words[2] in names and len(words) == 3}
    return [found[name] for name in names]


def call_of_entry():
    """(address, bytes) of the call of the entry function; None: it is not there."""
    caller, entry = symbols("do_syscall_64", ENTRY)
    code = kernel_bytes(caller, 512)
    for at in range(len(code) - 5):
        # With call depth tracking it leads into the padding before the function.
        if code[at] == 0xe8 and 0 <= entry - (caller + at + 5 + struct.unpack_from("<i", code, at + 1)[0]) <= 16:
            return caller + at, code[at:at + 5]
    return None


def pass_by():
    """Calls that no session is about."""
    for _ in range(CALLS):
        os.getuid()


def redirect(at, *parameters):
    """Someone else redirects the call at this address, of the entry function or of our stub."""
    entry, poke, mutex = symbols(ENTRY, "text_poke_bp", "text_mutex")
    end = insert("jifl_redirect", f"call={at}", f"function={entry}", f"poke={poke}", f"mutex={mutex}", *parameters)
    check("someone else redirects the call", end.returncode == 0, end)


def redirected():
    """The call is redirected, or a jump stands in its place, when a session is to start."""
    redirect(call_of_entry()[0])
    refusal("jifl_redirected")
    remove("jifl_redirect")
    redirect(call_of_entry()[0], "jump=1")
    refusal("jifl_jumped")
    remove("jifl_redirect")


def beside_us(program, before):
    """Others have the entry function before a session, or want it while one runs: both work."""
    def direct():
        end = insert("jifl_direct", f"function={ENTRY}")
        check("a direct call takes the entry function", end.returncode == 0, end)

    def fentries():
        for where in ["entry", "exit"] if HAS_BTF else []:
            attached = fentry(program, ENTRY, where)
            check(f"BPF takes the entry function's {where}", not isinstance(attached, int), attached)
            yield where, attached

    if before:
        direct()
    with Device() as device:
        device.start(2, [GETSID])
        if not before:
            direct()
        are_counted("beside a direct call", device)
        pass_by()
        remove("jifl_direct")
        are_counted("after the direct call", device)
        for where, attached in fentries():
            are_counted(f"beside BPF's f{where}", device)
            pass_by()
            check(f"BPF's f{where} sees calls that pass", detach(attached) >= CALLS)
            are_counted(f"after BPF's f{where}", device)


def probes_beside_us(device):
    """The function tracer and a kprobe see calls that pass, and only those."""
    must(MINE / "set_ftrace_filter", ENTRY)
    for _ in range(2):
        must(MINE / "current_tracer", "function")
        clear()
        are_counted("beside the function tracer", device)
        pass_by()
        check("the function tracer sees calls that pass", hits(ENTRY) >= CALLS)
        must(MINE / "current_tracer", "nop")
        are_counted("after the function tracer", device)
    must(MINE / "set_ftrace_filter", "")
    with probes("kprobe", f"p:jt/calls {ENTRY}"):
        calls = only_mine(MINE / "events/jt/calls")
        must(calls, "1")
        clear()
        are_counted("beside a kprobe", device)
        pass_by()
        check("the kprobe sees calls that pass", hits(" calls: ") >= CALLS)
        must(calls, "0")
        are_counted("after a kprobe", device)


def entry(program):
    """The entry function's call is ours while sessions run; the function itself is everybody's."""
    native = call_of_entry()
    check("do_syscall_64 calls the entry function", native)
    redirected()
    same("what someone else has redirected is as before", call_of_entry(), native)
    beside_us(program, True)
    same("after a session the call is as before", call_of_entry(), native)
    beside_us(program, False)
    with Device() as device:
        device.start(2, [GETSID])
        same("while a session runs the call leads elsewhere", call_of_entry(), None)
        probes_beside_us(device)
    same("after all sessions the call is as before", call_of_entry(), native)


def does_not_load(when, line):
    mark = log_mark()
    end = run("insmod", module_file())
    check(f"{when} the module does not load, and says why", end.returncode and not is_loaded() and f"jifl: {line}" in kernel_log(mark),
          (end, kernel_log(mark)))


def without_call():
    """A jump of someone else stands in the call's place."""
    redirect(call_of_entry()[0], "jump=1")
    does_not_load("without the call", f"do_syscall_64 has 0 calls of {ENTRY} instead of one: "
                  "remove who redirects it, or use another kernel")
    remove("jifl_redirect")


def switched_off():
    """Where ftrace is switched off the module does not load, since its watch on text is ftrace's."""
    must("/proc/sys/kernel/ftrace_enabled", "0")
    does_not_load("without ftrace", "ftrace is switched off: run sysctl kernel.ftrace_enabled=1")
    must("/proc/sys/kernel/ftrace_enabled", "1")


def taken_meanwhile():
    """Someone else redirects the call while a session runs. The module then stays."""
    end = run("insmod", module_file())
    check("the module loads once more", end.returncode == 0, end)
    native = call_of_entry()
    mark = log_mark()
    with Device() as device:
        device.start(2, [GETSID])
        are_counted("before the call is taken", device)
        redirect(native[0])
        device.stop()
    line = "jifl: the call of x64_sys_call was redirected while a session ran: the module stays until the next boot"
    check("the log says that the module stays", line in kernel_log(mark), kernel_log(mark))
    check("the module does not go", run("rmmod", "jifl").returncode and is_loaded())
    remove("jifl_redirect")
    same("the other has put the call back", call_of_entry(), native)
    with Device() as device:
        device.start(2, [GETSID])
        are_counted("in the next session", device)
    same("after it the call is as before", call_of_entry(), native)


# --- the whole ----------------------------------------------------------------------------------


# What changes text of the kernel that calls of this program run.
OF_KERNEL_TEXT = ["static keys", "function tracer", "graph tracer", "kprobes", "sleepers", "livepatch", "modules"]
OF_KERNEL_TEXT += ["BPF"] if HAS_BTF else []


def dropped():
    """Blocks that were dropped because text changed, so far; None: natively."""
    return status()["invalidated"] if is_loaded() else None


def changes(program, rounds, wanted):
    for name, what in [("static keys", lambda: static_keys(rounds)),
                       ("function tracer", lambda: function_tracer(rounds)),
                       ("graph tracer", lambda: graph_tracer(rounds)),
                       ("kprobes", lambda: kprobes(rounds)),
                       ("sleepers", lambda: sleepers(rounds)),
                       ("uprobes", lambda: uprobes(rounds)),
                       ("BPF", lambda: bpf(program, rounds)),
                       ("livepatch", lambda: livepatch(rounds)),
                       ("modules", lambda: modules(rounds)),
                       ("many functions", lambda: many_functions(rounds))]:
        if wanted and name not in wanted:
            continue
        start, before = time.monotonic(), dropped()
        what()
        figure(f"time for {name}", f"{time.monotonic() - start:.1f} s")
        if before is not None and name in OF_KERNEL_TEXT:
            check(f"{name}: blocks were dropped as text changed", dropped() > before)


def with_load(work):
    for stop in Path("/tmp").glob("stop-*"):
        stop.unlink()   # that of another pass
    stops = {f"/tmp/stop-{kind}": background("sh", WORKER, kind, f"/tmp/stop-{kind}") for kind in ["copy", "fork"]}
    try:
        work()
    finally:
        for stop in stops:
            Path(stop).touch()
        for stop, worker in stops.items():
            out, err = worker.communicate(timeout=300)
            check(f"{stop}: all results are right", worker.returncode == 0 and out.split()[1] == "0", (out, err))


def of_system_calls(device):
    """All system calls are the targets."""
    device.start(2, range(512))


def of_functions(device):
    """The functions of all system calls are the targets, those of getsid and read the first of them."""
    lines = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    found = {words[2]: int(words[0], 16) for words in lines if words[2].startswith("__x64_sys_") and words[1] in "tT"}
    first = ["__x64_sys_getsid", "__x64_sys_read"]
    names = first + sorted(found.keys() - first)
    device.start_of(2, [Device.function(found[name], name, Device.OPTIONAL) for name in names])
    entered = device.refused.count(0)
    check("functions of system calls are targets", entered > 300 and device.refused[:2] == [0, 0], (entered, len(names)))
    device.numbers = [GETSID, READ]


def spinner(work, policy=os.SCHED_OTHER):
    """A process on the first CPU that does this for ever."""
    pid = os.fork()
    if not pid:
        os.sched_setaffinity(0, {0})
        os.sched_setscheduler(0, policy, os.sched_param(0))
        while True:
            work()
    return pid


def preempted():
    """The stack of a task that waits for its CPU in a function, whose return is hooked, is walked.

    Livepatches do that. The walk ends at the hooked return, and Linux 6.1 must not warn.
    """
    room = bytearray(16 << 20)
    reader = spinner(lambda: os.readv(ZERO, [room]), os.SCHED_IDLE)

    def is_inside():
        return "read_iter_zero" in Path(f"/proc/{reader}/stack").read_text()

    # It gets hardly any time beside the load.
    wait_for("the reader's call", is_inside, PATIENCE)
    other = spinner(lambda: None)
    time.sleep(1)
    wait_for("the reader's call, when it waits", is_inside, PATIENCE)
    stacks = [Path(f"/proc/{reader}/stack").read_text() for _ in range(200)]
    # To die it needs its processor.
    for pid in (other, reader):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    inside = [stack.split()[1::2] for stack in stacks if "read_iter_zero" in stack]
    check("preempted: stacks are walked", len(inside) > 100, (len(inside), stacks[0]))
    nameless = [stack for stack in inside if not all(re.match(r"[a-z_]\w*[\w.]*\+0x", frame) for frame in stack)]
    same("preempted: each frame has a name", nameless, [])
    figure("preempted: the last frames", {stack[-1] for stack in inside})


def instrumented(name, fentry_program, rounds, wanted, start, more=lambda: None):
    """The changes, and what would switch sessions off, in a session that start() starts."""
    with Device() as device:
        start(device)
        before = dropped()

        def work():
            more()
            changes(fentry_program, rounds, wanted)
            switches(device)
            reads = calls_of(device, READ)
            read_zero()
            check(f"{name}: reads are counted", calls_of(device, READ) >= reads + CALLS)

        with_load(work)
        figure(f"{name}: blocks dropped as text changed", dropped() - before)
        device.stop()


def program(fentry_program, rounds, *wanted):
    rounds = int(rounds)
    run("sysctl", "-qw", "kernel.hung_task_timeout_secs=60")
    os.mkdir(MINE)
    optimised_natively()
    if not is_loaded():
        with_load(lambda: changes(fentry_program, rounds, wanted))
        return
    entry(fentry_program)
    livepatch_of_entry()
    instrumented("system calls", fentry_program, rounds, wanted, of_system_calls)
    # The others change no text of the kernel, or take longest.
    names = [name for name in OF_KERNEL_TEXT if not wanted or name in wanted]
    if names:
        instrumented("functions", fentry_program, 1, names, of_functions, preempted)
    end = run("jifl", "unload", "jifl")
    check("the module unloads", end.returncode == 0 and not is_loaded(), end)
    switched_off()
    without_call()
    taken_meanwhile()


if __name__ == "__main__":
    main(program)
