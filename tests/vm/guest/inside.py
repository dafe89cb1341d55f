# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls of a session's function inside calls of other sessions: both count as if they were alone.

usage: inside.py

The module jifl_contexts calls functions of its own, in system calls of this process and elsewhere.
"""

import json
import os
from itertools import product
from pathlib import Path

from contexts import CONTEXTS, DEPTH, FILE, FIRE, MODULE, N, calls, target_of
from lib import background, check, complaints, figure, interrupt, main, report, run, same, same_cost, session, status, wait_for

ME = ("-p", os.getpid())
OUTER = ("sys:writev", *ME)
WORK = "contexts_work"
# System calls that make the calls. While the first one is translated, the scheduler may come due: it
# executes some instructions more.
TIMES = 3


def call(context, times=TIMES):
    """Has functions called in this many writevs, of which there is no other; returns the calls by level."""
    Path(FILE).write_text("reset 0")
    with open(FILE, "wb", buffering=0) as file:
        for _ in range(times):
            os.writev(file.fileno(), [f"{context} {N}".encode()])
    return calls(context)


class Beside:
    """Sessions of `jifl count` at once, each (KIND, WORDS ...); their reports, in that order."""

    def __init__(self, *wanted):
        self.owners = [session(*words, "-f", "json") for words in wanted]
        self.names = [" ".join(str(word) for word in words) for words in wanted]

    def end(self):
        """Ends all, the first one first."""
        reports = []
        for name, owner in zip(self.names, self.owners):
            out, err = interrupt(owner)
            same(f"{name}: exit status", (owner.returncode, err if owner.returncode else ""), (0, ""))
            reports.append(report(out))
        return reports


def count(context, *wanted):
    """The reports of sessions around calls of a context, and the calls that were made."""
    beside = Beside(*wanted)
    made = call(context)
    return beside.end(), made


def cost(target):
    """Least and most of a target's calls."""
    return target.get("min"), target.get("max")


def alone():
    """What the calls cost that nobody else looks at."""
    costs = {}
    for kind in ("insn", "block"):
        (outer,), _ = count("task", (kind, *OUTER))
        (inner,), _ = count("task", (kind, f"fn:{WORK}"))
        costs[kind] = {"outer": outer["by_name"]["writev"], "inner": cost(target_of(inner, WORK))}
    figure("alone", {kind: (both["outer"]["min"], both["inner"]) for kind, both in costs.items()})
    return costs


def least(name, got, want):
    """Checks the least that outer calls execute."""
    same_cost(f"{name}: least cost of the outer calls", (got["min"], got["min"]), (want["min"], want["min"]))


def check_outer(name, data, kind, costs, calls_made=TIMES):
    got = data["by_name"]["writev"]
    same(f"{name}: outer calls", (got["calls"], got["missed_by"]), (calls_made, {}))
    if kind in costs:
        least(name, got, costs[kind]["outer"])


def check_inner(name, data, kind, costs, made):
    got = target_of(data, WORK)
    same(f"{name}: inner calls", (got["calls"], got["missed"]), (made, 0))
    if kind in costs:
        same_cost(f"{name}: cost of the inner calls", cost(got), costs[kind]["inner"])


def pairs(costs):
    """Each kind under each kind; by turns the one or the other begins first."""
    for turn, (outer, inner) in enumerate(product(("insn", "block", "call", "none"), ("insn", "block", "call"))):
        step = (1, -1)[turn % 2]
        reports, made = count("task", *((outer, *OUTER), (inner, f"fn:{WORK}"))[::step])
        name = f"{inner} in {outer}, begun {'first' if turn % 2 else 'last'}"
        if outer != "none":
            check_outer(name, reports[::step][0], outer, costs)
        check_inner(name, reports[::step][1], inner, costs, made["task"])


def others(costs):
    """Filters, values and keys of the inner session are looked at, as at doors."""
    for kind in ("insn", "call"):
        reports, made = count("task", ("insn", *OUTER), (kind, f"fn:{WORK}", *ME))
        check_outer(f"{kind} of this process", reports[0], "insn", costs)
        check_inner(f"{kind} of this process", reports[1], kind, costs, made["task"])
        reports, made = count("task", ("insn", *OUTER), (kind, f"fn:{WORK}", "-p", 1))
        check_outer(f"{kind} of another process", reports[0], "insn", costs)
        got = target_of(reports[1], WORK)
        same(f"{kind} of another process: calls", (got["calls"], got["missed"]), (0, 0))
    for what in ("hist:retval", "hist:ARG0", "hist:duration"):
        reports, made = count("task", ("insn", *OUTER), (what, f"fn:{WORK}"))
        check_outer(what, reports[0], "insn", costs)
        check_inner(what, reports[1], None, costs, made["task"])
    for what in ("call", "insn"):
        outer = session("insn", *OUTER, "-f", "json")
        inner = session(what, f"fn:{WORK}", "--by", "comm", "-f", "json")
        made = call("task")
        rows = json.loads(interrupt(inner)[0])["rows"]
        same(f"{what} by comm: calls", sum(row["calls"] for row in rows), made["task"])
        check_outer(f"{what} by comm", report(interrupt(outer)[0]), "insn", costs)


def functions():
    """Calls of a function inside calls of another one, in tasks, softirqs and interrupts."""
    costs = {}
    for context, outer in (("many", "contexts_many"), ("wide", "contexts_wide"), ("tail", "contexts_tail"),
                           ("sleep", "contexts_sleep"), ("timer", "timer_function"), ("hrtimer", "hrtimer_function"),
                           ("irq-work", "irq_work_function"), ("work", "work_item")):
        (one,), _ = count(context, ("insn", f"fn:{outer}@jifl_contexts"))
        (two,), _ = count("task", ("insn", f"fn:{WORK}"))
        costs = {"insn": {"inner": cost(target_of(two, WORK))}}
        reports, made = count(context, ("insn", f"fn:{outer}@jifl_contexts"), ("insn", f"fn:{WORK}"))
        got = target_of(reports[0], outer)
        wanted = target_of(one, outer)
        same(f"{context}: outer calls", (got["calls"], got["missed_by"]), (wanted["calls"], wanted["missed_by"]))
        check(f"{context}: there are some", wanted["calls"] >= N // FIRE and not wanted["missed"], wanted)
        # What a function that sleeps or fires again executes is not always the same.
        if CONTEXTS[context].get("function") and context != "sleep":
            least(context, got, wanted)
        check_inner(context, reports[1], "insn", costs, max(made.values()))


def three(costs):
    """A session inside one that is inside another; and one with targets of both."""
    many = ("insn", "fn:contexts_many")
    (one,), _ = count("many", many)
    (outermost,), _ = count("many", ("insn", *OUTER))
    reports, made = count("many", ("insn", *OUTER), many, ("block", f"fn:{WORK}"))
    least("three, the outermost", reports[0]["by_name"]["writev"], outermost["by_name"]["writev"])
    got = target_of(reports[1], "contexts_many")
    same("three: calls of the middle", (got["calls"], got["missed_by"]), (TIMES * N, {}))
    least("three, the middle", got, target_of(one, "contexts_many"))
    check_inner("three, the innermost", reports[2], "block", costs, TIMES * N)
    # Counted where it is, by who calls it, although another session hooks its return.
    reports, made = count("many", ("insn", *OUTER), ("insn", f"fn:{WORK}"), ("call", f"fn:{WORK}", "--under", "fn:contexts_many"),
                          ("call", f"fn:{WORK}", "--under", "sys:pread64"))
    check_inner("under the function that calls", reports[2], "call", costs, TIMES * N)
    same("under what does not go on", (reports[3]["targets"], reports[3]["missed"]), ([], 0))
    # Recursion is nested for its own session, and begins a call of another one each time.
    both = ("insn", "fn:contexts_recurse", f"fn:{WORK}")
    reports, made = count("recursion", both, ("insn", f"fn:{WORK}"))
    got = target_of(reports[0], "contexts_recurse")
    same("recursion: calls", (got["calls"], got["missed_by"]), (TIMES * N, {"nested": DEPTH * TIMES * N}))
    got = target_of(reports[0], WORK)
    same("recursion: a function that both have, of the outer session", (got["calls"], got["missed_by"]),
         (0, {"nested": (DEPTH + 1) * TIMES * N}))
    check_inner("recursion", reports[1], "insn", costs, (DEPTH + 1) * TIMES * N)
    # The same with a session that counts where it is.
    reports, made = count("recursion", both, ("call", f"fn:{WORK}"), ("insn", f"fn:{WORK}"))
    check_inner("recursion, counted in place", reports[1], "call", costs, (DEPTH + 1) * TIMES * N)
    check_inner("recursion, counted inside", reports[2], "insn", costs, (DEPTH + 1) * TIMES * N)


def figures():
    """What prof and trace tell of the outer calls is the same, with a session inside or without.

    That is so of the module's functions. What the kernel's do may depend on the scheduler.
    """
    def profiled(*beside):
        owner = session(*OUTER, "-f", "json", command="prof")
        inner = Beside(*beside)
        call("task", 1)
        inner.end()
        rows = json.loads(interrupt(owner)[0])["functions"]
        return {row["function"]: row["instructions"] for row in rows if "jifl_contexts" in row["function"]}

    def traced(*beside):
        owner = session(*OUTER, command="trace")
        inner = Beside(*beside)
        call("task", 1)
        inner.end()
        return [line for line in interrupt(owner)[0].splitlines() if "[jifl_contexts]" in line]

    for name, read in (("prof", profiled), ("trace", traced)):
        want = read()
        check(f"{name}: the function and its caller are there", WORK in str(want) and "contexts_write" in str(want), want)
        for kind in ("insn", "call"):
            got = read((kind, f"fn:{WORK}"))
            same(f"{name} with {kind} inside", got, want)


def not_held():
    """In calls of tools that hold no others the inner call is missed, and says so."""
    for words, command in ((OUTER, "why"), (OUTER, "mem"), (OUTER, "lock")):
        owner = session(*words, command=command)
        inner = Beside(("insn", f"fn:{WORK}"), ("call", f"fn:{WORK}"))
        call("task")
        missed, in_place = inner.end()
        interrupt(owner)
        got = target_of(missed, WORK)
        same(f"in {command}: calls", (got["calls"], got["missed_by"]), (0, {"nested": TIMES * N}))
        same(f"in {command}: where only calls count", target_of(in_place, WORK)["calls"], TIMES * N)


def ends():
    """Sessions end while a task sleeps in a call of both."""
    for last in ("inner", "outer"):
        beside = Beside(("insn", "sys:write", "-n", "sh"), ("insn", "fn:contexts_stay"))
        writer = background("sh", "-c", "echo leave 10 > /proc/jifl_contexts")
        inner = lambda: [one for one in status()["sessions"]]
        wait_for("the task sleeps", lambda: "contexts_stay" in open(f"/proc/{writer.pid}/stack").read())
        owners = beside.owners if last == "inner" else beside.owners[::-1]
        out, _ = interrupt(owners[0])
        ended = report(out)
        writer.send_signal(15)
        writer.communicate(timeout=100)
        other = report(interrupt(owners[1])[0])
        calls("leave")
        # A call whose copies went before its end is missed by both.
        for name, data in (("first", ended), ("last", other)):
            rows = data["by_name"].values()
            check(f"{last} ends last: the one that ends {name} misses the call",
                  sum(row["missed"] for row in rows) >= 1 and not any(row.get("calls") for row in rows), data["targets"])
        same("no session is left", inner(), [])


def rounds(costs):
    """Inner sessions come and go; the outer one misses nothing."""
    outer = session("insn", *OUTER, "-f", "json")
    before = status()["flushes"]
    for turn in range(6):
        kind = ("insn", "block")[turn % 2]
        (inner,), made = count("task", (kind, f"fn:{WORK}"))
        check_inner(f"round {turn}", inner, kind, costs, made["task"])
        call("task")
    same("the cache was not emptied meanwhile", status()["flushes"], before)
    check_outer("the one that stays", report(interrupt(outer)[0]), "insn", costs, 12 * TIMES)


def profiles():
    """Inserts of an entry piece have nothing of the piece before: prof and insn, in both orders."""
    for turn in range(3):
        first = session(f"fn:{WORK}", "-f", "json", command="prof")
        second = session("insn", f"fn:{WORK}", "-f", "json")
        call("task")
        profile = json.loads(interrupt(first)[0])
        third = session(f"fn:{WORK}", "-f", "json", command="prof")
        call("task")
        again = json.loads(interrupt(third)[0])
        counted = target_of(report(interrupt(second)[0]), WORK)
        same(f"turn {turn}: calls", (counted["calls"], counted["missed"]), (2 * TIMES * N, 0))
        same(f"turn {turn}: profiles", *({row["function"]: row["instructions"] for row in data["functions"]}
                                         for data in (profile, again)))


def program():
    same("the module is there", run("insmod", MODULE).returncode, 0)
    costs = alone()
    profiles()
    pairs(costs)
    others(costs)
    functions()
    three(costs)
    figures()
    not_held()
    ends()
    rounds(costs)
    same("the module has said nothing else", complaints(), [])


main(program)
