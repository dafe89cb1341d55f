# SPDX-License-Identifier: MIT OR Apache-2.0
"""Network, block and timer load while all softirqs, and what interrupts call, run instrumented: what arrives is whole.

usage: traffic.py

The network is a veth pair whose ends are in two namespaces. The block device is null_blk, which keeps what is
written, and completes requests in hard interrupts of a timer, or at once.
"""

import ctypes
import fcntl
import hashlib
import mmap
import os
import random
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from kinds import softirqs
from lib import (all_sites_patched, background, check, ends_clean, figure, interrupt, log_mark, main, report, run, same,
                 session, status)

NEWNET, NEWLINK, NET_NS_PID = 0x40000000, 16, 19    # sched.h, rtnetlink.h, if_link.h
OURS, THEIRS, PORT = "10.9.0.1", "10.9.0.2", 7
BYTES = 8 << 20
DATA = random.Random(1).randbytes(1 << 16)
DEVICE = "/dev/nullb0"
# All softirqs, and what hard interrupts of timers and of other processors call.
TARGETS = ["softirq:*", "fn:hrtimer_interrupt", "fn:irq_work_run", "fn:generic_smp_call_function_single_interrupt"]
# All functions of the kernel, each without what it calls.
ALL = ["fn:*", "--only", "--yes"]
FUNCTIONS = {"NET_RX": "net_rx_action", "TIMER": "run_timer_softirq"}


def attribute(kind, data):
    return struct.pack("<HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def netlink(message, flags, body):
    """A request of rtnetlink(7), which answers 0."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as one:
        one.send(struct.pack("<IHHII", 16 + len(body), message, flags | 5, 1, 0) + body)
        error, = struct.unpack_from("<i", one.recv(4096), 16)
    if error:
        raise OSError(-error, "netlink")


def veth(pid):
    """A pair of interfaces, jifl0 and jifl1: the second in the network namespace of a process."""
    there = struct.pack("<BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"jifl1\0") + attribute(NET_NS_PID, struct.pack("<I", pid))
    info = attribute(1, b"veth\0") + attribute(2, attribute(1, there))
    # Create it, and it must not be there: NLM_F_CREATE, NLM_F_EXCL.
    netlink(NEWLINK, 0x600, struct.pack("<BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"jifl0\0") + attribute(18, info))


def up(interface, address):
    """Gives an interface an address in a network of 256, and switches it on: netdevice(7)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for request, value in ((0x8916, address), (0x891c, "255.255.255.0")):
            fcntl.ioctl(one, request, struct.pack("<16sHH4s8x", interface.encode(), socket.AF_INET, 0, socket.inet_aton(value)))
        fcntl.ioctl(one, 0x8914, struct.pack("<16sH14x", interface.encode(), 0x1 | 0x40))


def receive():
    """The other end, in a namespace of its own: says what arrives."""
    if ctypes.CDLL(None).unshare(NEWNET):
        raise OSError("unshare")
    print("apart", flush=True)
    sys.stdin.readline()
    up("jifl1", THEIRS)
    with socket.create_server((THEIRS, PORT)) as server:
        print("listening", flush=True)
        while True:
            one, _ = server.accept()
            sums, got = hashlib.sha256(), 0
            while data := one.recv(1 << 16):
                sums.update(data)
                got += len(data)
            one.close()
            print(got, sums.hexdigest(), flush=True)


class Network:
    """A connection to another namespace."""

    def __init__(self):
        self.other = background("/usr/bin/python3", "-B", __file__, "receive", stdin=-1)
        same("the other end has a namespace", self.other.stdout.readline(), "apart\n")
        veth(self.other.pid)
        up("jifl0", OURS)
        self.other.stdin.write("\n")
        self.other.stdin.flush()
        same("it listens", self.other.stdout.readline(), "listening\n")

    def send(self):
        """Sends; the seconds that it took. What arrived is what was sent."""
        sums, begin = hashlib.sha256(), time.monotonic()
        with socket.create_connection((THEIRS, PORT), timeout=300) as one:
            for at in range(0, BYTES, len(DATA)):
                data = DATA[at % 251:] + DATA[:at % 251]
                sums.update(data)
                one.sendall(data)
        got, digest = self.other.stdout.readline().split()
        same("what arrives", (int(got), digest), (BYTES, sums.hexdigest()))
        return time.monotonic() - begin

    def end(self):
        self.other.kill()
        self.other.communicate()


def written():
    """Writes to the device and reads it again, past the page cache; the seconds that it took."""
    begin = time.monotonic()
    file = os.open(DEVICE, os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, len(DATA))
    sums = []
    for at in range(0, BYTES, len(DATA)):
        page[:] = DATA[at % 251:] + DATA[:at % 251]
        sums.append(hashlib.sha256(page).digest())
        same("written", os.pwritev(file, [page], at), len(DATA))
    for k, at in enumerate(range(0, BYTES, len(DATA))):
        os.preadv(file, [page], at)
        if hashlib.sha256(page).digest() != sums[k]:
            check("what is read is what was written", False, at)
    os.close(file)
    page.close()
    return time.monotonic() - begin


def sleeps():
    """Threads that sleep for a moment again and again; the seconds that it took."""
    begin = time.monotonic()
    threads = [threading.Thread(target=lambda: [time.sleep(0.0005) for _ in range(300)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begin


def traffic(network, name, what=None, targets=TARGETS):
    """Each load once, in a session; the seconds of each."""
    before = softirqs()
    with all_sites_patched():
        owner = session(what, *targets, "-f", "json") if what else None
    began = softirqs()
    took = {"network": network.send(), "block": written(), "timers": sleeps()}
    ended = softirqs()
    if not owner:
        return took
    with all_sites_patched():
        out, err = interrupt(owner)
    after = softirqs()
    same(f"{name}: the session ends well", owner.returncode, 0)
    got = report(out)["by_name"]
    for softirq, function in FUNCTIONS.items():
        target = got.get(f"softirq:{softirq}" if targets is TARGETS else function, {"calls": 0, "missed": 0})
        least, most = ended[softirq] - began[softirq], after[softirq] - before[softirq]
        check(f"{name}: {softirq}", 0 < least <= target["calls"] + target["missed"] <= most, (least, target, most))
        check(f"{name}: {softirq}, missed", not target["missed"], target.get("missed_by"))
    interrupts = got.get("hrtimer_interrupt", {"calls": 0})
    check(f"{name}: interrupts of timers", interrupts["calls"] > 100, interrupts)
    if targets is TARGETS:
        figure(f"{name}: calls", {one: target["calls"] for one, target in got.items()})
    else:
        figure(f"{name}: functions that were called, and calls", (len(got), sum(target["calls"] for target in got.values())))
    return took


def program():
    mark = log_mark()
    same("the modules come", run("modprobe", "-a", "veth").returncode, 0)
    network = Network()
    for irqmode in (1, 2):
        end = run("modprobe", "null_blk", "memory_backed=1", f"irqmode={irqmode}", "completion_nsec=20000", "gb=1", "nr_devices=1")
        same("the block device comes", end.returncode, 0)
        took = {"natively": traffic(network, "natively")}
        for what in ("block", "insn", "call"):
            took[what] = traffic(network, f"{what}, completions of kind {irqmode}", what)
        if irqmode == 2:    # they are in hard interrupts of a timer
            took["all functions"] = traffic(network, "all functions", "call", ALL)
        for load in took["natively"]:
            figure(f"{load}, completions of kind {irqmode}: MB/s" if load != "timers" else "timers: seconds",
                   {name: round(BYTES / 1e6 / seconds[load], 1) if load != "timers" else round(seconds[load], 2)
                    for name, seconds in took.items()})
        same("the block device goes", run("modprobe", "-r", "null_blk").returncode, 0)
    network.end()
    same("no session is left", status()["sessions"], [])
    ends_clean([], mark)


if sys.argv[1:] == ["receive"]:
    receive()
else:
    main(program)
