# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tools on functions: each is compared with what the test itself did.

usage: function_tools.py

do_getpgid is called by getpgid with the process that is asked for, and returns its group or an
error. The functions of the module jifl_contexts are called in known contexts, with known results.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from contexts import MODULE, call, worked
from lib import (background, check, complaints, figure, interrupt, kernel_log, log_mark, main, run, same, session,
                 status, wait_for)
from waits import is_waiting, wchan

N = 100
SEED = 0x1234567812345678
# More than any process has here.
NOBODY = 4_000_000
ME = ("-p", os.getpid())


def ask():
    """Calls do_getpgid N times with this process, N times with none; returns the first result."""
    for _ in range(N):
        group = os.getpgid(os.getpid())
        try:
            os.getpgid(NOBODY)
        except ProcessLookupError:
            pass
    return group


def ended(owner, name, missed=0):
    """The output of a session that ends now; no record may be lost; so many calls were missed."""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    # Threads may have waited for the reader: this is said behind it.
    said = re.search(r"records lost (\d+), calls missed (\d+)", err)
    check(f"{name}: nothing is lost", not said or said.groups() == ("0", str(missed)), err)
    return out


def signed(value):
    """A number of 64 bits, of which the highest is its sign."""
    return value - (1 << 64) if value >> 63 else value


def traced(words, action, *options, missed=0):
    """The calls of a trace, each as an object, around an action."""
    owner = session(*options, *words, "-f", "ndjson", command="trace")
    action()
    return [json.loads(line) for line in ended(owner, f"trace {words}", missed).splitlines()]


def trace():
    """Arguments and results by the kernel's types."""
    group = os.getpgid(0)
    for options in (["-A"], ["-A", "-d"], []):
        name = f"trace {' '.join(options)}"
        calls = traced(["fn:do_getpgid"], ask, *options, *ME)
        same(f"{name}: calls", Counter((one["function"], one["result"]) for one in calls),
             Counter({("do_getpgid", group): N, ("do_getpgid", -3): N}))
        first = [one["functions"][0] for one in calls]
        same(f"{name}: the function itself comes first", {(one["name"], one["depth"]) for one in first},
             {("do_getpgid", 0)})
        check(f"{name}: with those that it calls",
              all(any(inner["name"] == "find_task_by_vpid" and inner["depth"] == 1 for inner in one["functions"])
                  for one in calls), calls[0])
        if "-A" in options:
            same(f"{name}: arguments and results", Counter((one["arguments"]["pid"], one["result"]) for one in first),
                 Counter({(os.getpid(), group): N, (NOBODY, -3): N}))
        if "-d" in options:
            check(f"{name}: durations", all(one["duration_ns"] > 0 for one in first), first[0])


def contexts():
    """Tasks of any kind, functions of any form, by a module that knows what each call returns."""
    cases = {"task": "work", "irq-off": "work", "spinlock": "work", "kthread": "work", "work": "work",
             "preempt-off": "work", "bh-off": "work", "tail": "tail", "sleep": "sleep"}
    for context, function in cases.items():
        made = {}
        # A task waits for its records to be taken when it is back in user space: not while it makes
        # these calls. Timers of an idle processor expire on another one, and who is woken may call
        # thousands of functions until that is done with it.
        sleeps = context == "sleep"
        n = 10 if sleeps else N
        hogs = [background("nice", "-n", "19", "sh", "-c", "while :; do :; done") for _ in range(sleeps * os.cpu_count())]
        calls = traced([f"fn:contexts_{function}"], lambda: made.update(call(context, n)))
        for hog in hogs:
            hog.kill()
            hog.communicate()
        same(f"{context}: calls", len(calls), made["task"])
        wanted = Counter()
        for number in range(n):
            turn = number % 10 if context == "work" else number
            wanted[signed(worked(turn if function != "work" else SEED + turn))] += 1
        same(f"{context}: results", Counter(one["result"] for one in calls) == wanted, True)
        same(f"{context}: the function comes first",
             {one["functions"][0]["name"] for one in calls}, {f"contexts_{function} [jifl_contexts]"})
        check(f"{context}: each ends", all(one["duration_ns"] for one in calls), calls[:1])
    # The seven calls inside each are parts of it.
    calls = traced(["fn:contexts_recurse"], lambda: call("recursion", N), missed=7 * N)
    same("recursion: calls, and the functions of each",
         Counter(len(one["functions"]) for one in calls if one["functions"][7]["depth"]), Counter({16: N}))


def histograms():
    """Values of calls."""
    data = {}
    for value in ("retval", "arg.pid", "ARG0", "duration"):
        owner = session(f"hist:{value}", "fn:do_getpgid", *ME, "-f", "json")
        group = ask()
        got, = json.loads(ended(owner, f"hist:{value}"))["targets"]
        same(f"hist:{value}: calls", (got["function"], got["calls"], got["missed"]), ("do_getpgid", 2 * N, 0))
        data[value] = got
    retval = data["retval"]
    same("hist:retval: errors, and the rest", (retval["negative"], retval["min"], retval["max"], retval["sum"]),
         (N, group, group, N * group))
    for value in ("arg.pid", "ARG0"):
        got = data[value]
        same(f"hist:{value}", (got["negative"], got["min"], got["max"], got["sum"]),
             (0, os.getpid(), NOBODY, N * (os.getpid() + NOBODY)))
    check("hist:duration", 0 < data["duration"]["min"] <= data["duration"]["max"], data["duration"])
    owner = session("hist:duration", "fn:contexts_sleep", "-f", "json")
    call("sleep", N)
    got, = json.loads(ended(owner, "sleep"))["targets"]
    check("a call that sleeps takes as long", got["calls"] == N and got["min"] >= 200_000, got)
    for words, hint in ((["hist:retval", "fn:kfree"], "returns nothing"), (["hist:arg.x", "fn:do_getpgid"], "it has pid"),
                        (["hist:arg.x", "sys:read"], "have no names")):
        end = run("jifl", "count", *words, "--for", "100ms")
        check(f"{words} is refused in one line", end.returncode == 2 and hint in end.stderr and
              end.stderr.count("\n") == 1, end)


def keys():
    """Figures by task."""
    for what in ("call", "insn"):
        owner = session(what, "fn:do_getpgid", "--by", "comm,pid", *ME, "-f", "json")
        ask()
        rows = json.loads(ended(owner, f"{what} --by"))["rows"]
        same(f"{what} --by comm,pid", [(row["comm"], row["pid"], row["calls"]) for row in rows],
             [(Path("/proc/self/comm").read_text().strip(), os.getpid(), 2 * N)])
    # A function that the keys' own code calls does not come to itself.
    owner = session("call", "fn:ktime_get*", "--by", "comm", "-f", "json")
    ask()
    check("functions of the clock, by command", json.loads(ended(owner, "ktime_get --by"))["rows"])
    owner = session("hist:duration", "fn:ktime_get*", "-f", "json")
    ask()
    check("functions of the clock, by duration", json.loads(ended(owner, "ktime_get"))["targets"])


def blocks():
    """What the blocks of a function executed."""
    owner = session("insn", "fn:contexts_work", "-f", "json")
    call("task", N)
    whole = json.loads(ended(owner, "insn"))["targets"][0]
    owner = session("func", "fn:contexts_work", "-f", "json")
    call("task", N)
    rows = {row["func"]: row for row in json.loads(ended(owner, "func"))["rows"]}
    figure("rows of count func", list(rows.items())[:2])
    same("func: calls", {name: row["calls"] for name, row in rows.items()}, {"contexts_work [jifl_contexts]": N})
    owner = session("insn", "fn:contexts_work", "--by", "func", "-f", "json")
    call("task", N)
    rows = {row["func"]: row["instructions"] for row in json.loads(ended(owner, "insn --by func"))["rows"]}
    same("insn --by func: as each call counts them", rows,
         {"contexts_work [jifl_contexts]": whole["min"] * N})
    for command, words in (("prof", []), ("cover", []), ("branch", []), ("mem", []), ("lock", []), ("dump", [])):
        owner = session(*words, "fn:contexts_work", *ME, command=command)
        call("task", N)
        out = ended(owner, command)
        check(f"{command}: the function is there", command == "lock" or "contexts_work" in out or command == "mem", out)
        figure(f"{command}", out[:300])
    owner = session("fn:contexts_work", "-o", "/run/fn.jifl", *ME, command="record")
    call("task", N)
    ended(owner, "record")
    end = run("jifl", "report", "/run/fn.jifl")
    check("report: the function is there", end.returncode == 0 and "contexts_work" in end.stdout, end)


def profiled(command, context, *words):
    """What a command on blocks says in JSON, around the calls of a context; and the calls of contexts_work."""
    made = {}
    owner = session(*words, "-f", "json", command=command)
    made.update(call(context, N))
    return json.loads(ended(owner, f"{command} {context}")), sum(made.values())


def of_work(rows, name):
    """The rows of contexts_work."""
    return [row for row in rows if row[name].startswith("contexts_work")]


def in_each_context():
    """Each block and branch is counted, wherever its function is called, as in a task.

    contexts_work goes three times through one loop.
    """
    one = {}    # executions in a call, by block
    for context in ("task", "irq-off", "timer", "tasklet", "hrtimer", "irq-work", "ipi", "nested"):
        data, made = profiled("prof", context, "fn:contexts_work")
        same(f"prof {context}: calls", (data["calls"], data["missed"], data["without_counter"]), (made, 0, 0))
        rows = {(int(row["address"], 16), row["bytes"]): row["executed"] for row in of_work(data["blocks"], "name")}
        one = one or {block: executed // made for block, executed in rows.items()}
        check("there are blocks", len(one) >= 3, one)
        same(f"prof {context}: blocks", rows, {block: executed * made for block, executed in one.items()})
        same(f"prof {context}: the first", rows[min(rows)], made)
    for context in ("task", "tasklet", "hrtimer", "nested"):
        for only in ([], ["--only"]):
            data, made = profiled("branch", context, "fn:contexts_work", *only)
            same(f"branch {context} {only}: calls", (data["calls"], data["missed"]), (made, 0))
            same(f"branch {context} {only}: the loop's branch", loops(data), [(3 * made, 2 * made, made)])
    # Interrupts of the calls of the session, which execute the same blocks.
    data, made = profiled("branch", "nested", "fn:contexts_interrupted", "fn:contexts_work")
    same("branch, interrupted: the loop's branch", loops(data), [(3 * made, 2 * made, made)])
    for what in ("func", "opcode", "load", "store"):
        shown = [profiled("count", context, what, "fn:contexts_work") for context in ("task", "hrtimer")]
        same(f"{what}: in an interrupt as in a task", shown[1][0]["rows"], shown[0][0]["rows"])
        same(f"{what}: calls", [made for _, made in shown], [N, N])
    data, _ = profiled("cover", "hrtimer", "fn:contexts_work")
    check("cover: the function is there", "contexts_work" in json.dumps(data), data)


def loops(data):
    """How often the branches of contexts_work were executed, taken, and not taken."""
    return [(row["executed"], row["taken"], row["not_taken"]) for row in of_work(data["branches"], "site")]


def opcodes():
    """No block is unknown because of a door."""
    owner = session("opcode", "fn:do_getpgid", *ME, "-f", "json")
    ask()
    out = ended(owner, "opcode")
    rows = {row["opcode"]: row for row in json.loads(out)["rows"]}
    check("opcode: instructions are known", "mov" in rows, out)
    figure("opcode", out[-400:])


# It sleeps again and again, or, long, once when it is told to.
SLEEPER = """import sys, time
open("/proc/self/comm", "w").write("sleeper")
seconds = float(sys.argv[1])
if seconds > 1:
    sys.stdin.readline()
while True:
    time.sleep(seconds)"""


def sleepers():
    """A session ends although a task sleeps in its system call, and is to wait for the reader."""
    patience = Path("/sys/module/jifl/parameters/ring_patience_ms")
    usual = patience.read_text()
    patience.write_text("600000")
    # Of these processes alone: this one must not wait.
    owner = session("fn:get_timespec64", "-n", "sleeper", "-f", "ndjson", command="trace")
    owner.send_signal(signal.SIGSTOP)
    filler, sleeper = (background("taskset", "-c", "0", "python3", "-c", SLEEPER, seconds, stdin=subprocess.PIPE) for seconds in ("1e-9", "1000"))
    wait_for("the ring is full", lambda: is_waiting(filler.pid))
    sleeper.stdin.write("sleep\n")
    sleeper.stdin.flush()
    # Its function returns before it sleeps.
    wait_for("the sleeper", lambda: "nanosleep" in wchan(sleeper.pid))
    owner.send_signal(signal.SIGCONT)
    start = time.monotonic()
    _, err = interrupt(owner)
    check("the session ends", owner.returncode == 0 and sleeper.poll() is None, err)
    figure("seconds until a session with a sleeper ended", round(time.monotonic() - start, 1))
    for task in (filler, sleeper):
        task.kill()
        task.wait()
    patience.write_text(usual)


def why():
    """The branch that decided."""
    owner = session("-x", "ESRCH", "fn:do_getpgid", *ME, "-f", "ndjson", command="why")
    ask()
    out, err = interrupt(owner)
    same("why: exit status", owner.returncode, 0)
    groups = [json.loads(line) for line in out.splitlines()]
    same("why: one cause for all", [(one["function"], one["errno"], one["calls"]) for one in groups],
         [("do_getpgid", "ESRCH", N)])
    check("why: what it looked at", f"{2 * N} calls, {N} failed with ESRCH; records lost 0, calls missed 0" in err, err)
    check("why: the branch that decided is known", groups and groups[0]["decided"] is not None, groups)
    end = run("jifl", "why", "fn:kfree", "--for", "100ms")
    check("why: a function that returns nothing is refused", end.returncode == 2 and "returns nothing" in end.stderr, end)


def function_tools():
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    for part in (keys, contexts, trace, histograms, blocks, in_each_context, why, opcodes, sleepers):
        part()
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(function_tools)
