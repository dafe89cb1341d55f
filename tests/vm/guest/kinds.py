# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions as targets under other names, and some calls of functions.

They are compared with what the kernel itself counts.

usage: kinds.py CALLS32

CALLS32 is the program calls32.
"""

import fcntl
import re
import socket
import struct
from pathlib import Path

from detach import stacks
from kcore import kernel_memory
from lib import (Device, background, check, figure, interrupt, main, module_file, report, run, same, session,
                 wait_for)

N = 300

# Of the module jifl_contexts: calls, the first argument of the first, and calls of each work item.
MODULE = f"{Path(module_file()).parent}/jifl_contexts.ko"
FILE = Path("/proc/jifl_contexts")
STROLLING = Path("/sys/module/jifl_contexts/parameters/strolling")
WORKS, SEED, FIRE = 100, 0x1234567812345678, 10
CALL, INSN = 1, 2


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
    return {row[0]: row[2] for row in rows}


def branches(name):
    """Where direct calls and jumps of a function may go. Other bytes may look like one."""
    symbols = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines()]
    starts = {words[2]: int(words[0], 16) for words in symbols if len(words) == 3 and words[1] in "tTwW"}
    start = starts[name]
    end = min(address for address in starts.values() if address > start)
    code = kernel_memory([(start, end - start)])[0]
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
    got = counted("sys32:getpid", "sys:getpid", "--", program, N)
    same("one function for both", [got.get(name, {}).get("calls") for name in ("sys32:getpid", "getpid")], [N, 2 * N + 1])
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


def interrupts():
    """How often each interrupt of a device came, as the kernel counts them."""
    lines = Path("/proc/interrupts").read_text().splitlines()
    cpus = len(lines[0].split())
    words = (line.split() for line in lines[1:])
    return {int(nr[:-1]): sum(map(int, counts[:cpus])) for nr, *counts in words if nr[:-1].isdigit()}


def traffic():
    """Interrupts of devices: this tree's files come through one, the console through another."""
    for _ in range(20):
        run("dd", f"if={__file__}", "of=/dev/null", "iflag=direct", "status=none")
        Path("/dev/console").write_text(".")
    Path("/dev/console").write_text("\n")


def interrupt_counts():
    """Each is counted alone, also where one function handles several."""
    targets = listed("irq:")
    same("all that have handlers are listed", [bool(re.fullmatch(r"irq:\S.*", name)) for name in targets],
         [True] * len(targets))
    before = interrupts()
    traffic()
    busy = {nr for nr, count in interrupts().items() if count > before[nr] + 5}
    check("there are busy interrupts", busy, before)
    for nr in sorted(busy):
        before = interrupts()
        owner = session("call", f"irq:{nr}", "-f", "json")
        began = interrupts()
        traffic()
        ends = interrupts()
        out, err = interrupt(owner)
        after = interrupts()
        same(f"irq:{nr}: exit status", owner.returncode, 0)
        got = report(out)["by_name"].get(f"irq:{nr}", {"calls": 0, "missed": 0})
        least, most = ends[nr] - began[nr], after[nr] - before[nr]
        check(f"irq:{nr}", 0 < least <= got["calls"] <= most and not got["missed"], (least, got, most))
        figure(f"irq:{nr}: least, counted, most", (least, got["calls"], most))


def all_interrupts():
    """All of them are one session; those with one handler are one target."""
    before = interrupts()
    owner = session("call", "irq:*", "-f", "json")
    traffic()
    out, err = interrupt(owner)
    after = interrupts()
    same("irq:*: exit status", owner.returncode, 0)
    rows = report(out)["by_name"]
    check("irq:*: names", rows and all(re.fullmatch(r"irq:\S+", name) for name in rows), rows.keys())
    most = sum(after.values()) - sum(before.values())
    check("irq:*: calls", 0 < sum(row["calls"] for row in rows.values()) <= most, (rows, most))


def of_module():
    """Where the module's functions are: from where to where."""
    lines = [line.split() for line in Path("/proc/kallsyms").read_text().splitlines() if "[jifl_contexts]" in line]
    at = {words[2]: int(words[0], 16) for words in lines if words[1] in "tT" and not words[2].startswith("__pfx")}
    order = sorted({*at.values(), max(at.values()) + 4096})
    return {name: (start, order[order.index(start) + 1]) for name, start in at.items()}


def called(context, n=WORKS):
    FILE.write_text("reset 0")
    FILE.write_text(f"{context} {n}")


def seen(device, index=0):
    """Calls that were counted, and missed."""
    return struct.unpack_from("<8xQ32xQ", device.stat_of(index))


def conditions(functions):
    """Calls that are meant are counted, and no others: at the door, and inside the cache."""
    work, own = functions["work"], functions["contexts_work"]
    cases = [("one value", (), [SEED + 1], 1), ("three values", (), [SEED + 1, SEED + 7, 3], 2),
             ("a caller", [work], (), WORKS), ("another caller", [own], (), 0),
             ("one of two callers", [own, work], (), WORKS), ("caller and value", [work], [SEED], 1),
             ("value and another caller", [own], [SEED], 0)]
    for name, callers, values, want in cases:
        condition = [Device.condition(callers, values)]
        target = Device.function(own[0], "contexts_work", condition=1)
        for kind in (CALL, INSN):
            with Device() as device:
                device.start_of(kind, [target], conditions=condition)
                called("task")
                device.stop()
                same(f"{name}: at the door, kind {kind}", seen(device), (want, 0))
        outer = Device.function(functions["contexts_write"][0], "contexts_write")
        with Device() as device:
            device.start_of(CALL, [outer, target], conditions=condition)
            called("task")
            device.stop()
            same(f"{name}: inside the cache", [seen(device, 0)[0], seen(device, 1)], [2, (want, 0)])
        with Device() as device, Device() as other:
            device.start_of(INSN, [outer])
            other.start_of(CALL, [target], conditions=condition)
            called("task")
            other.stop()
            device.stop()
            same(f"{name}: in another's code", seen(other), (want, 0))


def bad_conditions(functions):
    """Each is refused."""
    at = functions["contexts_work"][0]
    many = struct.pack("<II", 9, 0) + Device.condition()[8:]
    for name, number, listed_ in (("none of that number", 2, [Device.condition(values=[1])]), ("no list", 1, []),
                                  ("an empty one", 1, [Device.condition()]), ("too many callers", 1, [many])):
        with Device() as device:
            try:
                device.start_of(CALL, [Device.function(at, condition=number)], conditions=listed_)
                check(f"refused: {name}", False)
            except OSError as error:
                same(f"refused: {name}", error.errno, 22)


def put_off():
    """Work items and timers are counted when they run as such."""
    for word, context, want in (("work:work_item@jifl_contexts", "work", WORKS // FIRE),
                                ("timer:timer_function", "timer", WORKS // FIRE),
                                ("timer:hrtimer_function", "hrtimer", WORKS // FIRE),
                                ("work:contexts_work", "work", 0), ("timer:contexts_work", "timer", 0),
                                ("timer:work_item", "work", 0), ("work:contexts_work", "task", 0)):
        owner = session("call", word, "-f", "json")
        called(context)
        out, err = interrupt(owner)
        same(f"{word} {context}: exit status", owner.returncode, 0)
        rows = report(out)["by_name"]
        name = word if "@" in word else f"{word}@jifl_contexts"
        same(f"{word} {context}", {key: (row["calls"], row["missed"]) for key, row in rows.items()},
             {name: (want, 0)} if want else {})


def put_off_before():
    """Of two calls that are going on when a session starts, the work item's is taken over."""
    for word, want in (("work:contexts_stroll", 1), ("fn:contexts_stroll", 2)):
        FILE.write_text("reset 10")
        STROLLING.write_text("Y")
        process = background("sh", "-c", f"echo stroll {FIRE} > {FILE}")
        wait_for("both calls", lambda: sum("contexts_stroll" in stack for stack in stacks()) == 2)
        owner = session("insn", word, "-f", "json")
        STROLLING.write_text("N")
        process.communicate()
        same(f"{word}: the calls end", process.returncode, 0)
        out, err = interrupt(owner)
        same(f"{word}: exit status", owner.returncode, 0)
        data = report(out)
        same(f"{word}: adopted, and left alone", (data["adoption"]["tasks"], data["adoption"]["left"]), (want, {}))
        same(f"{word}: its rows", [(row["calls"], row["missed"], row["adopted"]) for row in data["targets"]],
             [(0, 0, want)])
        check(f"{word}: what they executed is counted", data["targets"][0]["adopted_sum"] > 1000, data["targets"])
        check(f"{word}: the calls have the right results",
              re.search(r"^stroll (.*)", FILE.read_text(), re.M)[1].split()[-1] == "0", FILE.read_text())


def refusals():
    """Each in one line, with what may be meant."""
    for word, hint in (("sys32:raed", "the nearest are sys32:read"), ("softirq:NETRX", "softirq:NET_RX"),
                       ("irq:9999", "no such interrupt of a device"), ("work:vmstat*", "name one function"),
                       ("softirq:x*", "matches no softirq"), ("sys32:zzzz", "jifl list sys32:")):
        end = run("jifl", "count", "call", word, "--", "true")
        check(f"refused: {word}", (end.returncode, end.stderr.count("\n")) == (2, 1) and hint in end.stderr, end)


def run_all(program):
    table_of_calls()
    calls_of_32_bits(program)
    softirq_counts()
    all_softirqs()
    interrupt_counts()
    all_interrupts()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    functions = of_module()
    conditions(functions)
    bad_conditions(functions)
    put_off()
    put_off_before()
    refusals()


if __name__ == "__main__":
    main(run_all)
