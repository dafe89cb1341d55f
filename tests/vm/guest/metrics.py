# SPDX-License-Identifier: MIT OR Apache-2.0
"""What jifl stat counts beside times: events of perf, of /proc/vmstat and /proc/net, data of processors.

usage: metrics.py

Each figure is compared with what the kernel tells of the same, or with what was done.
"""

import ctypes
import fcntl
import json
import mmap
import os
import queue
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

from lib import (PIPE_READ, RELEASE, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, run, same,
                 session, status)
from reader import Reader
from times import between, stat

PAGE = 4096
ME = ("-p", str(os.getpid()))
NO_HUGE_PAGES = 15


def rows_of(owner, name):
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    check(f"{name}: a report", out, err)
    return {row["function"]: row["metrics"] for row in json.loads(out)["functions"]}


def fresh(pages):
    area = mmap.mmap(-1, pages * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(NO_HUGE_PAGES)
    return area


def fault(pages):
    """Faults at so many pages, in user mode."""
    area = fresh(pages)
    for at in range(pages):
        area[at * PAGE] = 1
    area.close()


def read_zeros(zero, pages):
    """The kernel faults at each page, inside of a read."""
    area = fresh(pages)
    same("the whole read", zero.readinto(area), pages * PAGE)
    area.close()


def faults():
    """Page faults of reads into fresh memory: as many as pages, whoever counts them."""
    pages = 300
    names = "perf:page-faults,perf:minor-faults,perf:major-faults,vmstat:pgfault"
    owner = stat(names, "fn:vfs_read", "fn:ksys_write", *ME)
    with open("/dev/zero", "rb", buffering=0) as zero:
        read_zeros(zero, 1)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        read_zeros(zero, pages)
        fault(700)
        all_faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    Path("/dev/null").write_text("x")
    rows = rows_of(owner, "faults")
    got = rows["vfs_read"]
    same("faults: perf's", (got["perf:page-faults"], got["perf:minor-faults"], got["perf:major-faults"]), (pages + 1, pages + 1, 0))
    check("faults: those outside are not among them", all_faults >= pages + 700, all_faults)
    same("faults: a write has none", rows["ksys_write"]["perf:page-faults"], 0)
    # An interrupt has none, and nobody else runs in between.
    same("faults: of /proc/vmstat", got["vmstat:pgfault"], pages + 1)


def others():
    """What others do on the processors while a task sleeps is not its own; a switch to it is."""
    reader = Reader()
    owner = stat("perf:page-faults,vmstat:pgfault,perf:context-switches,perf:cpu-clock", f"fn:{PIPE_READ}",
                 "-p", str(reader.process.pid))
    rounds = 8
    for _ in range(rounds):
        reader.sleeps()
        fault(500)
        os.write(reader.pipe, b"x")
    reader.sleeps()
    out, _ = interrupt(owner)
    row, = json.loads(out)["functions"]
    got = row["metrics"]
    for name in ("perf:page-faults", "vmstat:pgfault"):
        check(f"others: {name}", got[name] < 100, got)
    check("others: switches to it", rounds <= got["perf:context-switches"] <= 50 * rounds, got)
    check("others: the clock stands still", got["perf:cpu-clock"] * 4 < row["wall_ns"], row)
    reader.end()


def clock():
    """perf's clock of the processor, beside ours: while a call is going on, too."""
    owner = stat("perf:cpu-clock,perf:task-clock,cpu", "fn:vfs_read", "-n", "dd")
    done = run("dd", "if=/dev/zero", "of=/dev/null", "bs=32M", "count=8")
    same("clock: it reads", done.returncode, 0)
    got = rows_of(owner, "clock")["vfs_read"]
    for name in ("perf:cpu-clock", "perf:task-clock"):
        # The clocks are corrected apart; on each switch one is read behind the other.
        check(f"clock: {name}", abs(got[name] - got["cpu"]) <= got["cpu"] // 50 + 1_000_000, got)


def intervals():
    """A figure grows while the call that it is about goes on, on another processor, too."""
    owner = session("perf:cpu-clock,vmstat:pgfault", "fn:vfs_read", "-i", "200ms", "-n", "dd", "-f", "ndjson", command="stat")
    one = background("dd", "if=/dev/zero", "of=/dev/null", "bs=1G", "count=1")
    one.communicate()
    out, _ = interrupt(owner)
    *lines, last = map(json.loads, out.splitlines())
    report, = (row["metrics"] for row in last["functions"])
    each = [row["metrics"] for line in lines for row in line["interval"]]
    for name in ("perf:cpu-clock", "vmstat:pgfault"):
        same(f"intervals: {name}", sum(one[name] for one in each), report[name])
    check("intervals: some grew inside of the call", sum(one["perf:cpu-clock"] > 0 for one in each) >= 2, each)


# Interrupts of the local timer, of 4 bytes.
TIMERS = "irq_stat.counts[1]" if RELEASE >= (7, 0) else "irq_stat.apic_timer_irqs"


def data_of_processors():
    """The same number by its name, and as data: of 8 bytes; one of 4 bytes beside /proc/interrupts."""
    names = [line.split()[0] for line in Path("/proc/vmstat").read_text().splitlines()]
    event = names.index("pgfault") - names.index("pgpgin")
    data = f"var:vm_event_states.event[{event}]"
    owner = stat(f"vmstat:pgfault,{data},var:{TIMERS}", "fn:vfs_read", *ME)
    before = local_timers()
    with open("/dev/zero", "rb", buffering=0) as zero:
        read_zeros(zero, 5000)
    most = local_timers() - before
    got = rows_of(owner, "data")["vfs_read"]
    check("data: 8 bytes", got[data] == got["vmstat:pgfault"] >= 5000, got)
    check("data: 4 bytes", got[f"var:{TIMERS}"] <= most, (got, most))


def local_timers():
    line = re.search(r"^ *LOC:([ 0-9]*)", Path("/proc/interrupts").read_text(), re.M)
    return sum(map(int, line[1].split()))


def snmp(name):
    group, _, own = name.partition(".")
    lines = (Path("/proc/net/snmp").read_text() + Path("/proc/net/netstat").read_text()).splitlines()
    title, values = (line.split() for line in lines if line.startswith(f"{group}: "))
    return int(values[title.index(own)])


def network():
    """Datagrams that are sent and received inside of the calls that do that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        fcntl.ioctl(receiver, 0x8914, struct.pack("16sH14x", b"lo", 0x41))     # SIOCSIFFLAGS: up, running
        receiver.bind(("127.0.0.1", 0))
        names = ["Udp.OutDatagrams", "Udp.InDatagrams", "IpExt.OutOctets", "Ip.OutRequests"]
        owner = stat(",".join(f"snmp:{name}" for name in names), "fn:udp_sendmsg", "fn:udp_recvmsg", *ME)
        before = [snmp(name) for name in names]
        for _ in range(40):
            sender.sendto(b"x" * 100, receiver.getsockname())
            receiver.recv(200)
        grown = dict(zip(names, (snmp(name) - old for name, old in zip(names, before))))
        rows = rows_of(owner, "network")
    sent, received = (rows[name] for name in ("udp_sendmsg", "udp_recvmsg"))
    same("network: sent", (sent["snmp:Udp.OutDatagrams"], sent["snmp:Ip.OutRequests"]), (40, 40))
    same("network: bytes", sent["snmp:IpExt.OutOctets"], 40 * 128)
    same("network: received", received["snmp:Udp.InDatagrams"], 40)
    same("network: nothing is sent by who receives", received["snmp:Udp.OutDatagrams"], 0)
    check("network: as /proc/net has it", grown["Udp.OutDatagrams"] == 40 and grown["Udp.InDatagrams"] == 40, grown)


def objects():
    """For each file apart; all rows add up."""
    owner = stat("calls,perf:page-faults", "fn:vfs_read", "--by", "file->f_path", *ME)
    with open("/dev/zero", "rb", buffering=0) as zero, open("/etc/hostname", "rb", buffering=0) as small:
        for _ in range(10):
            read_zeros(zero, 20)
            os.pread(small.fileno(), 10, 0)
    out, _ = interrupt(owner)
    rows = [(row["by"].get("file->f_path"), row["metrics"]["perf:page-faults"]) for row in json.loads(out)["functions"]]
    same("objects: faults", dict(rows).get("zero"), 200)
    same("objects: all", sum(count for _, count in rows), 200)


class Worker:
    """A thread that makes the calls, and no others: -t names it. The test itself reads what sessions write."""

    def __init__(self):
        self.jobs, self.done = queue.Queue(), queue.Queue()
        self.thread = threading.Thread(target=self.works)
        self.thread.start()
        self.words = ("-t", str(self.done.get()))

    def works(self):
        self.done.put(threading.get_native_id())
        for job in iter(self.jobs.get, None):
            self.done.put(job())

    def do(self, job):
        self.jobs.put(job)
        return self.done.get()

    def end(self):
        self.jobs.put(None)
        self.thread.join()


def sums():
    """Values of calls, added up: what they are called with, and what they return; errors are not among them."""
    worker, sizes, ends = Worker(), [1, 7, 100, 4096, 100], os.pipe2(os.O_NONBLOCK)
    zero, null = os.open("/dev/zero", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
    owner = stat("calls,sum:count,sum:$ret,sum:$ret/calls,sum:(count == 100)", "fn:vfs_read", "fn:vfs_write", *worker.words)

    def calls():
        for size in sizes:
            os.read(zero, size)
        for _ in range(3):
            os.write(null, b"abcde")
        for _ in range(2):
            try:
                os.read(ends[0], 10)
            except BlockingIOError:
                pass

    worker.do(calls)
    rows = rows_of(owner, "sums")
    worker.end()
    got = rows["vfs_read"]
    same("sums: calls", got["calls"], len(sizes) + 2)
    same("sums: of an argument", got["sum:count"], sum(sizes) + 20)
    same("sums: of results, without errors", got["sum:$ret"], sum(sizes))
    check("sums: for each call", abs(got["sum:$ret/calls"] - sum(sizes) / got["calls"]) < 1e-9, got)
    same("sums: of a condition", got["sum:(count == 100)"], 2)
    same("sums: of another function", (rows["vfs_write"]["sum:count"], rows["vfs_write"]["sum:$ret"]), (15, 15))
    for end in (*ends, zero, null):
        os.close(end)


def sums_of_objects():
    """Bytes by file."""
    owner = stat("calls,sum:$ret,sum:count", "fn:vfs_read", "--by", "file->f_path", *ME)
    with open("/dev/zero", "rb", buffering=0) as zero, open("/etc/passwd", "rb", buffering=0) as small:
        for _ in range(10):
            zero.read(1000)
            os.pread(small.fileno(), 10, 0)
    out, _ = interrupt(owner)
    rows = {row["by"].get("file->f_path"): row["metrics"] for row in json.loads(out)["functions"]}
    same("sums by file", [(rows[name]["calls"], rows[name]["sum:$ret"], rows[name]["sum:count"]) for name in ("zero", "passwd")],
         [(10, 10_000, 10_000), (10, 100, 100)])


def powers(values):
    """By the lowest value of each bucket, how many are in it."""
    counts = {}
    for value in values:
        low = 1 << value.bit_length() - 1 if value else 0
        counts[low] = counts.get(low, 0) + 1
    return counts


def buckets(distribution):
    return {one["low"]: one["count"] for one in distribution["buckets"] if one["count"]}


def distributions():
    """Values of calls by powers of two: what they are called with, and what they return, errors too."""
    worker, sizes, ends = Worker(), [1, 7, 100, 4096, 100, 65_536], os.pipe2(os.O_NONBLOCK)
    zero = os.open("/dev/zero", os.O_RDONLY)

    def calls():
        for size in sizes:
            os.read(zero, size)
        for _ in range(2):
            try:
                os.read(ends[0], 10)
            except BlockingIOError:
                pass

    words = "calls,hist:count,hist:$ret,sum:$ret"
    owner = stat(words, "fn:vfs_read", *worker.words)
    worker.do(calls)
    got = rows_of(owner, "distributions")["vfs_read"]
    known = got["hist:count"]
    same("distributions: of an argument", (known["values"], known["negative"], buckets(known)),
         (len(sizes) + 2, 0, powers([*sizes, 10, 10])))
    known = got["hist:$ret"]
    same("distributions: of results", (known["values"], known["negative"], buckets(known)), (len(sizes) + 2, 2, powers(sizes)))
    same("distributions: the sum beside them", got["sum:$ret"], sum(sizes))
    for form, lines in (("text", ["vfs_read hist:count: 8 values", f"{'(..., 0)':<16} {2:>11} |"]),
                        ("csv", ["vfs_read,,8,1:1 4:1 8:2 64:2 4096:1 65536:1,<0:2 1:1 4:1 64:2 4096:1 65536:1,69840"])):
        owner = session(words, "fn:vfs_read", *worker.words, "-f", form, command="stat")
        worker.do(calls)
        out, _ = interrupt(owner)
        check(f"distributions: as {form}", all(line in out for line in lines), out)
    worker.end()
    for end in (*ends, zero):
        os.close(end)


def distributions_of_objects():
    """The same by file; over all rows, each value once, while the function runs on all processors."""
    owner = stat("calls,sum:vlen,hist:vlen,hist:$ret,hist:wall", "fn:vfs_readv", "--by", "file->f_path", *ME)
    rounds = 60

    def reads(name, buffers):
        room = [bytearray(64) for _ in range(buffers)]
        with open(name, "rb", buffering=0) as file:
            for _ in range(rounds):
                os.preadv(file.fileno(), room, 0)

    workers = [threading.Thread(target=reads, args=each) for each in (("/dev/zero", 3), ("/dev/zero", 3), ("/etc/passwd", 1))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    out, err = interrupt(owner)
    report = json.loads(out)
    same("distributions by file: nothing is missed", report["missed"], 0)
    rows = {row["by"].get("file->f_path"): row for row in report["functions"]}
    for name, calls, size, vlen in (("zero", 2 * rounds, 192, 3), ("passwd", rounds, 64, 1)):
        got = rows[name]["metrics"]
        same(f"distributions by file: {name}", (got["calls"], got["sum:vlen"], buckets(got["hist:vlen"]), buckets(got["hist:$ret"])),
             (calls, calls * vlen, powers([vlen] * calls), powers([size] * calls)))
        times_add_up(f"distributions by file: {name}", got["hist:wall"], calls, rows[name]["wall_ns"])


def times_add_up(name, known, calls, whole):
    """The times of calls are those whose sum is known: each is rounded down."""
    least = sum(one["low"] * one["count"] for one in known["buckets"])
    most = sum(one["high"] * one["count"] for one in known["buckets"])
    same(f"{name}: each call has a time", (known["values"], known["negative"]), (calls, 0))
    check(f"{name}: their sum is known", least <= whole + 3 <= most + 3, (known, whole))


def latencies():
    """How long each call took: of reads that wait for so long, at least; and each in its state."""
    reader = Reader()
    words = "calls,hist:wall,hist:blocked,hist:cpu,hist:runnable"
    owner = stat(words, f"fn:{PIPE_READ}", "-p", str(reader.process.pid))
    rounds, least = 8, 50_000_000
    os.write(reader.pipe, b"x")
    for _ in range(rounds):
        reader.sleeps()
        time.sleep(least / 1e9)
        os.write(reader.pipe, b"x")
    reader.sleeps()
    out, _ = interrupt(owner)
    row, = json.loads(out)["functions"]
    got = row["metrics"]
    # The first had begun before, the last has not ended.
    same("latencies: calls", (row["calls"], row["adopted"], row["inside"]), (rounds + 1, 1, 1))
    for name in ("wall", "blocked", "cpu", "runnable"):
        same(f"latencies: {name}: each that was seen whole", got[f"hist:{name}"]["values"], rounds)
    for name in ("wall", "blocked"):
        check(f"latencies: {name}: as long as nobody writes", min(buckets(got[f"hist:{name}"])) * 2 > least, got)
    reader.end()


def latencies_add_up():
    """Over all calls, the four distributions have the sums; in intervals, too."""
    words = "calls,hist:wall,hist:blocked,hist:cpu,hist:runnable"
    owner = session(words, "fn:vfs_read", "-n", "dd", "-i", "300ms", "-f", "ndjson", command="stat")
    for size, count in ((4096, 400), (4_000_000, 8)):
        run("dd", "if=/dev/zero", "of=/dev/null", f"bs={size}", f"count={count}")
    out, _ = interrupt(owner)
    *lines, last = map(json.loads, out.splitlines())
    row, = last["functions"]
    for name in ("wall", "blocked", "cpu", "runnable"):
        known = row["metrics"][f"hist:{name}"]
        times_add_up(f"latencies: {name}", known, row["calls"], row[f"{name}_ns"])
        each = [one["metrics"][f"hist:{name}"] for line in lines for one in line["interval"]]
        of_intervals = {}
        for low, count in (pair for one in each for pair in buckets(one).items()):
            of_intervals[low] = of_intervals.get(low, 0) + count
        same(f"latencies: {name}: intervals", of_intervals, buckets(known))


def sums_at_work():
    """The same while the function runs on all processors, with breakpoints of others at its places."""
    stop, read = threading.Event(), [0, 0, 0]
    # Several buffers in one call: nothing else does that.
    room = [bytearray(64) for _ in range(3)]

    def reads(at):
        with open("/dev/zero", "rb", buffering=0) as zero:
            while not stop.is_set():
                os.preadv(zero.fileno(), [room[at]], 0)
                read[at] += 64

    owner = stat("sum:$ret,sum:vlen", "fn:vfs_readv", *ME)
    workers = [threading.Thread(target=reads, args=(at,)) for at in range(3)]
    for worker in workers:
        worker.start()
    time.sleep(1)
    stop.set()
    for worker in workers:
        worker.join()
    got = rows_of(owner, "sums at work")["vfs_readv"]
    same("sums at work", (got["sum:$ret"], got["sum:vlen"]), (sum(read), sum(read) // 64))


def interrupts():
    """The time of interrupts, which is in that of the task, or, by option, in none."""
    os.sched_setaffinity(0, {0})
    figures = []
    for words in ((), ("--no-interrupts",)):
        owner = stat("cpu,interrupts", "fn:vfs_read", *words, *ME)
        # It rings on this processor, and nobody listens.
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        with open("/dev/zero", "rb", buffering=0) as zero:
            area = fresh(4000)
            for _ in range(20):
                zero.readinto(area)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        area.close()
        out, _ = interrupt(owner)
        row, = json.loads(out)["functions"]
        figures.append(row)
        same("interrupts: a sum", row["wall_ns"], row["cpu_ns"] + row["blocked_ns"] + row["runnable_ns"])
    os.sched_setaffinity(0, range(os.cpu_count()))
    whole, less = (row["metrics"] for row in figures)
    check("interrupts: they take time", 0 < whole["interrupts"] < whole["cpu"], whole)
    # elapsed_ns is the same clock: the time out of interrupts is no more than what is left of it.
    check("interrupts: out of the time", 0 < less["interrupts"] and less["cpu"] + less["interrupts"] <= figures[1]["elapsed_ns"], figures)


class Perf:
    """What perf counts of this thread, in the kernel alone: one of its software events."""

    EXCLUDE_USER = 1 << 4

    def __init__(self, event):
        attributes = struct.pack("IIQQQQQ", 1, 112, event, 0, 0, 0, self.EXCLUDE_USER).ljust(112, b"\0")
        self.file = ctypes.CDLL(None, use_errno=True).syscall(298, attributes, 0, -1, -1, 0)
        check("perf: an event is opened", self.file >= 0, os.strerror(ctypes.get_errno()))

    def read(self):
        return int.from_bytes(os.read(self.file, 8), "little")


def beside_perf():
    """perf's own counters of the thread, around the same reads."""
    faults, switches = Perf(2), Perf(3)
    owner = stat("perf:page-faults,perf:context-switches", "fn:vfs_read", *ME)
    area = fresh(400)
    with open("/dev/zero", "rb", buffering=0) as zero:
        before = faults.read(), switches.read()
        zero.readinto(area)
        after = faults.read(), switches.read()
    area.close()
    got = rows_of(owner, "beside perf")["vfs_read"]
    # Its own counters are files, so they are read by the function.
    same("beside perf: page faults", got["perf:page-faults"], after[0] - before[0])
    check("beside perf: switches", got["perf:context-switches"] <= after[1] - before[1] + 1, (got, before, after))
    for one in (faults, switches):
        os.close(one.file)


def schedstat():
    """Two tasks that share a processor, beside what the scheduler says of all of their time."""
    owner = stat("fn:vfs_read", "-n", "dd")
    both = [subprocess.Popen(["taskset", "1", "dd", "if=/dev/zero", "of=/dev/null", "bs=16M", "count=30"], stderr=subprocess.DEVNULL)
            for _ in range(2)]
    ran = waited = 0
    for one in both:
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        own = Path(f"/proc/{one.pid}/schedstat").read_text().split()
        ran, waited = ran + int(own[0]), waited + int(own[1])
        one.wait()
    out, _ = interrupt(owner)
    row, = json.loads(out)["functions"]
    between("schedstat: it ran no longer", 1, row["cpu_ns"], ran + 1_000_000)
    # The scheduler's clock stands still between its own looks at it, so the two are not compared.
    check("schedstat: it waited", row["runnable_ns"] > 0, row)
    figure("of schedstat's time, in the function", f"ran {row['cpu_ns'] / ran:.3f}, waited {row['runnable_ns'] / waited:.3f}")


def processors_come_and_go():
    """What perf counts is not known then, and says so; what the kernel counts goes on."""
    switch = Path("/sys/devices/system/cpu/cpu1/online")
    if not switch.exists():
        return
    owner = stat("perf:page-faults,vmstat:pgfault", "fn:vfs_read", *ME)
    for value in "01":
        switch.write_text(value)
    wanted = os.sched_getaffinity(0)
    with open("/dev/zero", "rb", buffering=0) as zero:
        for cpu in sorted(wanted):
            os.sched_setaffinity(0, {cpu})
            read_zeros(zero, 50)
    os.sched_setaffinity(0, wanted)
    got = rows_of(owner, "hotplug")["vfs_read"]
    same("hotplug: perf's is not known", got["perf:page-faults"], None)
    same("hotplug: the kernel's is", got["vmstat:pgfault"], 50 * len(wanted))
    text = run("jifl", "stat", "calls,perf:page-faults", "fn:vfs_read", "--", "cat", "/etc/hostname")
    check("hotplug: later sessions know it", "not known" not in text.stdout and text.returncode == 0, text)


def while_it_runs():
    """A session that counts comes and goes while its functions run on all processors, natively and in copies."""
    stop = threading.Event()

    def reads():
        with open("/dev/zero", "rb", buffering=0) as zero:
            while not stop.is_set():
                read_zeros(zero, 10)

    workers = [threading.Thread(target=reads) for _ in range(3)]
    for worker in workers:
        worker.start()
    # Among them what reads the counters, and what counts.
    functions = ("fn:vfs_read", "fn:handle_mm_fault", "fn:perf_event_read_local", "fn:cpu_clock_event_read", "fn:perf_swevent_read")
    for _ in range(5):
        end = run("jifl", "stat", "perf:cpu-clock,perf:page-faults,vmstat:pgfault,tracepoint:sched:sched_switch", *functions,
                  "--for", "300ms")
        check("while it runs", end.returncode == 0, end)
    stop.set()
    for worker in workers:
        worker.join()


def refused():
    """One line each, and the way out."""
    for word, code, why in (
        ("perf:cycles", 3, "perf:cycles: this machine's processors do not count that"),
        ("perf:LLC-load-misses", 3, "perf:LLC-load-misses: this machine's processors do not count that"),
        ("perf:r01c2", 3, "perf:r01c2: this machine's processors do not count that"),
        ("perf:page-fault", 2, "the nearest are page-faults"),
        ("vmstat:nr_free_pages", 2, "a level, which also falls"),
        ("vmstat:pgfaultx", 2, "the nearest are pgfault"),
        ("snmp:Tcp.CurrEstab", 2, "a level, which also falls"),
        ("snmp:Tcp.InSeg", 2, "the nearest are InSegs"),
        ("snmp:InSegs", 2, "give snmp:GROUP.NAME"),
        ("var:runqueues", 2, "say which number in it"),
        ("var:runqueues.none", 2, "has no member `none`"),
        ("var:vm_event_states.event[9999]", 2, "[9999]: there are"),
        ("var:jiffies_64.x", 2, "give the name alone"),
        ("sum:no_such_name", 2, "no_such_name"),
        ("sum:", 2, "a value is missing"),
        ("hist:no_such_name", 2, "no_such_name"),
        ("hist:$ret/calls", 2, "a distribution is no number"),
    ):
        end = run("jifl", "stat", word, "fn:vfs_read", "--for", "10ms")
        check(f"refused: {word}", end.returncode == code and why in end.stderr and end.stderr.count("\n") == 1, end)
    end = run("jifl", "stat", "hist:wall", "fn:vfs_read", "--no-interrupts", "--for", "10ms")
    check("refused: --no-interrupts", end.returncode == 2 and "each call's whole time" in end.stderr, end)


def metrics():
    mark = log_mark()
    for part in (faults, others, clock, intervals, data_of_processors, network, objects, sums, sums_of_objects, sums_at_work, distributions,
                 distributions_of_objects, latencies, latencies_add_up, interrupts, beside_perf, schedstat, while_it_runs, refused, processors_come_and_go):
        part()
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(metrics)
