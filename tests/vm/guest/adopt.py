# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads inside a function when a session starts: they are taken over, counted, and given back.

usage: adopt.py SLEEPERS ROUNDS

ROUNDS: how often sessions come and go above sleepers, under load.
"""

import json
import os
import re
import signal
import struct
import time
from collections import Counter
from pathlib import Path

from churn import start_load, stop_load
from detach import EACH, addresses_of, asleep, file_system, of_system_calls, outermost, stacks, wake
from lib import (SLOWNESS, Device, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, module_file,
                 report, run, same, session, status, wait_for)

TRACING = Path("/sys/kernel/tracing")
OUT = Path("/run/adopted")
ERESTARTSYS = -512
# The functions of system calls, in which sleepers are. 6.1's tracer has another name for one.
CALLS = ["fn:__x64_sys_*", "fn:__x64_sys_pause"]
# Of sessions that come and go by the command.
COMMANDS = 6
OURS = ("-n", "sleepers")
# Of the module jifl_pair; how often the first of its threads goes round its loop.
PAIR, ROUNDS = Path("/proc/jifl_pair"), 100_000
HUNG_TASKS = Path("/proc/sys/kernel/hung_task_timeout_secs")
# What takes a thread of the kernel that is never done. Not each kernel has them all.
THREADS = ["worker_thread", "kswapd", "rcu_gp_kthread", "kthread_worker_fn", "kjournald2"]


def adoption(data):
    """How many tasks were adopted, and the others by why not."""
    return data["adoption"]["tasks"], data["adoption"]["left"]


def inside(comm, function):
    """Of the functions whose name begins so, those that threads of that name are in; how many."""
    others = of_system_calls()
    names = ([others.get(name, name) for name in stack if others.get(name, name).startswith(function)] for stack in stacks(comm))
    return Counter(found[0] for found in names if found)


def all_inside(pids):
    """For each function how many threads have it as the outermost that can be a target: all of them are in one."""
    there = outermost("sleepers")
    check("sleepers of all kinds", len(pids) in (11 * EACH, 12 * EACH), len(pids))
    # Some have a thread or a child that sleeps, too, and so does the one that has started them.
    same("threads that are in a function that can be a target", there.total() - there[None], len(pids) + 2 * EACH + 1)
    return there


def words_of(there):
    return [f"fn:{name}" for name in there]


def ended(owner, name):
    """The report of a session that ends now."""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    check(f"{name}: a report", out, err)
    return report(out)


def every_kind(sleepers):
    """Sleepers in calls of every kind wake in the cache, with the right results."""
    process, pids = asleep(sleepers)
    there = all_inside(pids)
    owner = session("insn", *words_of(there), "--adopt", *OURS, "-f", "json")
    wake("adopted", process, pids)
    data = ended(owner, "adopted")
    same("adopted are those that were inside", adoption(data), (there.total(), {}))
    adopted = {name: one for name, one in data["by_name"].items() if one["adopted"]}
    same("by target, too", {name: one["adopted"] for name, one in adopted.items()}, there)
    figure("adopted", dict(there))
    figure("instructions from then on", {name: one["adopted_sum"] for name, one in adopted.items()})
    for name, one in adopted.items():
        check(f"{name}: what they executed was counted", one["adopted_sum"] > 0, one)


def stops(*words):
    """How often the machine is stopped at the start of a session."""
    def stopped():
        return int(re.search(r"^\s+stop\s+(\d+)", (TRACING / "kprobe_profile").read_text(), re.M)[1])

    before = stopped()
    owner = session("insn", *CALLS, *words, *OURS, "-f", "json")
    found = stopped() - before
    interrupt(owner)
    return found


def one_stop(sleepers):
    """Which copies sleepers need is known before the machine is stopped, so it is stopped once for them."""
    event = TRACING / "events/adopt/stop/enable"
    process, pids = asleep(sleepers)
    (TRACING / "kprobe_events").write_text("p:adopt/stop stop_machine\n")
    event.write_text("1")
    same("stops for adoption", stops("--adopt") - stops("--no-adopt"), 1)
    event.write_text("0")
    (TRACING / "kprobe_events").write_text("")
    wake("one stop", process, pids)


def given_back(sleepers, rounds):
    """Sessions come and go above the same sleepers, by the command, and then under load."""
    # Some of them sleep uninterruptibly, in a frozen file system, until all rounds are over.
    HUNG_TASKS.write_text("0")
    process, pids = asleep(sleepers)
    functions = all_inside(pids)
    there = functions.total()
    for number in range(COMMANDS):
        owner = session("block", *words_of(functions), "--adopt", *OURS, "-f", "json")
        if number == 0:
            other = session("insn", *words_of(functions), "--adopt", *OURS, "-f", "json")
            same("by another session at the same time", adoption(ended(other, "beside")), (0, {"other-session": there}))
        data = ended(owner, "a round")
        if adoption(data) != (there, {}):
            break
    same(f"adopted in the last of {number + 1} rounds", adoption(data), (there, {}))
    same("nothing was missed", data["missed"], 0)
    under_load(functions, rounds)
    wake("given back", process, pids)


def under_load(functions, rounds):
    """The same, as fast as the module can do it, while processes work that come by the same functions."""
    targets = [Device.function(address, name) for name, all_ in addresses_of(functions).items() for address in all_]
    wanted, number, start = (functions.total(), 0), 0, time.monotonic()
    workers = start_load()
    with Device() as device:
        for number in range(1, rounds + 1):
            answer = device.start_of(2 + number % 2, targets, Device.COMM, flags=Device.ADOPT, comm=b"sleepers")
            got = (struct.unpack_from("<I", answer, 96)[0], sum(struct.unpack_from("<8I", answer, 120)))
            device.stop()
            if got != wanted:
                break
    stop_load(workers)
    same(f"adopted, and left alone, in the last of {number} rounds under load", got, wanted)
    figure(f"seconds of {number} rounds under load", round(time.monotonic() - start, 1))


def napping():
    """A process that sleeps on this CPU until it is killed.

    No timer is set: its end would depend on other timers.
    """
    process = background("cat", stdin=-1)
    while inside("cat", "pipe_read").total() != 1:
        time.sleep(0.05)
    return process


def one_nap(*words):
    """A session takes over a task that sleeps, which is woken then: what the session says."""
    process = napping()
    owner = session(words[0], "fn:pipe_read", *words[1:], "--adopt", "-n", "cat", "-f", "json")
    process.terminate()
    process.communicate()
    same(f"{words}: it was woken", process.returncode, -signal.SIGTERM)
    return json.loads(interrupt(owner)[0])


def by_the_door():
    """A task that a session has seen come into its function is inside when the next one starts."""
    first = session("insn", "fn:pipe_read", "-n", "cat", "-f", "json")
    process = napping()
    data = ended(first, "by the door")
    same("by the door: its session missed the call, which had not ended", data["missed"], 1)
    owner = session("insn", "fn:pipe_read", "--adopt", "-n", "cat", "-f", "json")
    process.terminate()
    process.communicate()
    same("by the door: adopted by the next session", adoption(ended(owner, "the next")), (1, {}))


def exact():
    """The same instructions, counted in several ways, on one CPU."""
    os.sched_setaffinity(0, {0})
    whole, alone, rows = [], [], []

    def least():
        """Of all that it executes and of its own body, as counted by call, and by block.

        Where the kernel proves its locks, what it executes for that depends on all locks before.
        """
        body = min(alone), min(row["pipe_read"] for row in rows)
        if SLOWNESS > 1:
            return body
        return (min(whole), body[0]), (min(sum(row.values()) for row in rows), body[1])

    # A task that is to give its CPU up again when it wakes executes more. Each way meets one that
    # is not.
    while len(rows) < 20 and (not rows or len(set(least())) > 1):
        for name, words in {"insn": ["insn"], "alone": ["insn", "--only"], "block": ["block"]}.items():
            data = one_nap(*words)
            same(f"{name}: one was adopted", adoption(data), (1, {}))
            one, = data["targets"]
            same(f"{name}: it is no whole call", (one["calls"], one["missed"], one["adopted"]), (0, 0, 1))
            {"insn": whole, "alone": alone}.get(name, []).append(one["adopted_sum"])
        rows.append({row["func"]: row["instructions"] for row in one_nap("insn", "--by", "func")["rows"]})
    same("instructions by call, and by block", *least())
    figure("instructions", (whole, alone))
    os.sched_setaffinity(0, set(range(os.cpu_count())))


def traced():
    """A task whose return a tracer waits for is left alone, and the tracer sees it return."""
    (TRACING / "kprobe_events").write_text("r:adopt/back pipe_read\n")
    (TRACING / "events/adopt/back/enable").write_text("1")
    (TRACING / "trace").write_text("")
    data = one_nap("insn")
    same("traced: it is left alone", adoption(data), (0, {"traced": 1}))
    hits = [line for line in (TRACING / "trace").read_text().splitlines() if " back: " in line and "cat-" in line]
    same("traced: the tracer saw the return", len(hits), 1)
    (TRACING / "events/adopt/back/enable").write_text("0")
    (TRACING / "kprobe_events").write_text("")


# Reads zeros over marks, some ten thousand pages at a time, until a line comes. Nearly always it is
# in the loop.
READER = """
import select, sys
size, good = 128 << 20, True
pages = bytearray(size)
print("begins", flush=True)
with open("/dev/zero", "rb", buffering=0) as zeros:
    while not select.select([sys.stdin], [], [], 0)[0]:
        pages[::1 << 16] = b"x" * (size >> 16)
        good = good and zeros.readinto(pages) == size and not any(pages[::1 << 16])
print(good)
"""


def loops():
    """A task that never sleeps in its function, and is preempted there."""
    seen = []
    process = background("python3", "-c", READER, stdin=-1)
    same("the loop begins", process.stdout.readline(), "begins\n")
    while not any(tasks for tasks, _ in seen) and len(seen) < 20:
        owner = session("block", "fn:read_zero", "--adopt", "-p", process.pid, "-f", "json")
        data = ended(owner, "a loop")
        seen.append(adoption(data))
    out, _ = process.communicate("stop\n")
    same("a loop: what was read", out, "True\n")
    figure("loops", seen)
    check("a task in a loop is adopted", seen[-1] == (1, {}), seen)
    check("its blocks are counted", data["by_name"]["read_zero"]["adopted_sum"] > 0, data["targets"])


# Reads zeros into memory that has no pages, and gives it some when a line comes (userfaultfd).
FAULTING = """
import ctypes, fcntl, mmap, os, struct, sys, threading
size = 1 << 20
pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
faults = ctypes.CDLL(None).syscall(323, os.O_CLOEXEC)
fcntl.ioctl(faults, 0xc018aa3f, struct.pack("QQQ", 0xaa, 0, 0))
fcntl.ioctl(faults, 0xc020aa00, struct.pack("QQQQ", address, size, 1, 0))
read = []
def reader():
    with open("/dev/zero", "rb", buffering=0) as zeros:
        read.append(zeros.readinto(pages))
thread = threading.Thread(target=reader)
thread.start()
sys.stdin.readline()
fcntl.ioctl(faults, 0xc020aa04, struct.pack("QQQQ", address, size, 0, 0))
thread.join()
print(read == [size], any(pages[:]))
"""


def in_alternatives():
    """A task that sleeps in a fault of an instruction that the kernel has chosen at boot (clear_user)."""
    process = background("python3", "-c", FAULTING, stdin=-1)
    wait_for("the fault", lambda: process.poll() is not None or inside("python3", "handle_userfault").total())
    owner = session("insn", "fn:read_zero", "--adopt", "-p", process.pid, "-f", "json")
    out, _ = process.communicate("go on\n")
    data = ended(owner, "in alternatives")
    same("in alternatives: what was read", out, "True False\n")
    same("in alternatives: it is adopted", adoption(data), (1, {}))
    check("in alternatives: and counted", data["by_name"]["read_zero"]["adopted_sum"] > 100, data["targets"])


def threads(mounts):
    """Kernel threads that never leave their function work in the cache, and go on natively."""
    seen = []
    for number in range(3):
        owner = session("block", *(f"fn:{name}" for name in THREADS), "--adopt", "-f", "json")
        for _ in range(20):
            for path in (Path("/tmp"), *mounts):
                (path / "written").write_bytes(os.urandom(1 << 20))
            run("sync")
        data = ended(owner, "threads")
        seen.append(data)
    figure("threads of the kernel", [adoption(data) for data in seen])
    figure("blocks", {name: one["adopted_sum"] for name, one in seen[0]["by_name"].items()})
    # Workers come and go. The others are always there.
    for data in seen:
        # A worker may be at work for the module itself.
        check("no other thread is left alone", set(data["adoption"]["left"]) <= {"own"}, data["adoption"])
        same("kswapd is adopted each time", data["by_name"]["kswapd"]["adopted"], 1)
        check("workers are, too", data["by_name"]["worker_thread"]["adopted_sum"] > 0, data["by_name"])
        if mounts:
            journal = data["by_name"]["kjournald2"]
            check("and the journal's thread", journal["adopted"] >= 1 and journal["adopted_sum"] > 0, journal)


def by_name():
    """Threads of the kernel as targets: those of a name, and of a pattern of names."""
    owner = session("block", "kthread:kswapd0", "-f", "json")
    data = ended(owner, "kswapd")
    same("kswapd0 is one thread", adoption(data), (1, {}))
    same("its target has its name", list(data["by_name"]), ["kthread:kswapd0"])
    listed = run("jifl", "list", "kthread:").stdout.split()
    workers = [word for word in listed if word.startswith("kthread:kworker/0")]
    owner = session("insn", "kthread:kworker/0*", "-f", "json")
    for _ in range(20):
        Path("/tmp/written").write_bytes(os.urandom(1 << 20))
        run("taskset", "1", "sync")
    data = ended(owner, "workers")
    one, = data["targets"]
    figure("workers of a CPU", (workers, one))
    check("workers of that CPU, and nobody else, are adopted",
          one["adopted"] and abs(one["adopted"] + sum(data["adoption"]["left"].values()) - len(workers)) < 3,
          (workers, data))
    check("they have worked", one["adopted_sum"] > 0, data)


def of_pair(what, by, form="json"):
    """What a session says of the two threads of jifl_pair, of which one does thrice what the other does."""
    owner = session(what, "kthread:jifl_pair/*", "--by", by, "-f", form)
    PAIR.write_text(str(ROUNDS))
    out, err = interrupt(owner)
    same(f"by {by}: exit status", owner.returncode, 0)
    return out, err


def by_thread():
    """Each thread of a pattern has its own figures, and their sum is that of the target."""
    same("the module with two threads", run("insmod", f"{Path(module_file()).parent}/jifl_pair.ko").returncode, 0)
    pids = {name: int(run("pgrep", "-x", name).stdout) for name in ("jifl_pair/1", "jifl_pair/3")}
    for what, member, each in (("insn", "adopted_instructions", 2), ("block", "adopted_blocks_executed", 1)):
        data = json.loads(of_pair(what, "comm,pid")[0])
        rows = {row["comm"]: row for row in data["rows"]}
        figure(f"{what} by thread", rows)
        same(f"{what}: a row a thread", {name: row["pid"] for name, row in rows.items()}, pids)
        same(f"{what}: each is one call, which had begun before", {(row["adopted"], row["calls"]) for row in rows.values()},
             {(1, 0)})
        same(f"{what}: nothing is without room", set(data["other"].values()), {0})
        same(f"{what}: they add up to the total", sum(row[member] for row in rows.values()), data["total"][member])
        one, three = (rows.get(name, {}).get(member, 0) for name in pids)
        # A round of the loop is two or three instructions, and one block. The rest is a wake-up.
        check(f"{what}: each has done its work", each * ROUNDS <= one < 2 * each * ROUNDS < 3 * each * ROUNDS <= three,
              (one, three))
        same(f"{what}: the largest is the first", data["rows"][0]["comm"], "jifl_pair/3")
    rows = json.loads(of_pair("insn", "pid")[0])["rows"]
    same("by process", [row["pid"] for row in rows], [pids["jifl_pair/3"], pids["jifl_pair/1"]])
    out, _ = of_pair("insn", "comm,pid", "text")
    lines = [line.split() for line in out.splitlines()]
    same("text: columns", lines[0], ["COMM", "PID", "ADOPTED", "INSNS", "SHARE"])
    whole = re.search(r"^# adopted: 2 calls of kthread:jifl_pair/\*, with ([\d,]+) instructions from then on$", out, re.M)
    check("text: the whole is told", whole, out)
    same("text: the rows are the whole", sum(int(line[3].replace(",", "")) for line in lines[1:3]),
         int(whole[1].replace(",", "")))
    out, err = of_pair("block", "comm,pid", "csv")
    lines = out.splitlines()
    same("csv: columns", lines[0], "comm,pid,calls,blocks_executed,adopted,adopted_blocks_executed")
    same("csv: threads", [line.split(",")[:5] for line in lines[1:]],
         [[name, str(pids[name]), "0", "0", "1"] for name in ("jifl_pair/3", "jifl_pair/1")])
    whole = re.search(r"adopted: 2 calls of kthread:jifl_pair/\*, with ([\d,]+) blocks", err)
    same("csv: the rows are the whole", sum(int(line.split(",")[5]) for line in lines[1:]), int(whole[1].replace(",", "")))
    # A function that has whole calls, too: those stand beside.
    owner = session("block", "fn:pair_thread", "--by", "comm", "-f", "json")
    PAIR.write_text(str(ROUNDS))
    data = json.loads(interrupt(owner)[0])
    same("of a function", {row["comm"]: (row["adopted"], row["calls"]) for row in data["rows"]},
         {"jifl_pair/1": (1, 0), "jifl_pair/3": (1, 0)})
    process = napping()
    owner = session("insn", "fn:pipe_read", "--by", "comm", "-n", "cat", "-f", "json")
    process.terminate()
    process.communicate()
    run("sh", "-c", "echo x | cat")
    rows = json.loads(interrupt(owner)[0])["rows"]
    check("calls from before and from then on are one row", len(rows) == 1 and rows[0]["adopted"] == 1 and rows[0]["calls"]
          and rows[0]["instructions"] and rows[0]["adopted_instructions"], rows)
    same("the module with two threads goes", run("rmmod", "jifl_pair").returncode, 0)


def recorded(command, form, *words):
    """Starts a session of a command that records. What is returned ends it, and returns what it writes, and its notes."""
    owner = session(*words, "-f", form, "-o", OUT, command=command)

    def end():
        _, err = interrupt(owner)
        same(f"{command} {words}: exit status", owner.returncode, 0)
        return [json.loads(line) for line in OUT.read_text().splitlines()], err

    return end


def one_call_recorded():
    """A task that sleeps in a function is woken: its call is recorded from there on, to its end."""
    process = napping()
    end = recorded("trace", "ndjson", "fn:pipe_read", "-d", "-n", "cat")
    process.terminate()
    process.wait()
    process.communicate()
    calls, err = end()
    same("trace: the call", [(one["function"], one["thread"], one.get("adopted"), one["result"]) for one in calls],
         [("pipe_read", process.pid, True, ERESTARTSYS)])
    names = [function["name"] for one in calls for function in one["functions"]]
    check("trace: what it called from then on", "prepare_to_wait_event" in names and "pipe_read" not in names, names)
    check("trace: is known to its end", all(one["duration_ns"] is not None for one in calls), calls)
    check("trace: the notes", re.search(r"^adopted: 1 tasks that were inside; 0 left alone\n"
                                        rf"adopted: 1 calls of pipe_read, with {len(names):,} functions", err, re.M), err)
    check("trace: nothing is lost", "records lost 0, calls missed 0\n" in err, err)
    end = run("jifl", "trace", "fn:vfs_read", "-f", "ndjson", "-o", OUT, "--", "cat", "/etc/hostname")
    same("trace: of a command that begins with the session nothing is taken over",
         (end.returncode, [line for line in OUT.read_text().splitlines() if "adopted" in line]), (0, []))
    process = napping()
    end = recorded("mem", "json", "fn:pipe_read", "-n", "cat")
    process.terminate()
    process.communicate()
    (data,), err = end()
    same("mem: it is no whole call, and nothing is lost", (data["calls"], data["lost"], data["stray"]), (0, 0, 0))
    check("mem: what it accesses from then on", data["loads"] > 10 and data["stores"] > 5, data["regions"])


def threads_recorded():
    """A thread of the kernel that never leaves its function is traced while it works."""
    end = recorded("trace", "ndjson", "fn:rcu_gp_kthread")
    for _ in range(5):
        run("sh", "-c", ":")
        time.sleep(0.1)
    (thread,), err = end()
    same("threads: it was taken over, and has not ended", (thread.get("adopted"), thread.get("duration_ns", 0)), (True, None))
    names = [function["name"] for function in thread.get("functions", [])]
    check("threads: it has worked", "rcu_gp_init" in names or "rcu_gp_fqs_loop" in names, names[:20])
    figure("functions of rcu_gp_kthread", (len(names), err))
    end = recorded("mem", "json", "kthread:rcu_*")
    time.sleep(1)
    (data,), err = end()
    check("threads: what they access", data["loads"] > 100 and data["stray"] == 0, data["regions"])
    owner = session("kthread:rcu_*", "-f", "text", command="lock")
    time.sleep(1)
    out, err = interrupt(owner)
    check("threads: locks", owner.returncode == 0 and re.search(r"^# adopted: [1-9]\d* tasks", out + err, re.M), (out, err))


def not_asked():
    """Tasks are adopted unless that is forbidden."""
    process = napping()
    owner = session("insn", "fn:pipe_read", "-n", "c?t", "-f", "json")
    other = session("insn", "fn:pipe_read", "-n", "cat", "--no-adopt", "-f", "json")
    data = ended(other, "forbidden")
    same("forbidden: nobody is looked for", (data.get("adoption"), data["targets"]), (None, []))
    same("not asked: the task is adopted", adoption(ended(owner, "not asked")), (1, {}))
    owner = session("insn", "fn:pipe_read", "-n", "c?", "-f", "json")
    same("a pattern that it does not match", adoption(ended(owner, "another name")), (0, {}))
    process.terminate()
    process.communicate()


def refusals():
    """What cannot be is refused in one line."""
    for words, hint in ((["count", "call", "kthread:kswapd0"], "fn:balance_pgdat"),
                        (["why", "kthread:kswapd0"], "fn:balance_pgdat"),
                        (["count", "insn", "kthread:kswapd0", "--no-adopt"], "leave out --no-adopt"),
                        (["count", "insn", "kthread:kswapd0", "--by", "cpu"], "--by comm,pid has a row"),
                        (["count", "none", "kthread:kswapd0", "--by", "comm"], "does not go with `count none`"),
                        (["count", "insn", "kthread:kswapd0", "-n", "cat"], "-n does not go with"),
                        (["count", "insn", "kthread:kswapd0", "fn:vfs_read"], "give it alone"),
                        (["count", "insn", "kthread:kswapd7"], "the nearest are kthread:kswapd0"),
                        (["count", "insn", "sys:read", "--adopt"], "fn:do_epoll_wait"),
                        (["count", "call", "fn:vfs_read", "--adopt"], "--adopt goes with"),
                        (["why", "fn:vfs_read", "--adopt"], "--adopt goes with"),
                        (["count", "insn", "fn:vfs_read", "--adopt", "--", "true"], "leave out --adopt")):
        end = run("jifl", *words[:3], "--for", "100ms", *words[3:])
        check(f"{words} is refused", end.returncode == 2 and end.stderr.count("\n") == 1 and hint in end.stderr, end)


def adopt(sleepers, rounds):
    mark = log_mark()
    mounts = file_system()
    sleepers = [sleepers, EACH, *mounts]
    exact()
    every_kind(sleepers)
    one_stop(sleepers)
    given_back(sleepers, int(rounds))
    by_the_door()
    traced()
    loops()
    in_alternatives()
    threads(mounts)
    by_name()
    by_thread()
    one_call_recorded()
    threads_recorded()
    not_asked()
    refusals()
    same("no session is left", status()["sessions"], [])
    same("nothing is said", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(adopt)
