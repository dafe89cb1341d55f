# SPDX-License-Identifier: MIT OR Apache-2.0
"""A counter at every instruction of many functions, compared with how often their blocks ran.

usage: sweep.py SEED SECONDS INSTRUCTIONS

SEED chooses the functions, of those that the load reaches. It goes on until so many instructions
had a counter, or so many seconds are over.

Two sessions see the same run. One has a place at each instruction, as `jifl probe 'fn:NAME insn'`
has. The other counts blocks: of the functions alone, as `jifl prof fn:NAME --only` does, or of all
system calls for functions that have no door. Why the two must be equal, exactly:

1. The places are read four times: before and after the block counter starts, before and after it
   stops. What the blocks counted lies between the difference of the inner two and that of the outer
   two. Where a place was not executed at either edge, the two differences are one number.
2. A place counts in all contexts, a block only in copies. A thread that comes natively is caught by
   a breakpoint, and the session says how often. Without one, and without a missed call, all
   executions of a function were in copies.
3. A thread that a breakpoint has led into the cache goes on in copies that count no blocks. From
   there it may call a function without a door, and meets no breakpoint. So without doors the two
   are equal if nobody was led. With doors such a call comes by the door.
4. A jump in place leads native calls of functions without a door into copies that count no blocks,
   and nothing tells how many. So the two are equal only where such jumps are switched off.

Otherwise blocks count at most what places count.
"""

import ctypes
import fcntl
import hashlib
import json
import mmap
import os
import random
import re
import resource
import select
import signal
import socket
import struct
import tempfile
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path

from lib import Device, check, complaints, figure, main, run, same

PROFILE, PROBE = Device.PROFILE, Device.PROBE
TGID, CHILDREN = 1 << 1, 1 << 4
SYSTEM_CALLS = range(335)
# Instructions that have a counter at a time, by what their breakpoints are: the module's own, or
# kprobes, which take much longer.
BATCH = {True: 1000, False: 200}
# Sessions with more places have breakpoints of the module's own.
OWN = Path("/sys/module/jifl/parameters/own_breakpoints")
# Instructions of one function; a larger one would take the time of several.
LARGEST = 300
# Functions without a door are entered by jumps in place.
JUMPS = Path("/sys/module/jifl/parameters/jumps")
HITS = struct.Struct("<QQIIQQQ")


# --- the load ---------------------------------------------------------------------------------


def files(directory):
    """Reads, writes, names and locks."""
    path = f"{directory}/a"
    with open(path, "w+b", buffering=0) as f:
        f.write(b"abc" * 3000)
        os.pwrite(f.fileno(), b"xyz", 4000)
        yield os.pread(f.fileno(), 100, 3990), f.seek(-5, os.SEEK_END), f.read(9), os.fstat(f.fileno()).st_size
        os.truncate(path, 5000)
        os.fsync(f.fileno())
        fcntl.lockf(f, fcntl.LOCK_EX)
        with mmap.mmap(f.fileno(), 5000) as m:
            m[7] = 1
            m.flush()
            yield m[:10]
        yield os.preadv(f.fileno(), [bytearray(3), bytearray(9)], 0), os.sendfile(f.fileno(), f.fileno(), 0, 10)
    os.link(path, f"{directory}/b")
    os.symlink("a", f"{directory}/c")
    os.mkdir(f"{directory}/d")
    os.rename(f"{directory}/b", f"{directory}/d/e")
    os.chmod(path, 0o640)
    os.utime(path, (1, 2))
    yield sorted(os.listdir(directory)), os.readlink(f"{directory}/c"), oct(os.stat(path).st_mode), os.stat(path).st_nlink
    yield os.access(path, os.X_OK), os.stat(f"{directory}/c").st_mtime, os.statvfs(directory).f_bsize
    for act in (lambda: os.open(f"{directory}/none", 0), lambda: os.rmdir(directory), lambda: os.mkdir(f"{directory}/d"),
                lambda: os.open(f"{path}/x", 0), lambda: os.read(999, 1)):
        try:
            act()
        except OSError as error:
            yield error.errno
    for name in ("d/e", "c", "a"):
        os.unlink(f"{directory}/{name}")
    os.rmdir(f"{directory}/d")


def channels():
    """Pipes, sockets, and waiting for them."""
    r, w = os.pipe()
    yield os.write(w, b"hello"), select.select([r], [w], [], 0)[0] == [r], os.read(r, 9)
    os.close(r)
    os.close(w)
    with socket.socket(socket.AF_INET) as server, socket.socket(socket.AF_INET) as client:
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
        with server.accept()[0] as peer:
            client.sendall(b"x" * 2000)
            yield len(peer.recv(2000, socket.MSG_WAITALL)), client.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
    a, b = socket.socketpair()
    with a, b, select.epoll() as poll:
        poll.register(b, select.EPOLLIN)
        a.send(b"dgram")
        yield len(poll.poll(0)), b.recv(9)
    with open(os.memfd_create("m"), "w+b") as f:
        f.write(b"memory")
        yield f.tell()


def tasks():
    """Signals, threads, children, and what is asked of tasks."""
    got = []
    signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    yield got, signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getpgid(0) == os.getpgrp(), resource.getrlimit(resource.RLIMIT_NOFILE)
    thread = threading.Thread(target=got.append, args=[2])
    thread.start()
    thread.join()
    yield got, os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), os.uname().release
    os.sched_yield()
    time.sleep(0.001)
    pid = os.fork()
    if not pid:
        os._exit(len(bytearray(1 << 20)) & 0x7f)
    yield os.waitpid(pid, 0)[1], os.spawnv(os.P_WAIT, "/bin/true", ["true"]), os.getcwd()
    yield Path("/proc/self/comm").read_text(), Path("/proc/self/limits").read_text(), len(Path("/proc/self/maps").read_text()) > 99


def work(directory):
    """The load; what it returns depends on nothing but the kernel's right work."""
    return repr([*files(directory), *channels(), *tasks()])


class Load:
    """A process that does the work whenever it is told to, and says a digest of the results."""

    def __init__(self):
        go, self.go = os.pipe()
        self.said, say = os.pipe()
        directory = tempfile.mkdtemp()
        self.pid = os.fork()
        if not self.pid:
            while os.read(go, 1):
                os.write(say, hashlib.sha1(work(directory).encode()).hexdigest().encode())
            os._exit(0)

    def turn(self):
        os.write(self.go, b"x")
        return os.read(self.said, 40)


# --- what it reaches --------------------------------------------------------------------------


class Names:
    """Functions of the kernel itself whose name is theirs alone."""

    def __init__(self):
        found = re.findall(r"^(\w+) [tTwW] (\S+)$", Path("/proc/kallsyms").read_text(), re.M)
        often = Counter(name for _, name in found)
        self.starts = sorted({int(address, 16) for address, _ in found})
        self.names = {int(address, 16): name for address, name in found if often[name] == 1}
        traced = Path("/sys/kernel/tracing/available_filter_functions").read_text().splitlines()
        self.doors = {line for line in traced if " " not in line}

    def start(self, address):
        return self.starts[bisect_right(self.starts, address) - 1]

    def name(self, start):
        """The function's name, if it can be swept."""
        name = self.names.get(start, "")
        return "" if ".cold" in name or name.startswith("__pfx") else name


def system_calls(device, **filters):
    device.start_of(PROFILE, [Device.target(nr) for nr in SYSTEM_CALLS], **filters)


def reached(load, names):
    """(with a door, without): addresses of functions that the load executes, in order."""
    with Device() as device:
        system_calls(device, filters=TGID | CHILDREN, tgid=load.pid)
        load.turn()
        device.stop()
        counts, _ = device.counts()
    starts = sorted({names.start(count.orig) for count in counts if count.executed})
    starts = [start for start in starts if names.name(start)]
    return ([start for start in starts if names.name(start) in names.doors],
            [start for start in starts if names.name(start) not in names.doors])


def instructions(starts):
    """Addresses of instructions by the function that each of these is."""
    end = run("jifl", "probe", *(f"fn:{start:#x} insn" for start in starts), "--list", "--yes", "-f", "json")
    check("instructions are listed", end.returncode == 0, end.stderr[-1500:])
    found = defaultdict(list)
    for one in json.loads(end.stdout)["list"]:
        found[int(one["function"], 16)].append(int(one["address"], 16))
    return found


# --- one comparison ---------------------------------------------------------------------------


def hits(device, number):
    """(hits, caught) by place; what the session could not count; threads led into the cache."""
    buffer = ctypes.create_string_buffer(HITS.size * number)
    answer = device.table(PROBE, HITS.size, 0, number, ctypes.addressof(buffer))
    n, moved, missed = struct.unpack_from("<16xI4x8xQQ", answer)
    rows = [HITS.unpack_from(buffer, HITS.size * index) for index in range(n)]
    return [row[0] for row in rows], [row[1] for row in rows], sum(row[2] for row in rows) + missed, moved


def start_places(device, of):
    """Starts the session of all places; takes out what the module refuses. The places, in order."""
    targets = list(of)
    while True:
        places = sorted((address, index) for index, start in enumerate(targets) for address in of[start])
        splices = [Device.splice(address, index) for address, index in places]
        try:
            device.start_of(PROBE, [Device.target(0, Device.FUNCTION, Device.ONLY, start) for start in targets], splices=splices)
            return [(address, targets[index]) for address, index in places]
        except OSError:
            bad = {targets[index] for index, why in enumerate(device.refused) if why}
            bad_places = {place[0] for place, why in zip(places, device.refused_splices) if why}
            if not bad and not bad_places:
                raise
            of = {start: [at for at in of[start] if at not in bad_places] for start in targets if start not in bad}
            targets = [start for start in of if of[start]]
            if not targets:
                return []


class Sums(Counter):
    """What was compared."""


def compare(name, of, load, native, has_door, sums, jumps):
    """A counter at each of these instructions while the load runs, beside a counter of blocks."""
    with Device() as places_of, Device() as blocks_of:
        begun = time.monotonic()
        places = start_places(places_of, of)
        if not places:
            return
        armed = time.monotonic()
        targets = sorted({start for _, start in places})
        reads = [hits(places_of, len(places))]
        if has_door:
            blocks_of.start_of(PROFILE, [Device.target(0, Device.FUNCTION, Device.ONLY, start) for start in targets])
        else:
            system_calls(blocks_of)
        reads.append(hits(places_of, len(places)))
        results = load.turn()
        reads.append(hits(places_of, len(places)))
        blocks_of.stop()
        reads.append(hits(places_of, len(places)))
        counts, refused = blocks_of.counts()
        stats = {start: struct.unpack_from("<8xQ8xQ16xQ", blocks_of.stat_of(index)) for index, start in enumerate(targets)} \
            if has_door else {}
        stopping = time.monotonic()
        places_of.stop()
        stopped = time.monotonic()
    same(f"{name}: the load's results", results, native)
    same(f"{name}: each block has a counter", refused, 0)
    sums["ms to arm"] += round((armed - begun) * 1000)
    sums["ms to end"] += round((stopped - stopping) * 1000)
    judge(name, places, reads, counts, stats, sums, jumps)


def executed(counts, addresses):
    """How often the instruction at each address was executed, by the counts of blocks."""
    steps = Counter()
    for count in counts:
        steps[count.orig] += count.executed
        steps[count.orig + count.length] -= count.executed
    found, level, edges = {}, 0, sorted(steps)
    at = 0
    for address in addresses:
        while at < len(edges) and edges[at] <= address:
            level += steps[edges[at]]
            at += 1
        found[address] = level
    return found


def judge(name, places, reads, counts, stats, sums, jumps):
    known = executed(counts, [address for address, _ in places])
    before, first, last, after = reads
    losing = {start for start, stat in stats.items() if stat[2]}
    losing |= {start for (_, start), early, late in zip(places, before[1], after[1]) if late != early}
    if not stats and (jumps or after[3] != before[3]):
        losing = {start for _, start in places}
    wrong = []
    for index, (address, start) in enumerate(places):
        inner, outer = last[0][index] - first[0][index], after[0][index] - before[0][index]
        sums["instructions"] += 1
        sums["executed"] += inner > 0
        sums["exact"] += inner == outer and start not in losing
        sums["exact and executed"] += inner == outer and inner > 0 and start not in losing
        low = 0 if start in losing else inner
        if not low <= known[address] <= outer:
            wrong.append((hex(address), hex(address - start), NAMES.names.get(start), known[address], inner, outer,
                          start in losing))
    sums["functions"] += len({start for _, start in places})
    sums["functions with missed calls"] += sum(stat[2] > 0 for stat in stats.values())
    sums["functions not exact"] += len(losing)
    same(f"{name}: nothing is lost", (after[2], before[2]), (0, 0))
    check(f"{name}: each instruction is counted as its block is", not wrong,
          f"{len(wrong)} of {len(places)}: address, offset, function, blocks, places at least, at most, natively too: {wrong[:8]}")


NAMES = None


def sweep(seed, seconds, number):
    global NAMES
    chooser = random.Random(int(seed))
    load = Load()
    native = load.turn()
    same("the load's results are always the same", load.turn(), native)
    NAMES = names = Names()
    kinds = dict(zip((True, False), reached(load, names)))
    figure("functions reached", f"{len(kinds[True])} with a door, {len(kinds[False])} without")
    sums = {True: Sums(), False: Sums()}
    for starts in kinds.values():
        chooser.shuffle(starts)
    batches = 0
    end = time.monotonic() + int(seconds)
    while time.monotonic() < end and any(kinds.values()) and sum(one["instructions"] for one in sums.values()) < int(number):
        has_door = bool(kinds[True]) and (batches % 3 != 1 or not kinds[False])
        own = batches % 4 != 2
        OWN.write_text("0" if own else "4294967295")
        # Without a door every second batch has them; the first has none.
        jumps = batches % 2 == 0
        JUMPS.write_text("Y" if jumps else "N")
        size = BATCH[own] if has_door else 300
        some = kinds[has_door][:size // 30]
        found = {start: all for start, all in instructions(some).items() if len(all) <= LARGEST}
        chosen = {}
        for start, all in found.items():
            if sum(map(len, chosen.values())) + len(all) <= size:
                chosen[start] = all
        kinds[has_door] = kinds[has_door][len(some):] + [start for start in found if start not in chosen]
        ways_in = "doors" if has_door else "jumps" if jumps else "no door"
        name = f"seed {seed}, batch {batches}, {'own breakpoints' if own else 'kprobes'}, {ways_in}"
        compare(name, chosen, load, native, has_door, sums[has_door], jumps)
        batches += 1
    for has_door, one in sums.items():
        figure(f"swept, {'with' if has_door else 'without'} a door", dict(one))
    check("instructions had a counter", sums[True]["exact"] > 100, sums)
    same("the module has nothing to say", complaints(), [])


main(sweep)
