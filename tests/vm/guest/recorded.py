# SPDX-License-Identifier: MIT OR Apache-2.0
"""Commands that record, and values of calls: each call in each context, and whose each record is.

usage: recorded.py ROUNDS

The functions and contexts are those of the module jifl_contexts (contexts.py). The last part records
functions of the kernel while the machine is busy in all contexts.
"""

import json
import os
import re
import signal
from pathlib import Path

from contexts import CONTEXTS, FIRE, MODULE, N, call
from levels import start_load, targets_everywhere
from lib import background, check, ends_clean, figure, interrupt, log_mark, main, run, same, session, status

OUT = Path("/run/recorded")
# Changes the text of contexts_held, which a softirq executes in the context "cut" (modules/cut.h).
KEY = Path("/sys/module/jifl_contexts/parameters/key")
CUT_CALLS = 10
CHECKS = ("checks", "checks-timer", "checks-irq-work", "checks-nested")
LEVELS = ("task", "softirq", "irq")
# What contexts_check returns for odd numbers.
EAGAIN = -11
SEED = 0x1234567812345678    # of the first call of each FIRE, or of all (modules/work.h)


def recorded(command, words, context, n=N):
    """The objects that a command writes about the calls of a context; calls by level; its last note."""
    owner = session(*words, "-o", OUT, "-f", "ndjson", command=command)
    made = call(context, n)
    _, err = interrupt(owner)
    same(f"{command} {context}: exit status", owner.returncode, 0)
    return [json.loads(line) for line in OUT.read_text().splitlines()], made, err


def by_level(calls):
    """How many there are at each level."""
    counts = dict.fromkeys(LEVELS, 0)
    for one in calls:
        counts[one.get("context", "task")] += 1
    return counts


def names(one):
    return [function["name"].split(" ")[0] for function in one["functions"]]


def traced():
    """`trace` has each call at its level, with its result, and nothing of others in it."""
    for context, traits in CONTEXTS.items():
        # Who is woken by a timer of another processor may call thousands of functions until that is
        # done with it. No ring has room for them, and this task waits for the reader behind all calls.
        if context == "sleep":
            continue
        function = traits.get("function", "contexts_work")
        calls, made, err = recorded("trace", [f"fn:{function}"], context)
        if context == "recursion":
            made["task"] = N
        same(f"trace {context}: calls by level", by_level(calls), made)
        check(f"trace {context}: nothing is lost", "records lost 0, calls missed " in err and "not shown" not in err, err)
        check(f"trace {context}: each has ended", all(one["duration_ns"] is not None for one in calls), calls[:2])
        check(f"trace {context}: and is of a processor if it is in an interrupt",
              all(("cpu" in one) == ("context" in one) and one.get("cpu", 0) < os.cpu_count() for one in calls), calls[:2])
        wanted = {"contexts_many": [function, "contexts_work"], "contexts_wide": [function, "contexts_work"],
                  "contexts_tail": [function, "contexts_work"],
                  "contexts_recurse": [function, "contexts_work"] * 8}.get(function, [function])
        check(f"trace {context}: what each calls", all(names(one)[:len(wanted)] == wanted for one in calls),
              [names(one) for one in calls[:2]])


def results_and_times():
    """Results and times are those of the call, at each level."""
    for context in CHECKS:
        calls, made, _ = recorded("trace", ["fn:contexts_check", "-d"], context)
        same(f"trace -d {context}: calls by level", by_level(calls), made)
        for level in LEVELS:
            results = [one["result"] for one in calls if one.get("context", "task") == level]
            same(f"trace -d {context}: results, {level}", results, [0, EAGAIN] * (made[level] // 2))
        check(f"trace -d {context}: times", all(one["functions"][0]["duration_ns"] is not None for one in calls), calls[:2])


def interrupted():
    """A call that is interrupted has its own functions. What interrupts it stands apart from them."""
    calls, made, err = recorded("trace", ["fn:contexts_interrupted", "fn:contexts_work"], "nested")
    outer = [one for one in calls if one["function"].startswith("contexts_interrupted")]
    inner = [one for one in calls if one["function"].startswith("contexts_work")]
    same("interrupted: calls by level", (by_level(outer), by_level(inner)),
         ({"task": N // FIRE, "softirq": 0, "irq": 0}, {"task": 0, "softirq": 0, "irq": made["irq"]}))
    check("interrupted: what interrupts calls nothing", all(names(one) == ["contexts_work"] for one in inner), inner[:2])
    check("interrupted: each of the outer call's own, and no others", all(names(one).count("contexts_work") == FIRE for one in outer), outer[:2])


def beside_others():
    """Functions beside a system call in one session, and in an interrupt of another session's call."""
    calls, made, err = recorded("trace", ["sys:write", "fn:contexts_work", "-n", Path("/proc/self/comm").read_text().strip()],
                                "nested")
    outer = [one for one in calls if one["syscall"] == "write"]
    check("beside a system call: its calls", len(outer) >= 2 and by_level(calls) == {"task": len(calls), "softirq": 0, "irq": 0}, calls[:2])
    same("beside a system call: what it calls", max(names(one).count("contexts_work") for one in outer), made["task"])
    calls, made, err = recorded("trace", ["sys:write", "fn:contexts_work"], "nested")
    inner = [one for one in calls if one["syscall"] is None]
    same("in a system call: calls in interrupts", (by_level(inner), {tuple(names(one)) for one in inner}),
         ({"task": 0, "softirq": 0, "irq": made["irq"]}, {("contexts_work",)}))
    other = session("insn", "fn:contexts_interrupted", "-f", "json")
    calls, made, err = recorded("trace", ["fn:contexts_work"], "nested")
    same("in another session's call", by_level(calls), made)
    check("in another session's call: nothing of the other", all(names(one) == ["contexts_work"] for one in calls), calls[:2])
    same("the other's calls", json.loads(interrupt(other)[0])["targets"][0]["calls"], N // FIRE)


FLIPS = f"""import time
while True:
    for on in "10":
        time.sleep(0.01)
        open({str(KEY)!r}, "w").write(on)"""


def given_up():
    """A call in a softirq whose text changes meanwhile is given up; what it interrupts is whole."""
    if os.cpu_count() == 1:
        return
    flips = background("/usr/bin/python3", "-c", FLIPS)
    cut = 0
    for round_ in range(20):
        calls, _, err = recorded("trace", ["fn:contexts_cut", "fn:contexts_held"], "cut", FIRE)
        outer = [one for one in calls if one["function"].startswith("contexts_cut")]
        inner = [one for one in calls if one["function"].startswith("contexts_held")]
        same(f"given up, {round_}: calls by level", (by_level(outer), by_level(inner)),
             ({"task": 1, "softirq": 0, "irq": 0}, {"task": 0, "softirq": CUT_CALLS, "irq": 0}))
        check(f"given up, {round_}: what is interrupted has ended, with its functions",
              all(one["duration_ns"] is not None and names(one).count("contexts_work") == FIRE for one in outer), outer)
        check(f"given up, {round_}: and none of the interrupt's", all("contexts_held" not in names(one) for one in outer), outer)
        lost = sum(one["duration_ns"] is None for one in inner)
        check(f"given up, {round_}: what has no end is missed", re.search(rf"calls missed {lost}\b", err) and "not shown" not in err, err)
        cut += lost
        if cut >= 3:
            break
    check("given up: some were", cut > 0, cut)
    flips.kill()
    flips.communicate()


def kept_and_shown():
    """A recording has the contexts, too; and viewers get a track for each."""
    kept = Path("/run/recorded.jifl")
    calls, made, _ = recorded("trace", ["fn:contexts_check", "-d", "--record", kept], "checks-nested")
    end = run("jifl", "report", kept, "-f", "ndjson")
    same("a recording has the same calls", [json.loads(line) for line in end.stdout.splitlines()], calls)
    end = run("jifl", "report", kept, "-f", "text")
    same("lines for people", sum(line.startswith("[irq/") for line in end.stdout.splitlines()), made["irq"])
    end = run("jifl", "report", kept, "-f", "chrome")
    events = json.loads(end.stdout)["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    shown = sum(tracks.get(event["tid"], "").startswith("irq/") for event in events
                if event["ph"] == "X" and event["name"].startswith("fn:"))
    same("a viewer's tracks", shown, made["irq"])


def explained():
    """`why` has each call that failed, at each level, and the branch that decided it."""
    for context in CHECKS:
        groups, made, err = recorded("why", ["fn:contexts_check", "--all"], context)
        failed = {level: number // 2 for level, number in made.items()}
        same(f"why {context}: failed calls by level", by_level(groups), failed)
        check(f"why {context}: the error", all(one["errno"] == "EAGAIN" for one in groups), groups[:1])
        check(f"why {context}: the function that decided", all(
            one["decided"] is not None and one["branches"][one["decided"]]["function"].startswith("contexts_check")
            for one in groups), groups[:1])
        check(f"why {context}: nothing is lost", "lost 0" in err, err)


def values():
    """Histograms of arguments and times have each call, at each level."""
    for context in CHECKS:
        for what in ("hist:ARG0", "hist:duration"):
            owner = session(what, "fn:contexts_check", "-f", "json")
            made = call(context)
            got, = json.loads(interrupt(owner)[0])["targets"]
            same(f"{what} {context}", (got["calls"], got["missed"]), (sum(made.values()), 0))
            if what == "hist:ARG0":
                same(f"{what} {context}: least and most", (got["min"], got["max"]),
                     (SEED, SEED + (N if context == "checks" else FIRE) - 1))
            else:
                check(f"{what} {context}: least and most", 0 < got["min"] <= got["max"], got)


def accessed():
    """`mem` has what each call loads and stores, at each level."""
    for context in CHECKS:
        owner = session("fn:contexts_check", "-f", "json", "-o", OUT, command="mem")
        made = call(context)
        _, err = interrupt(owner)
        data = json.loads(OUT.read_text())
        same(f"mem {context}: calls", (data["calls"], data["missed"], data["stray"]), (sum(made.values()), 0, 0))
        tries = [one for one in data["objects"] if one["name"].startswith("contexts_tries")]
        # One load, and two cmpxchg.
        same(f"mem {context}: the variable's loads", sum(one["loads"] for one in tries), 3 * data["calls"])


def contended():
    """`lock` has each cmpxchg that was tried again, at each level."""
    for context in CHECKS:
        rows, made, err = recorded("lock", ["fn:contexts_check"], context)
        retries = sum(row["retries"] or 0 for row in rows if (row["caller"] or "").startswith("contexts_check"))
        same(f"lock {context}: retries", retries, sum(made.values()))


def pause(load, how):
    for process in load:
        os.killpg(process.pid, how)


def busy(rounds):
    """The kernel's own functions, while all contexts are busy: whose each record is is known."""
    load = start_load()
    targets = targets_everywhere()
    levels = dict.fromkeys(LEVELS, 0)
    whole = 0
    for round_ in range(rounds + 10):
        if round_ >= rounds and whole:
            break
        words = [["-A", "-d"], [], ["-A"], ["-d"]][round_ % 4]
        end = run("jifl", "trace", *targets, *words, "--no-adopt", "--for", f"{100 // (round_ + 1)}ms", "-f", "ndjson", "-o", OUT)
        if not check(f"busy {words}", end.returncode == 0, end):
            break
        pause(load, signal.SIGSTOP)
        calls = [json.loads(line) for line in OUT.read_text().splitlines()]
        pause(load, signal.SIGCONT)
        for level, number in by_level(calls).items():
            levels[level] += number
        if "records lost 0," not in end.stderr or "beyond --limit" in end.stderr:
            continue
        whole += 1
        check(f"busy {words}: each record is somebody's", "follow lost ones" not in end.stderr, end.stderr)
        # Those in flight at the end have none.
        ended = [one for one in calls if one["duration_ns"] is not None]
        first = [one["functions"][0]["name"] if one["functions"] else None for one in ended]
        check(f"busy {words}: each call begins with its function",
              all(name == one["function"].replace("@", " [") + ("]" if "@" in one["function"] else "")
                  for name, one in zip(first, ended)),
              [(name, one) for name, one in zip(first, ended) if name != one["function"]][:2])
    check("busy: calls at each level", all(levels.values()), levels)
    figure("busy: calls recorded", levels)
    check("busy: there were rounds that lost no record", whole > 0, round_)
    return load


def recorded_in_contexts(rounds="1"):
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    traced()
    results_and_times()
    interrupted()
    beside_others()
    given_up()
    kept_and_shown()
    explained()
    values()
    accessed()
    contended()
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    ends_clean(busy(2 * int(rounds)), mark)


if __name__ == "__main__":
    main(recorded_in_contexts)
