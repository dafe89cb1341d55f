# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions as targets under other names, against what the kernel itself counts.

usage: kinds.py CALLS32

CALLS32 is the program calls32.
"""

import fcntl
import re
import socket
import struct
from pathlib import Path

from lib import check, figure, interrupt, main, report, run, same, session

N = 300


def counted(*words, what="call"):
    """The report of a session around a command."""
    end = run("jifl", "count", what, *words[:words.index("--")], "-f", "json", *words[words.index("--"):])
    check(f"count {what} {' '.join(words[:2])}", end.returncode == 0, end)
    return report(end.stdout)["by_name"]


def listed(kind):
    """The targets of a kind and their functions, as `jifl list` shows them."""
    end = run("jifl", "list", kind)
    check(f"list {kind}", end.returncode == 0, end)
    rows = [line.split() for line in end.stdout.splitlines()[1:]]
    return {row[0]: row[1] for row in rows if len(row) > 1}


def memory(address, size):
    """Bytes of the kernel's memory."""
    with open("/proc/kcore", "rb") as core:
        head = core.read(1 << 16)
        table, entries = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
        for index in range(entries):
            kind, _, offset, start, _, length = struct.unpack_from("<IIQQQQ", head, table + 56 * index)
            if kind == 1 and start <= address and address + size <= start + length:
                core.seek(offset + address - start)
                return core.read(size)
    raise ValueError(f"no memory at {address:#x}")


def branches(name):
    """Where the direct calls and jumps in the machine code of a function may go. Other bytes may look like one."""
    symbols = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines()]
    starts = {words[2]: int(words[0], 16) for words in symbols if len(words) == 3 and words[1] in "tTwW"}
    start = starts[name]
    end = min(address for address in starts.values() if address > start)
    code = memory(start, end - start)
    found = set()
    for at in range(len(code) - 6):
        for opcode in (0xE8, 0xE9):
            if code[at] == opcode:
                found.add(start + at + 5 + struct.unpack_from("<i", code, at + 1)[0])
        if code[at] == 0x0F and code[at + 1] & 0xF0 == 0x80:
            found.add(start + at + 6 + struct.unpack_from("<i", code, at + 2)[0])
    return starts, found


def table_of_calls():
    """Each call's function is one that the kernel's own table of these calls leads to."""
    targets = listed("sys32:")
    starts, found = branches("ia32_sys_call")
    check("most calls are there", len(targets) > 380, len(targets))
    wrong = {target: function for target, function in targets.items() if starts.get(function) not in found}
    same("calls that ia32_sys_call does not lead to", wrong, {})
    same("the function of open", targets.get("sys32:open"), "__ia32_compat_sys_open")
    figure("system calls of 32-bit programs", len(targets))


def calls_of_32_bits(program):
    """They count under their own names, and not as calls of 64-bit programs."""
    got = counted("sys32:read", "sys:read", "--", program, N)
    same("sys32:read", got.get("sys32:read", {}).get("calls"), N)
    check("sys:read has none of them", "read" not in got, got.keys())
    got = counted("sys32:*", "--", program, N)
    same("sys32:read among all", got.get("sys32:read", {}).get("calls"), N)
    got = counted("sys32:3", "--", program, N, what="insn")["sys32:read"]
    same("each as its function", (got["calls"], got["min"] > 10, got["missed"]), (N, True, 0))
    end = run("jifl", "trace", "sys32:read", "--", program, 2)
    same("trace", len(re.findall(r"^\[\d+\] sys32:read = -EBADF", end.stdout, re.M)), 2)
    end = run("jifl", "why", "-x", "EBADF", "sys32:read", "--", program, 2)
    check("why", end.returncode == 0 and "decided here" in end.stdout, end)


def softirqs():
    """How often each has run, as the kernel counts them."""
    lines = Path("/proc/softirqs").read_text().splitlines()[1:]
    words = (line.split() for line in lines)
    return {name.rstrip(":"): sum(map(int, counts)) for name, *counts in words}


def up(interface):
    """Switches a network interface on."""
    request = struct.pack("<16sH14x", interface.encode(), 0x1 | 0x40)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, 0x8914, request)


def packets(number):
    """Sends so many over the loopback, one after the other. Each is received in a softirq."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        for _ in range(number):
            other.sendto(b"x", one.getsockname())
            one.recv(1)


def softirq_counts():
    """NET_RX runs for nothing but this machine's own packets. TIMER runs all the time."""
    up("lo")
    before = softirqs()
    owner = session("call", "softirq:net_rx", "softirq:TIMER", "-f", "json")
    began = softirqs()
    packets(N)
    ends = softirqs()
    out, err = interrupt(owner)
    after = softirqs()
    same("exit status", owner.returncode, 0)
    got = report(out)["by_name"]
    seen = {name: got.get(f"softirq:{name}", {}).get("calls", 0) for name in ("NET_RX", "TIMER")}
    made = after["NET_RX"] - before["NET_RX"]
    check("softirqs were made", made >= N, made)
    same("softirq:NET_RX", seen["NET_RX"], made)
    least, most = ends["TIMER"] - began["TIMER"], after["TIMER"] - before["TIMER"]
    check("softirq:TIMER", least <= seen["TIMER"] <= most, (least, seen, most))
    same("missed", [target["missed"] for target in got.values()], [0] * len(got))


def all_softirqs():
    """Each softirq that the kernel has is a target; several are one session."""
    targets = listed("softirq:")
    same("all of them", {f"softirq:{name}" for name in softirqs()} >= set(targets), True)
    check("most have a function", len(targets) >= 8, targets)
    before = softirqs()
    owner = session("insn", "softirq:*", "-f", "json")
    packets(N)
    out, err = interrupt(owner)
    after = softirqs()
    got = report(out)["by_name"]
    same("exit status", owner.returncode, 0)
    same("NET_RX among all", got["softirq:NET_RX"]["calls"], after["NET_RX"] - before["NET_RX"])
    many = {name: target for name, target in got.items() if not name.startswith("softirq:")}
    same("names", many, {})


def refusals():
    """Each in one line, with what may be meant."""
    for word, hint in (("sys32:raed", "the nearest are sys32:read"), ("softirq:NETRX", "softirq:NET_RX"),
                       ("softirq:x*", "matches no softirq"), ("sys32:zzzz", "jifl list sys32:")):
        end = run("jifl", "count", "call", word, "--", "true")
        check(f"refused: {word}", (end.returncode, end.stderr.count("\n")) == (2, 1) and hint in end.stderr, end)


def run_all(program):
    table_of_calls()
    calls_of_32_bits(program)
    softirq_counts()
    all_softirqs()
    refusals()


main(run_all)
