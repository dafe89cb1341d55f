# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often each block was executed, compared with instruction counts of the same calls, with the
flow from block to block, and with the kernel's own kprobes; and what `jifl cover`, `prof` and
`branch` show of these counts.

usage: blocks.py SOAK

SOAK: 0 for the short share; otherwise programs are run, with all of their system calls.
"""

import contextlib
import errno
import json
import os
import re
import struct
from bisect import bisect_right
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path

from lib import NO_BRANCH, Device, check, figure, main, reload, run, same, state_of, status, wait_for

INSN, PROFILE, BRANCHES = 2, 6, 1 << 4
TGID, CHILDREN = 1 << 1, 1 << 4
GETPPID = 110
TRACING = Path("/sys/kernel/tracing")
# Of a kernel stack, at a multiple of it.
STACK = 1 << (15 if "debug" in os.uname().release else 14)
TIMES = 40
# Numbers of system calls, and how Python makes one.
CALLS = {
    79: lambda: os.getcwd(),
    95: lambda: os.umask(18),
    21: lambda: os.access("/etc/passwd", 4),
    121: lambda: os.getpgid(0),
    63: lambda: os.uname(),
    89: lambda: os.readlink("/proc/self/exe"),
    110: lambda: os.getppid(),
}
FEW = (21, 110)
SHELLS = "for i in 1 2 3 4; do (for k in 1 2 3; do cat /etc/passwd | sort | wc -c; done) & done; wait"


def make_calls(times=TIMES, numbers=tuple(CALLS)):
    for nr in numbers:
        for _ in range(times):
            CALLS[nr]()


def instructions(counts):
    return sum(count.executed * count.insns for count in counts)


def profiled(work, numbers, flags=BRANCHES):
    """Counts of what this process does in work()."""
    with Device() as device:
        device.start(PROFILE, numbers, filters=TGID, tgid=os.getpid(), flags=flags)
        work()
        device.stop()
        return device.counts()[0]


@lru_cache
def functions():
    """Names of the kernel's functions by their addresses."""
    found = re.findall(r"^(\w+) [tTwW] (\S+)", Path("/proc/kallsyms").read_text(), re.M)
    return {int(address, 16): name for address, name in found}


# --- instructions -------------------------------------------------------------------------


def totals(device, numbers):
    """Of a session: calls, sum and missed of all of these that the kernel has."""
    found = [0, 0, 0]
    for nr in numbers:
        with contextlib.suppress(FileNotFoundError):
            stat = device.stat(nr, "<8xQ8xQ16xQ")
            found = [a + b for a, b in zip(found, stat)]
    return found


def both(name, work, numbers, **filters):
    """Two sessions see the same calls."""
    with Device() as insn, Device() as profile:
        insn.start(INSN, numbers, **filters)
        profile.start(PROFILE, numbers, flags=BRANCHES, **filters)
        work()
        profile.stop()
        insn.stop()
        calls, executed, missed = totals(insn, numbers)
        same(f"{name}: calls, none missed", totals(profile, numbers), [calls, 0, missed])
        counts, refused = profile.counts()
        same(f"{name}: missed, refused", (missed, refused), (0, 0))
        same(f"{name}: as many instructions as are counted", instructions(counts), executed)
        check(f"{name}: no branch is taken more often than its block runs",
              all(count.taken <= count.executed for count in counts))
        figure(f"instructions counted by blocks and at once, {name}", f"{executed} in {calls} calls")


def parallel(name, child, numbers):
    """What child() does, in a process that waits for a byte before it begins."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.read(r, 1)
        child()
        os._exit(0)
    # One of the two sessions would see more of what it does until then.
    wait_for("read", lambda: state_of(pid) == "S")

    def work():
        os.write(w, b"x")
        same(f"{name}: they end well", os.waitpid(pid, 0)[1], 0)

    both(name, work, numbers, filters=TGID | CHILDREN, tgid=pid)


def two_processes():
    """Both add to the same counters at the same time, some of them often.

    Each is on a processor of its own if there are two.
    """
    pid = os.fork()
    os.sched_setaffinity(0, {os.cpu_count() - 1 if pid else 0})
    make_calls(50)
    for _ in range(100):
        os.access("/usr/.." * 500, os.F_OK)
    if pid:
        os.waitpid(pid, 0)


def shells():
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    os.execv("/bin/sh", ["sh", "-c", SHELLS])


# --- flow ------------------------------------------------------------------------------------


def shown_blocks(session):
    """What `jifl dump` has of a session, by address.

    That is the end of the block, and its last instruction's text and bytes.
    """
    dump = json.loads(run("jifl", "dump", "--session", session, "-f", "json").stdout)
    blocks = {}
    for block in dump["blocks"]:
        if {"entry", "native", "dead"} & set(block["flags"]):
            continue
        last = [segment for segment in block["segments"] if segment["kind"] == "original"][-1]
        src = bytes.fromhex(block["src"])
        blocks[int(block["orig"], 16)] = (int(block["orig"], 16) + len(src), last["original"], src[-last["src_len"]:])
    return blocks


def ways_on(count, end, text, code):
    """Where a block goes on, and how often: (address, times). Returns lead to behind calls."""
    code = code.lstrip(b"\x2e\x3e\xf2")
    if count.branch != NO_BRANCH:
        return [(count.target, count.taken), (end, count.executed - count.taken)]
    if text.startswith("jmp") and code[0] in (0xeb, 0xe9):
        return [(end + int.from_bytes(code[1:], "little", signed=True), count.executed)]
    if re.match("jmp|ret|ud2|int3", text):
        return []
    return [(end, count.executed)]


def flow():
    """What goes into a block comes out. Into a function's beginning come calls that nobody sees."""
    with Device() as device:
        device.start(PROFILE, FEW, filters=TGID, tgid=os.getpid(), flags=BRANCHES)
        make_calls(numbers=FEW)
        session = status()["sessions"][0]["id"]
        shown = shown_blocks(session)
        device.stop()
        counts = device.counts()[0]
    names = functions()
    found = {count.orig: count for count in counts}
    same("no block has two counters", len(found), len(counts))
    same("the cache has the blocks that have counters", set(shown) ^ set(found), set())
    into = Counter()
    for count in counts:
        for address, times in ways_on(count, *shown[count.orig]):
            into[address] += times
    seen = [count for count in counts if count.orig not in names]
    wrong = [(hex(count.orig), count.executed, into[count.orig]) for count in seen
             if into[count.orig] != count.executed]
    check("what goes into a block is executed", not wrong, (len(wrong), wrong[:5]))
    branches = [count for count in counts if count.branch != NO_BRANCH and count.executed]
    both_ways = sum(0 < count.taken < count.executed for count in branches)
    check("branches go one way, the other, and both", len(branches) > 100 and both_ways > 3
          and any(count.taken == count.executed for count in branches) and any(not count.taken for count in branches),
          (len(branches), both_ways))
    figure("blocks whose flow is right, of these executed", f"{len(seen)}, {sum(c.executed > 0 for c in seen)}")
    figure("branches executed, both ways", f"{len(branches)}, {both_ways}")


# --- kprobes ------------------------------------------------------------------------------------


def own_file_work():
    """What this program does to switch tracing on and off."""
    (TRACING / "tracing_on").write_text("1")
    (TRACING / "tracing_on").write_text("0")


def sample(names):
    """Blocks that are executed equally often each time, of functions that only the calls reach."""
    run("mount", "-t", "tracefs", "none", TRACING)
    starts = sorted(names)

    def function(address):
        return starts[bisect_right(starts, address) - 1]

    first, second = (profiled(make_calls, CALLS) for _ in range(2))
    others = {function(count.orig) for count in profiled(own_file_work, range(512)) if count.executed}
    again = {count.orig: count.executed for count in second}
    blacklist = []
    for line in Path("/sys/kernel/debug/kprobes/blacklist").read_text().splitlines():
        low, high = line.split()[0].split("-")
        blacklist.append((int(low, 16), int(high, 16)))
    good = [count for count in first if count.executed and count.orig not in names
            and count.executed == again.get(count.orig) and function(count.orig) not in others
            and not any(low <= count.orig < high for low, high in blacklist)]
    return good[::max(1, len(good) // 50)][:50], len(good)


def probe(name, address, arguments=""):
    """Whether the kernel lets one be; it does not where its text may be patched."""
    # Not open(): that seeks, which cannot be done there.
    events = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(events, f"p:blocks/{name} {address:#x}{arguments}\n".encode())
    except OSError as e:
        check("it refuses by EINVAL", e.errno == errno.EINVAL, e)
        return False
    finally:
        os.close(events)
    return True


def traced_calls():
    """How often this process comes to each probe, by its number, in the same calls, natively."""
    (TRACING / "trace").write_text("")
    (TRACING / "tracing_on").write_text("1")
    make_calls()
    (TRACING / "tracing_on").write_text("0")
    lines = (TRACING / "trace").read_text().splitlines()
    found = [(int(match[1]), int(match[2], 16) // STACK) for match in
             (re.search(r" b(\d+): \(.* sp=0x(\w+)$", line) for line in lines) if match]
    own = Counter(stack for _, stack in found).most_common(1)[0][0]
    # Interrupts, which may do the same, have another.
    return Counter(number for number, stack in found if stack == own)


def hits(addresses):
    """That for each address; None where no probe can be, or chance decides: an allocator's way."""
    (TRACING / "buffer_size_kb").write_text("4096")
    (TRACING / "tracing_on").write_text("0")
    (TRACING / "set_event_pid").write_text(str(os.getpid()))
    probed = [probe(f"b{number}", address, " sp=%sp") for number, address in enumerate(addresses)]
    (TRACING / "events/blocks/enable").write_text("1")
    first, second, third = (traced_calls() for _ in range(3))
    (TRACING / "events/blocks/enable").write_text("0")
    (TRACING / "kprobe_events").write_text("")
    return [first[number] if there and first[number] == second[number] == third[number] else None
            for number, there in enumerate(probed)]


def kprobes():
    run("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    os.sched_setaffinity(0, {0})
    chosen, of = sample(functions())
    seen = hits([count.orig for count in chosen])
    os.sched_setaffinity(0, set(range(os.cpu_count())))
    pairs = [(count, n) for count, n in zip(chosen, seen) if n is not None]
    check("there are blocks to probe", len(pairs) >= 25, (len(pairs), of))
    wrong = [(hex(count.orig), count.executed, n) for count, n in pairs if count.executed != n]
    same("kprobes are hit as often as blocks are counted", wrong, [])
    figure("blocks compared with kprobes, executions", f"{len(pairs)} of {of}, {sum(n for _, n in pairs)}")


# --- what counts must survive -------------------------------------------------------------------


def changed_text():
    """A copy that is dropped and made again counts on."""
    names = {name: address for address, name in functions().items()}
    entry = names["__x64_sys_getppid"]
    with Device() as device:
        device.start(PROFILE, [GETPPID], filters=TGID, tgid=os.getpid())

        def executed():
            counts = device.counts()[0]
            return sum(count.executed for count in counts if count.orig == entry), len(counts)

        for _ in range(100):
            os.getppid()
        before, blocks = executed()
        invalidated = status()["invalidated"]
        # Behind endbr64, where there is one, the place for tracers and a push.
        same("a probe is there", probe("again", entry + (5 if os.uname().release.startswith("6.1.") else 9)), True)
        (TRACING / "events/blocks/enable").write_text("1")
        os.getppid()
        (TRACING / "events/blocks/enable").write_text("0")
        (TRACING / "kprobe_events").write_text("")
        check("the block was dropped", status()["invalidated"] > invalidated)
        between = executed()[0]
        for _ in range(100):
            os.getppid()
        after, blocks_after = executed()
        same("it counts on where it was", (before, after - between), (100, 100))
        check("nearly all blocks are the same", blocks_after <= blocks + 4, (blocks, blocks_after))


def flushes():
    """The cache is emptied under a session; the counts stay."""
    with Device() as device:
        device.start(PROFILE, [GETPPID], filters=TGID, tgid=os.getpid())
        names = {name: address for address, name in functions().items()}
        last = 0
        for _ in range(40):
            for _ in range(50):
                os.getppid()
            run("jifl", "count", "insn", "sys:*", "--", "ls", "-l", "/proc/self")
            counts = {count.orig: count.executed for count in device.counts()[0]}
            now = counts.get(names["__x64_sys_getppid"], 0)
            if now < last:
                break
            last = now
            if status()["flushes"]:
                break
        calls, _, missed = totals(device, [GETPPID])
        check("the cache was emptied", status()["flushes"] > 0, status())
        check("what was counted before is still there", now >= last and calls <= now <= calls + missed,
              (now, last, calls, missed))
        figure("flushes under a session", f"{status()['flushes']}, {calls} calls, {missed} missed")


def few_counters():
    with Device() as device:
        device.start(PROFILE, CALLS, filters=TGID, tgid=os.getpid())
        make_calls(2)
        counts, refused = device.counts()
    same("as many blocks are counted as there is room for", len(counts), 64)
    check("the others are told", refused > 100, refused)
    end = run("jifl", "prof", "sys:getcwd", "--", "/bin/pwd")
    check("jifl prof says so", end.returncode == 0 and "found no counter" in end.stderr
          and not end.stdout.endswith("# blocks without a counter 0\n"), end)
    reload("cache_kb=512", "side_kb=512")
    flushes()


# --- the commands -------------------------------------------------------------------------------


def commands():
    program = ["--", "/bin/pwd"]
    end = run("jifl", "cover", "sys:getcwd", "-f", "json", "-o", "/run/cover", "--drcov", "/run/drcov", "--lcov",
              "/run/lcov", *program)
    check("jifl cover ends well", end.returncode == 0 and "--vmlinux" in end.stderr, end)
    cover = json.loads(Path("/run/cover").read_text())
    by_name = {function["function"]: function for function in cover["functions"]}
    same("the handler was called once", by_name["__x64_sys_getcwd"]["calls"], 1)
    check("shares are shares", all(0 < f["blocks_executed"] <= f["blocks"] and 0 < f["bytes_executed"] <= f["size"]
                                   for f in cover["functions"]), cover["functions"])
    raw = Path("/run/drcov").read_bytes()
    head, _, rest = raw.partition(b" bbs\n")
    said = int(head.rpartition(b" ")[2])
    bases = [int(match, 16) for match in re.findall(rb"^ +\d+, (0x\w+), 0x", head, re.M)]
    entries = list(struct.iter_unpack("<IHH", rest))
    same("drcov: as many blocks as it says", len(entries), said)
    same("drcov: the blocks of the functions", sum(f["blocks_executed"] for f in cover["functions"]), said)
    within = defaultdict(int)
    for offset, _, module in entries:
        address = bases[module] + offset
        for function in cover["functions"]:
            start = int(function["address"], 16)
            if start <= address < start + function["size"]:
                within[function["function"]] += 1
    same("drcov: each in its function", dict(within),
         {f["function"]: f["blocks_executed"] for f in cover["functions"]})
    lcov = Path("/run/lcov").read_text()
    same("lcov: functions reached", sum(map(int, re.findall(r"^FNH:(\d+)", lcov, re.M))), len(cover["functions"]))

    end = run("jifl", "prof", "sys:getcwd", "-f", "json", "-o", "/run/prof", "--folded", "/run/folded", *program)
    prof = json.loads(Path("/run/prof").read_text())
    same("jifl prof: instructions of functions", sum(f["instructions"] for f in prof["functions"]),
         prof["instructions"])
    same("jifl prof: instructions of blocks", sum(b["instructions"] for b in prof["blocks"]), prof["instructions"])
    same("jifl prof: folded", sum(int(line.split()[1]) for line in Path("/run/folded").read_text().splitlines()),
         prof["instructions"])

    end = run("jifl", "branch", "sys:getcwd", "-f", "json", "-o", "/run/branch", *program)
    branches = json.loads(Path("/run/branch").read_text())["branches"]
    check("jifl branch: taken and not taken are all", branches and all(
        b["taken"] + b["not_taken"] == b["executed"] > 0 for b in branches), end)
    check("jifl branch: the most executed first",
          all(a["executed"] >= b["executed"] for a, b in zip(branches, branches[1:])))
    end = run("jifl", "branch", "--hints", "sys:read", "sys:write", "--", "sh", "-c", "dd if=/dev/zero of=/dev/null bs=1 count=500")
    check("jifl branch --hints has verdicts", end.returncode == 0 and "falls through rarely" in end.stdout, end.stderr)


def program(soak):
    os.sched_setaffinity(0, {0})
    both("calls alone", make_calls, list(CALLS), filters=TGID, tgid=os.getpid())
    os.sched_setaffinity(0, set(range(os.cpu_count())))
    parallel("two processes", two_processes, list(CALLS))
    if soak != "0":
        parallel("shells", shells, range(512))
    flow()
    kprobes()
    changed_text()
    commands()
    same("no session is left", status()["sessions"], [])
    reload("profile_blocks=64")
    few_counters()


main(program)
