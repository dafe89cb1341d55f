# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a call costs in each context, natively, counted, and with a door: exact instructions.

usage: costs.py

The machine's clock counts instructions. jifl_contexts reads it around each call.
"""

from collections import Counter
from pathlib import Path

from contexts import FILE, LEVELS, MODULE, call, target_of
from lib import check, ends_clean, figure, interrupt, log_mark, main, report, run, same, session, status

LEAST = "/proc/jifl_contexts_least"
# They call one function, and nothing but what counts stands between the two readings.
CONTEXTS = ("task", "preempt-off", "bh-off", "irq-off", "spinlock", "kthread", "work", "timer", "tasklet", "hrtimer",
            "irq-work", "ipi", "nested")
# In these a thread of the kernel calls.
THREADS = ("kthread", "work")
# The kinds of doors, by what the names of their contexts begin with: the function that is called,
# and the instructions that a call from native code costs more than without a session: with nothing
# inserted, and counted.
DOORS = {"": ("contexts_work", 16, 18), "bare-": ("contexts_bare", 22, 23)}
# Calls made, by level.
total = Counter()


def least(context):
    """The least instructions of a call in the context, by level, with the reading of the clock."""
    made = call(context)
    total.update(made)
    lines = (line.split() for line in Path(LEAST).read_text().splitlines())
    ticks = {name: [int(number) for number in rest] for name, *rest in lines}[context]
    return {level: ticks for level, ticks in zip(LEVELS, ticks) if made[level]}


def all_of_them(door):
    """The least of each context and level."""
    return {(context, level): ticks for context in CONTEXTS for level, ticks in least(f"{door}{context}").items()}


def under(door, function, what, *scope):
    """The same in a session: its report about the function, and the calls made."""
    owner = session(what, f"fn:{function}", *scope, "-f", "json")
    total.clear()
    ticks = all_of_them(door)
    got = target_of(report(interrupt(owner)[0]), function)
    same(f"{function}: {what} {scope}: missed", got["missed_by"], {})
    return ticks, got, total.total()


def costs(door, function, entered, counted):
    """A counted call is its native cost less one constant, wherever it is made."""
    native = all_of_them(door)
    same(f"{function}: levels", {level for _, level in native}, set(LEVELS))
    _, got, made = under(door, function, "insn")
    same(f"{function}: each call is counted, and costs the same", (got["calls"], got["min"]), (made, got["max"]))
    around = {ticks - got["min"] for ticks in native.values()}
    check(f"{function}: and is less than natively by one constant", len(around) == 1, native)
    figure(f"{function}: instructions of a call", got["min"])
    figure(f"{function}: around it, natively: two readings of the clock, and what checks the result", around.pop())
    for what, most in (("none", entered), ("call", counted)):
        found, got, made = under(door, function, what, "--only")
        same(f"{function}: {what} --only: calls", got["calls"], made if what == "call" else 0)
        more = {}
        for (context, level), ticks in found.items():
            where = "thread" if context in THREADS else level
            more.setdefault(where, set()).add(ticks - native[context, level])
        same(f"{function}: {what} --only: where", set(more), {"thread", *LEVELS})
        figure(f"{function}: {what} --only, what a call from native code costs more", more)
        check(f"{function}: {what} --only: at most {most} instructions anywhere",
              all(max(found) <= most for found in more.values()), more)


def program():
    mark = log_mark()
    same("the module comes", run("insmod", MODULE).returncode, 0)
    Path(FILE).write_text("timed 1")
    for door, (function, entered, counted) in DOORS.items():
        costs(door, function, entered, counted)
    same("no session is left", status()["sessions"], [])
    same("the module goes", run("rmmod", "jifl_contexts").returncode, 0)
    ends_clean([], mark)


if __name__ == "__main__":
    main(program)
