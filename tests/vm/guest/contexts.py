# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions as targets: each call is counted, or missed with its cause, in each context.

usage: contexts.py

The module jifl_contexts calls functions of its own in known contexts, and says how often at which
level. The last part compares calls of busy functions of the kernel with the hits of kprobes.
"""

import json
import os
import re
import subprocess
from pathlib import Path

from lib import (background, check, complaints, costs_the_same, figure, interrupt, kernel_log, log_mark, main, module_file,
                 report, run, same, same_cost, session, state_of, status, wait_for)

MODULE = f"{Path(module_file()).parent}/jifl_contexts.ko"
FILE = "/proc/jifl_contexts"
# Calls in each context; how deep contexts_recurse goes (jifl_contexts.c).
N, DEPTH = 100, 7
# Calls for each time that a timer, a tasklet or an interrupt comes.
FIRE = 10

# As `jifl count --context` has them; the module says of each how many calls it made there.
LEVELS = ("task", "softirq", "irq")

# The function that is called as often as the module says, if it is not contexts_work; and whether
# tasks of other processes call it.
CONTEXTS = {
    "task": {}, "preempt-off": {}, "bh-off": {}, "irq-off": {}, "spinlock": {}, "kthread": {"others": True},
    "work": {"others": True}, "timer": {}, "tasklet": {}, "hrtimer": {}, "irq-work": {}, "ipi": {}, "nested": {},
    "many": {"function": "contexts_many"}, "wide": {"function": "contexts_wide"}, "tail": {"function": "contexts_tail"},
    "sleep": {"function": "contexts_sleep"}, "recursion": {"function": "contexts_recurse"},
}


def worked(x):
    """What contexts_work returns."""
    for _ in range(3):
        x ^= x << 13 & (1 << 64) - 1
        x ^= x >> 7
        x ^= x << 17 & (1 << 64) - 1
    return x


def call(context, n=N):
    """Has the functions called; returns how often contexts_work, or another one, was, by level."""
    Path(FILE).write_text("reset 0")
    Path(FILE).write_text(f"{context} {n}")
    return calls(context)


def calls(context):
    """What the module says of a context. The results of all calls must have been right."""
    lines = (line.split() for line in Path(FILE).read_text().splitlines())
    numbers = {name: [int(number) for number in rest] for name, *rest in lines}
    *made, wrong = numbers[context]
    same(f"{context}: wrong results", wrong, 0)
    return dict(zip(LEVELS, made))


def counted(what, words, context, *scope, n=N):
    """A session around the calls of a context: the report, and the calls made, by level."""
    owner = session(what, *words, "-f", "json", *scope)
    made = call(context, n)
    out, err = interrupt(owner)
    same(f"{what} {context}: exit status", owner.returncode, 0)
    check(f"{what} {context}: notes", re.fullmatch(r"Detaching\.\.\. .*\n(jifl: no task that the filters .*\n)?", err), err)
    return report(out), made


def end_callers(callers):
    """Processes with CALLS_ON have run on, and no result of a call was wrong."""
    for caller in callers:
        check("the caller runs on", caller.poll() is None, caller)
        caller.kill()
        caller.communicate()
    for context in CONTEXTS:
        calls(context)


def target_of(data, name):
    """A target's counts; zeros if it was not called."""
    return data["by_name"].get(name, {"calls": 0, "missed": 0, "missed_by": {}})


def each_context():
    """Each call is counted, at each level."""
    for context, traits in CONTEXTS.items():
        function = traits.get("function", "contexts_work")
        data, made = counted("call", [f"fn:{function}"], context)
        check(f"{context}: the module made calls", sum(made.values()) >= N, made)
        got = target_of(data, function)
        same(f"{context}: calls counted", got["calls"], sum(made.values()))
        same(f"{context}: calls missed", got["missed_by"], {})


def own_process():
    """With a filter, calls of other tasks are nobody's, and so are those in interrupts."""
    for context in ("task", "irq-off", "kthread", "work", "timer", "hrtimer", "nested"):
        data, made = counted("call", ["fn:contexts_work"], context, "-p", os.getpid())
        others = CONTEXTS[context].get("others")
        got = target_of(data, "contexts_work")
        same(f"{context}, with a filter: calls", (got["calls"], got["missed"]), (0 if others else made["task"], 0))


def unwatched():
    """Where RCU does not watch no call is counted, and nobody's data is looked at to say so.

    With a filter, each call is asked about. Without one, idle tasks alone are kept out.
    """
    before = status()["missed_by"].get("idle", 0)
    data, made = counted("call", ["fn:contexts_work"], "unwatched", "-p", os.getpid())
    got = target_of(data, "contexts_work")
    same("where RCU does not watch", (made["task"], got["calls"], got["missed"]), (N, 0, 0))
    missed = status()["missed_by"].get("idle", 0) - before
    check("each is missed, of no session", missed >= N, missed)


def cost_of(what, words, context, *scope):
    """Least and most of one call, where all were counted."""
    data, made = counted(what, words, context, *scope)
    name = words[0].removeprefix("fn:")
    got = target_of(data, name)
    same(f"{what} {context}: calls", (got["calls"], got["missed"]), (sum(made.values()), 0))
    return got.get("min"), got.get("max")


def costs():
    """A call costs the same in each context: the instructions when a system call makes it."""
    for what in ("insn", "block"):
        all_of_them = [context for context, traits in CONTEXTS.items() if not traits.get("function")]
        levels = {level for context in all_of_them for level, made in call(context).items() if made}
        same("there are contexts at each level", levels, set(LEVELS))
        found = {context: cost_of(what, ["fn:contexts_work"], context) for context in all_of_them}
        one = found["task"]
        for context, cost in found.items():
            same_cost(f"{what} {context}: each call", cost, (one[0], one[0]))
        figure(f"{what} of contexts_work", one[0])
    # From the executions of blocks, in the same code under a system call.
    owner = session("insn", "sys:write", "--by", "func", "-p", os.getpid(), "-f", "json")
    call("task")
    rows = report_rows(interrupt(owner)[0])
    whole = rows["contexts_work"] / N
    figure("instructions of contexts_work under sys:write", whole)
    owner = session("insn", "fn:contexts_work", "-p", os.getpid(), "-f", "json")
    call("task")
    door = target_of(report(interrupt(owner)[0]), "contexts_work")["min"]
    # What stands before the place where the function is entered: endbr64, the tracer's call.
    check("the function's instructions, but those before its door", whole - 2 <= door <= whole, (door, whole))


def interrupted():
    """An interrupted call keeps its own count. Calls of the interrupt are counted apart from it."""
    made = {}
    for what in ("insn", "block"):
        data, made = counted(what, ["fn:contexts_interrupted", "fn:contexts_work"], "nested")
        outer, inner = target_of(data, "contexts_interrupted"), target_of(data, "contexts_work")
        same(f"{what}: interrupted calls", (outer["calls"], outer["missed"]), (N // FIRE, 0))
        same(f"{what}: calls in the interrupt, and inside the interrupted call", (inner["calls"], inner["missed_by"]),
             (made["irq"], {"nested": made["task"]}))
        alone, _ = counted(what, ["fn:contexts_work"], "nested")
        same_cost(f"{what}: calls in the interrupt cost what they cost alone",
                  (inner["min"], inner["max"]), (target_of(alone, "contexts_work")["min"],) * 2)
        alone, _ = counted(what, ["fn:contexts_interrupted"], "nested")
        # What waits for the interrupt may look more than once whether it has come.
        same_cost(f"{what}: the interrupted call's least", (outer["min"],),
                  (target_of(alone, "contexts_interrupted")["min"],))
    same("they were in the interrupt", made, {"task": N, "softirq": 0, "irq": N})
    # Two sessions at once: the interrupt is in calls of both.
    other = session("insn", "fn:contexts_interrupted", "-f", "json")
    data, made = counted("block", ["fn:contexts_work"], "nested")
    outer = target_of(report(interrupt(other)[0]), "contexts_interrupted")
    same("the other session's calls", (outer["calls"], outer["missed"]), (N // FIRE, 0))
    inner = target_of(data, "contexts_work")
    same("this session's calls, in the interrupts and inside the other's", (inner["calls"], inner["missed"]),
         (made["irq"] + made["task"], 0))


def by_context():
    """--context selects calls by where they are made, --by context counts them apart."""
    for what, context, asked in (("call", "nested", ["task"]), ("block", "nested", ["irq"]), ("block", "timer", ["task"]),
                                 ("call", "timer", ["softirq", "irq"]), ("call", "hrtimer", ["irq"])):
        data, made = counted(what, ["fn:contexts_work"], context, "--context", ",".join(asked))
        got = target_of(data, "contexts_work")
        same(f"{what} {context} --context {asked}", (got["calls"], got["missed"]),
             (sum(made[level] for level in asked), 0))
    names = {"task": Path("/proc/self/comm").read_text().strip(), "softirq": "<softirq>", "irq": "<interrupt>"}
    for what, context in (("call", "nested"), ("block", "nested"), ("block", "timer")):
        owner = session(what, "fn:contexts_work", "--by", "context,comm", "-f", "json")
        made = call(context)
        rows = json.loads(interrupt(owner)[0])["rows"]
        same(f"{what} {context} --by context,comm", {row["context"]: (row["calls"], row["comm"]) for row in rows},
             {level: (number, names[level]) for level, number in made.items() if number})
    for words, why in ((["fn:contexts_work", "--context", "irq", "-p", "1"], "no task's"),
                       (["sys:read", "--context", "irq", "--for", "1s"], "made by tasks")):
        end = run("jifl", "count", "call", *words)
        check(f"{words} is refused in one line", end.returncode == 2 and why in end.stderr and
              end.stderr.count("\n") == 1, end)


def report_rows(text):
    """Instructions by function."""
    return {row["func"].split(" ")[0]: row["instructions"] for row in json.loads(text)["rows"]}


def inside_native_code():
    """A call that native code makes inside a call of the same session is a part of that call."""
    sleeps = 20
    end = run("jifl", "count", "insn", "fn:hrtimer_nanosleep", "fn:dequeue_task_fair", "-f", "json", "--",
              "/usr/bin/python3", "-S", "-E", "-c", f"import time\nfor n in range({sleeps}): time.sleep(0.02)")
    same("sleeps: exit status", end.returncode, 0)
    outer, inner = (target_of(report(end.stdout), name) for name in ("hrtimer_nanosleep", "dequeue_task_fair"))
    same("sleeps: calls", (outer["calls"], outer["missed_by"]), (sleeps, {}))
    # The scheduler runs natively. It is not called where the time is over before.
    check("sleeps: calls inside", inner["missed_by"].get("nested", 0) > 0, inner)


def nested_activations():
    """`call` counts each activation. `insn` counts the outermost, with the instructions of all."""
    data, _ = counted("call", ["fn:contexts_recurse", "fn:contexts_work"], "recursion")
    for name in ("contexts_recurse", "contexts_work"):
        got = target_of(data, name)
        same(f"recursion: each call of {name}", (got["calls"], got["missed"]), (N * (DEPTH + 1), 0))
    data, _ = counted("insn", ["fn:contexts_recurse", "fn:contexts_work"], "recursion")
    outer, inner = target_of(data, "contexts_recurse"), target_of(data, "contexts_work")
    same("recursion: outermost calls", (outer["calls"], outer["missed_by"]), (N, {"nested": N * DEPTH}))
    same("recursion: calls inside", (inner["calls"], inner["missed_by"]), (0, {"nested": N * (DEPTH + 1)}))
    costs_the_same("recursion: each outermost call", outer)
    alone, _ = counted("insn", ["fn:contexts_recurse"], "recursion")
    same("recursion: and the same without the other target",
         (target_of(alone, "contexts_recurse")["min"], target_of(alone, "contexts_recurse")["calls"]), (outer["min"], N))


def left_by_a_jump():
    """A call that has left the cache by a jump ends with its session, and is none of the next one's."""
    words_ = ("insn", "fn:contexts_leave", "--only", "-f", "json")
    Path(FILE).write_text("reset 0")
    owner = session(*words_)
    caller = background("sh", "-c", f"echo 'leave {FIRE}' >{FILE}")
    stack = Path(f"/proc/{caller.pid}/stack")
    wait_for("the function that it has jumped to sleeps", lambda: "contexts_stay" in stack.read_text())
    wait_for("the call sleeps", lambda: state_of(caller.pid) == "S")
    got = target_of(report(interrupt(owner)[0]), "contexts_leave")
    same("left by a jump: the call is missed", (got["calls"], got["missed_by"]), (0, {"session-end": 1}))
    owner = session(*words_)
    caller.terminate()
    caller.communicate()
    got = target_of(report(interrupt(owner)[0]), "contexts_leave")
    same("left by a jump: the next session has no call", (got["calls"], got["missed_by"]), (0, {}))
    same("left by a jump: it was called", calls("leave"), dict.fromkeys(LEVELS, 0) | {"task": 1})


def words():
    """Names, globs and modules mean the functions that they say."""
    data, made = counted("call", ["fn:contexts_?i*@jifl_contexts", "fn:contexts_wor?"], "wide")
    same("globs", {name: target["calls"] for name, target in data["by_name"].items()},
         {"contexts_wide": N, "contexts_work": N})
    data, made = counted("call", ["mod:jifl_contexts"], "many")
    got = {name: target_of(data, name)["calls"] for name in ("contexts_many", "contexts_work", "contexts_sleep")}
    same("a module", got, {"contexts_many": made["task"], "contexts_work": N, "contexts_sleep": 0})
    check("its functions", data["functions"]["entered"] >= 10, data["functions"])
    same("of the module", {target["module"] for target in data["targets"]}, {"jifl_contexts"})
    end = run("jifl", "list", "fn:contexts_w???")
    same("list", (end.returncode, re.findall(r"^fn:\S+", end.stdout, re.M)),
         (0, ["fn:contexts_work@jifl_contexts", "fn:contexts_wide@jifl_contexts"]))


def beside_a_system_call():
    """A session on the system call keeps its counts, while another is about a function in it."""
    def one():
        owner = session("call", "sys:write", "-p", os.getpid(), "-f", "json")
        # No line is printed meanwhile: that writes, too.
        for line in ("reset 0", f"task {N}"):
            Path(FILE).write_text(line)
        got = report(interrupt(owner)[0])["by_name"]["write"]
        return got["calls"], got["missed"]

    same("the system call's calls alone", one(), (2, 0))
    inside = session("call", "fn:contexts_work", "-p", os.getpid(), "-f", "json")
    same("the system call's calls", one(), (2, 0))
    made = calls("task")
    got = target_of(report(interrupt(inside)[0]), "contexts_work")
    same("the function's, counted or missed", got["calls"] + got["missed"], made["task"])
    figure("a function inside another session's call", {"calls": got["calls"], **got["missed_by"]})


def the_module_stays():
    """A session holds the module of its functions. After it, the module can go; no name is left."""
    owner = session("call", "mod:jifl_contexts", "-f", "json")
    end = run("rmmod", "jifl_contexts")
    check("it cannot go", end.returncode != 0 and "in use" in end.stderr, end)
    interrupt(owner)
    same("it can go", run("rmmod", "jifl_contexts").returncode, 0)
    end = run("jifl", "count", "call", "mod:jifl_contexts", "--for", "1s")
    check("its name is unknown then", end.returncode == 2 and "no module jifl_contexts" in end.stderr, end)
    same("it comes again", run("insmod", MODULE).returncode, 0)
    data, made = counted("call", ["fn:contexts_work"], "task")
    same("and is counted", target_of(data, "contexts_work")["calls"], made["task"])


CALLS_ON = f"""import sys
while True:
    for context in ("sleep", "many", "recursion", "wide", "work", "kthread", "timer", "tasklet", "hrtimer", "nested"):
        open({FILE!r}, "w").write(f"{{context}} 20")"""


def start_and_stop(rounds):
    """Sessions come and go while functions run, sleep and recurse. No result is wrong."""
    callers = [background("/usr/bin/python3", "-c", CALLS_ON) for _ in range(2)]
    total = 0
    for round_ in range(int(rounds)):
        words_ = ["fn:contexts_*", "mod:jifl_contexts", "fn:contexts_sleep"][round_ % 3]
        end = run("jifl", "count", ("call", "insn")[round_ % 2], words_, "--for", "50ms", "-f", "json")
        if not check(f"round {round_}", end.returncode == 0, end):
            break
        total += sum(target["calls"] for target in report(end.stdout)["targets"])
    check("calls were counted", total > 0, total)
    figure("calls counted by sessions that come and go", total)
    end_callers(callers)


def return_in_progress():
    """When a session ends, the place of a return address keeps what it holds meanwhile."""
    mark = log_mark()
    owner = session("insn", "fn:contexts_slot")
    caller = background("sh", "-c", f"echo 'reset 0' >{FILE}; echo 'slot {FIRE}' >{FILE}")
    # A shell on its way there sleeps for other reasons, too.
    stack = Path(f"/proc/{caller.pid}/stack")
    wait_for("the function sleeps", lambda: state_of(caller.pid) == "D" and "contexts_slot" in stack.read_text())
    interrupt(owner)
    check("the session has ended before the function", caller.poll() is None, caller.poll())
    caller.communicate()
    same("it was called", calls("slot"), dict.fromkeys(LEVELS, 0) | {"task": 1})
    # There are no frames behind that place.
    said = [line for line in complaints(kernel_log(mark)) if "a stack cannot be walked to its end" not in line]
    same("the module has nothing to say but that", said, [])


# --- the kernel's own functions -------------------------------------------------------------------


TRACING = Path("/sys/kernel/tracing")
# Busy with what BUSY does, on either kernel.
FUNCTIONS = """vfs_read vfs_write rw_verify_area security_file_permission do_filp_open path_openat do_sys_openat2
    getname_flags vfs_statx vfs_fstatat path_lookupat filename_lookup dput mntput fput __check_object_size pipe_read
    pipe_write kmem_cache_free kfree ksys_read ksys_write do_mmap __do_munmap mmap_region handle_mm_fault
    lock_vma_under_rcu down_write up_write mutex_lock mutex_unlock terminate_walk step_into lookup_fast
    security_inode_permission security_file_open may_open vma_interval_tree_insert unmap_region
    getname_flags.part.0 do_sys_poll poll_freewait sock_poll iov_iter_init""".split()

# Waits for a line, does the same work again and again, says that it is done, and waits.
BUSY = """import mmap, os, select, sys
while True:
    rounds = int(sys.stdin.readline())
    reader, writer = os.pipe()
    for n in range(rounds):
        file = os.open("/etc/hostname", os.O_RDONLY)
        os.read(file, 100)
        os.fstat(file)
        os.close(file)
        os.stat("/etc/../etc/hostname")
        os.write(writer, b"x" * 100)
        os.read(reader, 100)
        select.select([reader], [], [], 0)
        memory = mmap.mmap(-1, 1 << 16)
        memory[0] = memory[8192] = 1
        memory.close()
    os.close(reader)
    os.close(writer)
    print("done", flush=True)"""

# Of hits in hard interrupts, softirqs, NMIs: TRACE_FLAG_HARDIRQ, _SOFTIRQ, _NMI (trace_events.h).
NOT_TASK = 0x08 | 0x10 | 0x40


class Hits:
    """Kprobes at functions, which count their hits at task level by process."""

    def __init__(self, names):
        self.names = names
        probes = "".join(f"p:jifl/hit_{index} {name}\n" for index, name in enumerate(names))
        (TRACING / "kprobe_events").write_text(probes)
        for index in range(len(names)):
            self.event(index, "trigger").write_text(f"hist:keys=common_pid if !(common_flags & {NOT_TASK})")

    @staticmethod
    def event(index, name):
        return TRACING / f"events/jifl/hit_{index}/{name}"

    def of(self, pid):
        """Hits of a process, by function."""
        counts = {}
        for index, name in enumerate(self.names):
            text = self.event(index, "hist").read_text()
            found = re.search(rf"common_pid:\s+{pid}\s+}} hitcount:\s+(\d+)", text)
            counts[name] = int(found[1]) if found else 0
        return counts

    def clear(self):
        """Takes the probes away."""
        for index in range(len(self.names)):
            self.event(index, "trigger").write_text(f"!hist:keys=common_pid if !(common_flags & {NOT_TASK})")
            self.event(index, "enable").write_text("0")
        (TRACING / "kprobe_events").write_text("")


def busy_functions():
    """Of those that there are once, all that a session takes."""
    known = [line.split()[0] for line in (TRACING / "available_filter_functions").read_text().splitlines()]
    return [name for name in FUNCTIONS if known.count(name) == 1]


def worker():
    """A process that waits for work."""
    process = background("/usr/bin/python3", "-c", BUSY, stdin=subprocess.PIPE)
    work(process, 3)    # all its code is there then
    return process


def work(process, rounds):
    """Has the work done; the process waits again then."""
    process.stdin.write(f"{rounds}\n")
    process.stdin.flush()
    same("the worker is done", process.stdout.readline(), "done\n")
    wait_for("the worker", lambda: state_of(process.pid) == "S")


def against_kprobes(rounds, probes_first, *scope):
    """Each call of a process is counted, or said to be missed, as kprobes count them."""
    name = "probes first" if probes_first else "session first"
    names = busy_functions()
    check(f"{name}: busy functions", len(names) >= 20, names)
    process = worker()

    def begin():
        return session("call", *(f"fn:{name}@vmlinux" for name in names), *scope, "-p", process.pid, "-f", "json")

    hits = Hits(names) if probes_first else None
    owner = begin()
    hits = hits or Hits(names)
    before = hits.of(process.pid)
    work(process, rounds)
    after = hits.of(process.pid)
    out, _ = interrupt(owner)
    hits.clear()
    data = report(out)
    made = {name: after[name] - before[name] for name in names}
    got = {target["function"]: target["calls"] + target["missed"] for target in data["targets"]}
    # A name may stand for what the compiler has made of its function, too.
    same(f"{name}: functions left out", data["functions"]["left_out"], {})
    check(f"{name}: functions that were entered", data["functions"]["entered"] >= len(names), data["functions"])
    wanted = {name: number for name, number in made.items() if number}
    check(f"{name}: there were enough functions", len(wanted) >= 20, wanted)
    same(f"{name}: calls, counted or missed", {name: got.get(name, 0) for name in wanted}, wanted)
    # One call of each function that the process waits in is in flight at the end.
    missed = {target["function"]: target["missed_by"] for target in data["targets"] if target["missed"]}
    figure(f"{name}: calls", sum(wanted.values()))
    figure(f"{name}: missed", missed)
    check(f"{name}: none is missed but those in flight at the end",
          all(set(causes) == {"session-end"} and sum(causes.values()) <= 2 for causes in missed.values()), missed)
    process.kill()
    process.communicate()


def known_calls():
    """A system call's own function is called as often as the system call is made."""
    for what in ("call", "insn", "block"):
        owner = session(what, "fn:__x64_sys_getuid", "fn:__x64_sys_getppid@vmlinux", "-p", os.getpid(), "-f", "json")
        for _ in range(N):
            os.getuid()
        data = report(interrupt(owner)[0])
        got = target_of(data, "__x64_sys_getuid")
        same(f"{what}: calls of __x64_sys_getuid", (got["calls"], got["missed"]), (N, 0))
        if what != "call":
            costs_the_same(f"{what}: each call costs the same", got)


def contexts(rounds="1"):
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    known_calls()
    left_by_a_jump()
    each_context()
    own_process()
    unwatched()
    costs()
    interrupted()
    by_context()
    nested_activations()
    inside_native_code()
    words()
    beside_a_system_call()
    the_module_stays()
    start_and_stop(10 * int(rounds))
    for probes_first in (True, False):
        against_kprobes(200 * int(rounds), probes_first)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])
    return_in_progress()
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)


if __name__ == "__main__":
    main(contexts)
