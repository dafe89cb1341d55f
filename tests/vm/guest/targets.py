# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plugins about functions: calls begin and end in each context, as often as they are made.

usage: targets.py PLUGINS MODULE

PLUGINS: a directory with RELEASE/targets.ko. MODULE: jifl.ko that takes a planted bug. The module
jifl_contexts calls functions of its own in known contexts.
"""

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

from contexts import CALLS_ON, CONTEXTS, DEPTH, FILE, FIRE, LEVELS, MODULE, N, call, calls, end_callers, target_of
from kinds import interrupts, packets, softirqs, traffic, up
from lib import (background, check, complaints, figure, interrupt, kernel_log, log_mark, main, plant, report, run, same,
                 session, state_of, status, wait_for)

PLUGINS = Path(sys.argv[1]) / os.uname().release
CROSSINGS = 3   # calls that sleep while the cache is emptied
EMPTIED = 2.5   # seconds: a full cache is emptied within them, if the machine has the time
PARAMETERS = Path("/sys/module/targets/parameters")
# Called at every level, with any lock held, and by the plugin's own functions.
EVERYWHERE = ("_raw_spin_lock*", "_raw_spin_unlock*", "ktime_get", "kfree", "kmem_cache_free", "try_to_wake_up",
              "update_curr", "hrtimer_interrupt", "rcu_core", "tick_*")


def good(name, *words):
    end = run("jifl", *words)
    return check(name, end.returncode == 0 and not end.stderr, end)


def start(target, **parameters):
    """Starts the plugin for a target; where the log stands then."""
    for name, value in {"calls": "N", "twice": "N", **parameters, "target": target}.items():
        # As a shell's echo writes it.
        (PARAMETERS / name).write_text(f"{value}\n")
    mark = log_mark()
    good(f"it starts: {target}", "start", "targets")
    return mark


def stop(mark):
    """Its figures."""
    good("it stops", "stop", "targets")
    lines = [line for line in kernel_log(mark) if line.startswith("targets: ")]
    got = {name: int(value) for line in lines for name, value in re.findall(r"(\w+) (-?\d+)", line)}
    for what in ("wrong", "refused", "stale"):
        same(f"nothing is {what}", got[what], 0)
    return got


def begun(got, of="begun"):
    return {level: got[f"{of}_{level}"] for level in LEVELS}


def each_context():
    """Each call begins and ends once, at the level at which it is made, with its argument and its result."""
    for context, traits in CONTEXTS.items():
        function = traits.get("function", "contexts_work")
        mark = start(f"fn:{function}")
        made = call(context)
        got = stop(mark)
        # Of a recursion the outermost call; the others are a part of it.
        outermost = {level: n // (DEPTH + 1) for level, n in made.items()} if context == "recursion" else made
        nested = sum(made.values()) - sum(outermost.values())
        same(f"{context}: calls that began", begun(got), outermost)
        same(f"{context}: calls that ended", begun(got, "ended"), outermost)
        same(f"{context}: missed", got["missed"], nested)
        same(f"{context}: arguments, results", (got["arguments"], got["results"]), (sum(outermost.values()),) * 2)
        if function == "contexts_work":
            same(f"{context}: arguments were those", got["seed_bucket"], sum(made.values()))
            same(f"{context}: its routine, each time that it begins", (got["routines"], got["left"]),
                 (sum(made.values()),) * 2)
        if context == "task":
            figure("instructions of a call, without those before its door", got["insns"] / N)
            cost = counted_beside(function)
            check("as many as are counted", cost - 2 <= got["insns"] / N < cost, (cost, got["insns"] / N))


def counted_beside(function):
    """What `jifl count insn` says that each call executes."""
    owner = session("insn", f"fn:{function}", "-f", "json")
    call("task")
    got = target_of(report(interrupt(owner)[0]), function)
    same("each call executes the same", got["min"], got["max"])
    return got["min"]


def beside():
    """Two targets of a plugin, and sessions of the command, on the same functions: all count all."""
    own = session("insn", "fn:contexts_work", "-f", "json")
    outer = session("block", "sys:write", "-p", os.getpid(), "-f", "json")
    mark = start("fn:contexts_work", twice="Y")
    made = call("task")
    got = stop(mark)
    same("one", (got["begun_task"], got["ended_task"], got["missed"]), (made["task"], made["task"], 0))
    same("the other", (got["others"], got["both"], got["missed_by_other"]), (made["task"], made["task"], 0))
    counted = target_of(report(interrupt(own)[0]), "contexts_work")
    same("the command's", (counted["calls"], counted["missed"]), (made["task"], 0))
    check("the system calls were counted", report(interrupt(outer)[0])["by_name"]["write"]["calls"] >= 2)


def names():
    """Patterns and modules mean the functions that they say."""
    mark = start("fn:contexts_?i*@jifl_contexts")
    made = call("wide")
    got = stop(mark)
    same("a pattern", got["begun_task"], made["task"])
    mark = start("mod:jifl_contexts")
    made = call("tail")
    got = stop(mark)
    # What makes the calls is the module's, too: they are parts of its call.
    check("a module", 0 < got["begun_task"] == got["ended_task"] and got["missed"] >= made["task"], got)
    check("its routines", got["routines"] >= got["begun_task"] + got["missed"], got)
    same("its functions are held", run("rmmod", "jifl_contexts").returncode, 0)
    mark = log_mark()
    end = run("jifl", "start", "targets")
    check("a module that is gone", end.returncode == 1 and end.stderr.count("\n") == 1, end)
    check("is told in the log", [line for line in kernel_log(mark) if line.endswith("no such module")], kernel_log(mark))
    same("it comes again", run("insmod", MODULE).returncode, 0)
    mark = start("mod:jifl_contexts")
    end = run("rmmod", "jifl_contexts")
    check("it cannot go meanwhile", end.returncode != 0 and "in use" in end.stderr, end)
    stop(mark)


def all_begun(got):
    same("all that began have ended", begun(got), begun(got, "ended"))
    return sum(begun(got).values())


def kinds():
    """Some calls of a function: those as a work item, by a timer, for an interrupt; and what a softirq is."""
    for word, context, want in (("work:work_item", "work", N // FIRE), ("work:work_item@jifl_contexts", "work", N // FIRE),
                                ("timer:timer_function", "timer", N // FIRE),
                                ("timer:hrtimer_function@jifl_contexts", "hrtimer", N // FIRE),
                                ("work:contexts_work", "work", 0), ("work:contexts_work", "task", 0),
                                ("timer:work_item", "work", 0)):
        mark = start(word)
        call(context)
        got = stop(mark)
        same(f"{word} {context}", (all_begun(got), got["missed"]), (want, 0))
    own = session("call", "work:work_item", "-f", "json")
    mark = start("work:work_item", twice="Y")
    call("work")
    got = stop(mark)
    same("two targets of one kind", (all_begun(got), got["others"], got["both"], got["missed"]), (N // FIRE,) * 3 + (0,))
    rows = report(interrupt(own)[0])["by_name"]
    same("the command counts as many", [row["calls"] for row in rows.values()], [N // FIRE])
    up("lo")
    for word, level in (("softirq:NET_RX", "softirq"), ("softirq:net_[r]x", "softirq")):
        before = softirqs()["NET_RX"]
        mark = start(word)
        began = softirqs()["NET_RX"]
        packets(N)
        ends = softirqs()["NET_RX"]
        got = stop(mark)
        after = softirqs()["NET_RX"]
        calls_made = all_begun(got)
        check(f"{word}: calls", N <= ends - began <= calls_made + got["missed"] <= after - before, (before, got, after))
        same(f"{word}: at their level", calls_made, got[f"begun_{level}"])
    nr, name = busy_irq()
    for word in (f"irq:{nr}", f"irq:{name}"):
        before = interrupts()[nr]
        mark = start(word)
        began = interrupts()[nr]
        traffic()
        ends = interrupts()[nr]
        got = stop(mark)
        after = interrupts()[nr]
        same(f"{word}: in hard interrupts", all_begun(got), got["begun_irq"])
        check(f"{word}: calls", 0 < ends - began <= got["begun_irq"] + got["missed"] <= after - before,
              (before, began, ends, after, got))
        figure(f"{word}: least, begun, most", (ends - began, got["begun_irq"], after - before))


def busy_irq():
    """The number and the name of the interrupt of a device that comes most often while there is traffic, of one name."""
    before = interrupts()
    traffic()
    after = interrupts()
    lines = [line.split() for line in Path("/proc/interrupts").read_text().splitlines()[1:]]
    names_of = {int(words[0][:-1]): words[-1] for words in lines if words[0][:-1].isdigit()}
    alone = [nr for nr, name in names_of.items() if list(names_of.values()).count(name) == 1]
    nr = max(alone, key=lambda nr: after[nr] - before[nr])
    return nr, names_of[nr]


def refusals():
    """What cannot be a target is refused with its cause; nothing is instrumented then."""
    for target, cause in (("vfs_read", "a target is fn:NAME"), ("fn:no_such_function", "no such function"),
                          ("fn:__schedule", "__schedule: "), ("fn:contexts_again", "it has no call of the tracer"),
                          ("softirq:NETRX", "no such softirq: /proc/softirqs"), ("softirq:", "a target is fn:NAME"),
                          ("irq:9999", "no such interrupt of a device"), ("irq:no-such-device", "no such interrupt"),
                          ("work:contexts_w*", "no pattern"), ("work:no_such_function", "no such function"),
                          ("timer:work_item@no_such", "no such module"), ("timer:", "a target is fn:NAME"),
                          ("kthread:kswapd0", "give a function that the thread calls"),
                          ("sys32:open", "fn:__ia32_sys_NAME")):
        (PARAMETERS / "target").write_text(target)
        mark = log_mark()
        end = run("jifl", "start", "targets")
        check(f"{target} is refused in one line", end.returncode == 1 and end.stderr.count("\n") == 1, end)
        told = [line for line in kernel_log(mark) if line.startswith("jifl: plugin targets: ")]
        check(f"{target}: the log has the cause", len(told) == 1 and cause in told[0], told)
        figure(f"{target}", told)
        same(f"{target}: no session is left", status()["sessions"], [])


def everywhere():
    """Functions that are called at each level, and by what is inserted: nothing recurses, and none is lost."""
    callers = [background("/usr/bin/python3", "-c", CALLS_ON) for _ in range(2)]
    total = {level: 0 for level in LEVELS}
    for name in EVERYWHERE:
        mark = start(f"fn:{name}", calls="Y")
        good("a program runs", "status")
        got = stop(mark)
        for level in LEVELS:
            total[level] += got[f"begun_{level}"]
            # A call that runs when the session ends has no end; one of each task and processor.
            lost = got[f"begun_{level}"] - got[f"ended_{level}"]
            check(f"{name}: calls in {level} end", 0 <= lost <= 20, got)
    check("calls at each level", all(total.values()), total)
    figure("calls at each level", total)
    end_callers(callers)


def sleepers():
    """A call that sleeps when its session ends has no end, and the next session does not know it."""
    Path(FILE).write_text("reset 0")
    mark = start("fn:contexts_leave")
    caller = background("sh", "-c", f"echo 'leave {FIRE}' >{FILE}")
    stack = Path(f"/proc/{caller.pid}/stack")
    wait_for("the function sleeps", lambda: "contexts_stay" in stack.read_text() and state_of(caller.pid) == "S")
    got = stop(mark)
    same("it has begun, and not ended", (got["begun_task"], got["ended_task"]), (1, 0))
    mark = start("fn:contexts_leave")
    caller.send_signal(signal.SIGTERM)
    caller.communicate()
    got = stop(mark)
    same("it is nobody's", (got["begun_task"], got["ended_task"]), (0, 0))
    same("it was called", calls("leave"), dict.fromkeys(LEVELS, 0) | {"task": 1})


def flushes(module):
    """In a cache that is too small: what is done at ends is asked for anew, and calls go on."""
    good("it is unloaded", "unload", "targets")
    good("jifl is unloaded", "unload", "jifl")
    same("jifl is loaded with a small cache", run("insmod", module, "cache_kb=128", "side_kb=256",
                                                     *plant()).returncode, 0)
    load()
    busy = "ls -l /usr/lib | sort | tail -1; cat /proc/version; id; date; df"

    def emptied(times):
        def work():
            same("a program runs", run("sh", "-c", busy).returncode, 0)
            return status()["flushes"] >= before + times

        before = status()["flushes"]
        wait_for("the cache is emptied", work, 300)

    mark = start("fn:vfs_*")
    emptied(3)
    got = stop(mark)
    check("it was told", got["generations"] >= 2, got)
    check("calls began and ended", 0 < got["ended_task"] <= got["begun_task"], got)
    figure("with a small cache", got)
    over_a_flush(busy)


def over_a_flush(busy):
    """Where the cache becomes full, the rest of a call runs natively, and sleeps while the cache is emptied."""
    def begun_calls():
        return int((PARAMETERS / "entries").read_text())

    def fill():
        """Fills the cache, and gives it the time to be emptied; no program begins then, so that it stays empty."""
        same("a program runs", run("sh", "-c", busy).returncode, 0)
        time.sleep(EMPTIED)

    def make_a_call():
        Path(FILE).write_text(f"steps {FIRE}")

    others = session("block", "sys:execve", "-f", "json")
    mark = start("fn:contexts_steps")
    # A call may find the cache full all the same. Then it does not begin.
    for _ in range(10 * CROSSINGS):
        fill()
        caller = threading.Thread(target=make_a_call)
        caller.start()
        stack = Path(f"/proc/self/task/{caller.native_id}/stack")
        wait_for("the function sleeps", lambda: "contexts_steps" in stack.read_text())
        fill()
        caller.join()
        if begun_calls() >= CROSSINGS:
            break
    got = stop(mark)
    interrupt(others)
    check("calls began", got["begun_task"] >= CROSSINGS, got)
    same("no call that began before the cache was emptied has an end", got["crossed"], 0)
    check("they are missed", got["missed"] + got["ended_task"] >= got["begun_task"], got)
    figure("calls that sleep while the cache is emptied", got)


def load():
    good("targets is loaded", "load", PLUGINS / "targets.ko")


def program(_, module):
    same("the module loads", run("insmod", MODULE).returncode, 0)
    load()
    each_context()
    beside()
    names()
    kinds()
    refusals()
    sleepers()
    everywhere()
    flushes(module)
    same("the log has no warning", [line for line in complaints() if "plugin targets" not in line], [])


main(program)
