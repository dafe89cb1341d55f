# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls are counted if they are made under something, as the module jifl_contexts says of them.

usage: under.py
"""

from pathlib import Path

from contexts import DEPTH, MODULE, N, call, counted, target_of
from lib import check, complaints, interrupt, kernel_log, log_mark, main, report, run, same, session, status

WORK = "fn:contexts_work"


def under(words, context, *those, what="call"):
    """What is counted of the calls in a context under those, and what the module says of them."""
    scope = [word for one in those for word in ("--under", one)]
    data, made = counted(what, words, context, *scope)
    return {name: target_of(data, name) for name in (word.removeprefix("fn:") for word in words)}, made


def one(context, *those, function=WORK):
    """How many calls of a function are counted, and those that the module has made, by level."""
    got, made = under([function], context, *those)
    same(f"{context} under {those}: missed", [row["missed_by"] for row in got.values()], [{}])
    return got[function.removeprefix("fn:")]["calls"], made


def system_calls():
    """What a task does in a system call is under it; what others do meanwhile is not."""
    for context in ("task", "irq-off", "sleep"):
        function = "fn:contexts_sleep" if context == "sleep" else WORK
        calls, made = one(context, "sys:write", function=function)
        same(f"{context}: under write", calls, made["task"])
        same(f"{context}: under read", one(context, "sys:read", function=function)[0], 0)
    calls, made = one("task", "sys:read", "sys:write")
    same("task: under either", calls, made["task"])
    for context in ("kthread", "work", "timer", "ipi"):
        same(f"{context}: nobody is in a system call there", one(context, "sys:*")[0], 0)


def functions():
    """A function is on the stack, or it is not."""
    for context, name, level in (("work", "work_item", "task"), ("tasklet", "tasklet_function", "softirq"),
                                 ("hrtimer", "hrtimer_function", "irq"), ("task", "contexts_write", "task")):
        calls, made = one(context, f"fn:{name}@jifl_contexts")
        check(f"{context}: calls were made", made[level] >= N, made)
        same(f"{context}: under {name}", calls, made[level])
    same("under another function", one("task", "fn:vfs_getattr")[0], 0)
    # Half of these calls are made in interrupts in the middle of the function.
    calls, made = one("nested", "fn:contexts_interrupted")
    check("nested: at both levels", made["task"] and made["irq"], made)
    same("nested: an interrupt is under nothing that it interrupts", calls, made["task"])
    # The function calls from the part that the compiler has put aside of it.
    parts = [line.split()[2] for line in Path("/proc/kallsyms").read_text().splitlines() if "contexts_aside.cold" in line]
    check("there is such a part", parts, "contexts_aside.cold")
    calls, made = one("aside", "fn:contexts_aside")
    same("aside: under a function that stands in its cold part", calls, made["task"])
    # All but the outermost call of each recursion.
    calls, made = one("recursion", "fn:contexts_recurse", function="fn:contexts_recurse")
    same("recursion: a call is not under itself", (calls, made["task"]), (N * DEPTH, N * (DEPTH + 1)))


def in_the_cache():
    """Calls that copies make are looked at, too, and a call that counts costs what it did."""
    both = ["fn:contexts_interrupted", WORK]
    for that, expected in (("sys:write", True), ("sys:read", False)):
        got, made = under(both, "nested", that)
        same(f"nested, both functions, under {that}: the caller", got["contexts_interrupted"]["calls"] > 0, expected)
        same(f"nested, both functions, under {that}", got["contexts_work"]["calls"], made["task"] * expected)
    plain, _ = under([WORK], "task", what="insn")
    got, made = under([WORK], "task", "sys:write", what="insn")
    same("insn: calls", got["contexts_work"]["calls"], made["task"])
    same("insn: of a call", got["contexts_work"]["mean"], plain["contexts_work"]["mean"])
    # What the walk itself calls.
    owner = session("call", "fn:__unwind_start", "fn:*stack_info*", "fn:__module_address", WORK, "--under",
                    "fn:contexts_write@jifl_contexts", "-f", "json")
    made = call("task")
    data = report(interrupt(owner)[0])
    same("beside functions of the unwinder", target_of(data, "contexts_work")["calls"], made["task"])
    # The caller runs in the cache, of another session: its frame is found all the same.
    owner = session("block", "fn:contexts_write@jifl_contexts", "--only", "-f", "json")
    calls, made = one("task", "fn:contexts_write@jifl_contexts")
    data = report(interrupt(owner)[0])
    same("the caller ran in the cache", data["by_name"]["contexts_write"]["calls"], 2)
    same("under a function that runs in the cache", calls, made["task"])


def refusals():
    """What cannot be is refused in one line."""
    for words, hint in ((["sys:read", "--under", "sys:write"], "fn:ksys_read"),
                        ([WORK, "--under", "fn:no_such_function_at_all"], "no such function"),
                        ([WORK, "--under", "work:vmstat_update"], "give the function"),
                        ([WORK, "--under", "kthread:kswapd0"], "give the function"),
                        ([WORK, "--under", "fn:*", "--yes"], "at most 4,096")):
        end = run("jifl", "count", "call", *words, "--for", "100ms")
        check(f"{words} is refused", end.returncode == 2 and end.stderr.count("\n") == 1 and hint in end.stderr, end)


def all_of_it():
    mark = log_mark()
    run("insmod", MODULE)
    system_calls()
    functions()
    in_the_cache()
    refusals()
    run("rmmod", "jifl_contexts")
    same("no session is left", status()["sessions"], [])
    same("nothing is said", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(all_of_it)
