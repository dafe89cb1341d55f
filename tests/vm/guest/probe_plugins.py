# SPDX-License-Identifier: MIT OR Apache-2.0
"""Probes of plugins: each execution calls once, in each context, in copies and natively.

usage: probe_plugins.py PLUGINS ROUNDS

PLUGINS: a directory with RELEASE/NAME.ko of plugins/probes.c, under two names. What is right is
known from the module jifl_contexts.
"""

import itertools
import json
import os
import re
import sys
import time
from pathlib import Path

from contexts import CALLS_ON, CONTEXTS, FIRE, MODULE, N, call, end_callers, worked
from lib import background, check, complaints, figure, interrupt, kernel_log, log_mark, main, run, same, session, status, wait_for
from probe import Graphs, Kprobes, loop_of_work

PLUGINS = Path(sys.argv[1]) / os.uname().release
# contexts_work goes round its loop so often in a call, and is first called with this.
ROUNDS, SEED = 3, 0x1234567812345678
KPROBES = Path("/sys/kernel/debug/kprobes/list")
INTERRUPTED = ("timer", "tasklet", "hrtimer", "irq-work", "ipi")


def good(name, *words):
    end = run("jifl", *words)
    return check(name, end.returncode == 0 and not end.stderr, end)


# What the log has said of refusals.
SAID = []


class Plugin:
    """plugins/probes.c under one of its names, loaded."""

    def __init__(self, name):
        self.name = name
        self.parameters = Path(f"/sys/module/{name}/parameters")
        good(f"{name} is loaded", "load", PLUGINS / f"{name}.ko")

    def set(self, places, how="count", equal=0, ordered="N", apart="N"):
        for name, value in {"places": " ".join(places), "call": how, "equal": equal, "ordered": ordered, "apart": apart}.items():
            (self.parameters / name).write_text(str(value))

    def start(self, places, how="count", **options):
        self.set(places, how, **options)
        good(f"{self.name} starts: {how}", "start", self.name)

    def refused(self, said, places, how="count", **options):
        """It does not start, and the log says why."""
        self.set(places, how, **options)
        mark = log_mark()
        end = run("jifl", "start", self.name)
        check(f"{places} is refused", end.returncode == 1 and "did not start" in end.stderr, end)
        lines = [line for line in kernel_log(mark) if f"plugin {self.name}: " in line]
        check(f"{places}: the log says why", len(lines) == 1 and said in lines[0], lines)
        SAID.extend(lines)

    def rows(self):
        """Calls, sum, wrong and uncalled ones of each probe."""
        return [[int(word) for word in line.split()] for line in (self.parameters / "result").read_text().splitlines()]

    def results(self):
        """Calls and sum of each probe; nothing is wrong."""
        rows = self.rows()
        same(f"{self.name}: wrong, uncalled", [row[2:] for row in rows if any(row[2:])], [])
        return [row[0] for row in rows], [row[1] for row in rows]

    def stop(self, number=None):
        if number is None:
            good(f"{self.name} stops", "stop", self.name)
        else:
            (self.parameters / "stop").write_text(str(number))

    def unload(self):
        good(f"{self.name} is unloaded", "unload", self.name)


def places_of_work(graphs):
    """Places in contexts_work, and how often each is executed in a call."""
    loop, branch = loop_of_work(graphs)
    last = graphs.instructions("contexts_work")[-1][0]
    return {"contexts_work:before": 1, f"contexts_work{loop}:before": ROUNDS, f"contexts_work{branch}:before": ROUNDS,
            f"contexts_work{branch}:taken": ROUNDS - 1, f"contexts_work{branch}:not-taken": 1, f"contexts_work{last}:before": 1}


def each_context(plugin, graphs):
    """At each level, with a door and without one."""
    times = places_of_work(graphs)
    for seldom in ("", ":seldom"):
        for how in ("count", "context"):
            plugin.start([place + seldom for place in times], how)
            made = 0
            for context in CONTEXTS:
                calls = sum(call(context).values())
                made += calls
                same(f"{context}, {how}{seldom}", plugin.results()[0], [number * made for number in times.values()])
            plugin.stop()
            same("no session is left", status()["sessions"], [])


def arguments(plugin, graphs):
    """The first argument, a condition on it, and which way a branch goes."""
    loop, branch = loop_of_work(graphs)
    for seldom in ("", ":seldom"):
        for context in ("task", *INTERRUPTED):
            name = f"{context}{seldom}"
            plugin.start([f"contexts_work:before{seldom}"], "argument")
            made = sum(call(context).values())
            batch = N if context == "task" else FIRE
            total = made * SEED + made // batch * sum(range(batch))
            calls, sums = plugin.results()
            same(f"{name}: arguments", (calls, [number % 2**64 for number in sums]), ([made], [total % 2**64]))
            plugin.stop()
            plugin.start([f"contexts_work:before{seldom}"], "equal", equal=SEED + 3)
            made = sum(call(context).values())
            same(f"{name}: those that are equal", plugin.results()[0], [made // batch])
            plugin.stop()
            plugin.start([f"contexts_work{branch}:before{seldom}"], "branch")
            made = sum(call(context).values())
            calls, targets = plugin.results()
            same(f"{name}: branches taken", calls, [made * (ROUNDS - 1)])
            same(f"{name}: the target", targets[0] % 2**64, address_of("contexts_work") + int(loop, 16))
            plugin.stop()


def address_of(name):
    lines = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    return next(int(address, 16) for address, _, symbol, *_ in lines if symbol == name)


def returns(plugin, graphs):
    """Each execution of a function comes to one of its returns, with what it returns; also to a tail call."""
    batch = {name: sum(worked(SEED + at) for at in range(N if name == "task" else FIRE)) for name in ("task", *INTERRUPTED)}
    for seldom in ("", ":seldom"):
        for context in ("task", *INTERRUPTED):
            plugin.start([f"contexts_work:return{seldom}"], "value")
            made = sum(call(context).values())
            calls, sums = plugin.results()
            times = made // (N if context == "task" else FIRE)
            same(f"{context}{seldom}: what is returned", (sum(calls), sum(sums) % 2**64), (made, times * batch[context] % 2**64))
            plugin.stop()
        plugin.start([f"{name}:return{seldom}" for name in ("contexts_tail", "contexts_recurse", "do_getpgid")], "value")
        tails, deep, ids = sum(call("tail").values()), sum(call("recursion").values()), 50
        for _ in range(ids):
            os.getpgid(0)
        calls, sums = plugin.results()
        # contexts_tail returns by a jump alone, and the value is not known there. The others have several returns.
        same(f"tail calls, recursion, all returns{seldom}", (calls[0], sum(calls[1:]), sums[0]), (tails, deep + ids, 0))
        plugin.stop()
    for function in ("vfs_read", "vfs_write", "do_filp_open", "path_openat", "do_sys_openat2", "exit_mmap"):
        end = run("jifl", "probe", "--list", f"fn:{function}%return")
        check(f"{function} has returns", end.returncode == 0 and end.stdout, end)
        plugin.start([f"{function}:return"])
        same(f"all returns of {function}", len(plugin.rows()), len(end.stdout.splitlines()))
        plugin.stop()
    kprobes = Kprobes(f"contexts_work{graphs.instructions('contexts_work')[1][0]}")
    plugin.refused("kprobes stand in it", ["contexts_work:return"])
    kprobes.clear()
    plugin.refused("the kernel has no function no_such", ["no_such:return"])


def others(plugin, graphs):
    """Functions without a door, recursion, sleep."""
    bare = [f"contexts_bare:before", f"contexts_bare{graphs.instructions('contexts_bare')[-1][0]}:before"]
    plugin.start([*bare, "contexts_recurse:before", "contexts_sleep:before"], "context")
    bares = sum(sum(call(context).values()) for context in ("bare-task", "bare-timer", "bare-irq-work"))
    deep = sum(call("recursion").values())
    slept = sum(call("sleep").values())
    same("without a door, recursion, sleep", plugin.results()[0], [bares, bares, deep, slept])
    plugin.stop()


def natively(plugin, graphs):
    """A kprobe at the function's beginning makes its calls native: the breakpoints call."""
    times = places_of_work(graphs)
    early = graphs.instructions("contexts_work")[1][0]
    for how in ("count", "context"):
        kprobes = Kprobes(f"contexts_work{early}")
        plugin.start(list(times), how)
        made = sum(sum(call(context).values()) for context in ("task", *INTERRUPTED))
        same(f"natively, {how}", plugin.results()[0], [number * made for number in times.values()])
        plugin.stop()
        same("hits of the kprobe", kprobes.hits(), {f"contexts_work{early}": made})
        kprobes.clear()


def together(plugin, other, graphs):
    """Two plugins and `jifl probe` have the same places; each counts, in the order of their starts."""
    times = places_of_work(graphs)
    loop, _ = loop_of_work(graphs)
    twice = [f"contexts_work{loop}:before"] * 3
    for seldom in ("", ":seldom"):
        plugin.start([place + seldom for place in times])
        other.start([place + seldom for place in twice], ordered="Y", apart="Y" if seldom else "N")
        owner = session(f"fn:contexts_work{loop}", "-f", "json", command="probe")
        made = sum(sum(call(context).values()) for context in ("task", "kthread", "irq-off"))
        same("a plugin", plugin.results()[0], [number * made for number in times.values()])
        same("another, in order", other.results()[0], [ROUNDS * made] * 3)
        other.stop(1)
        before = other.results()[0]
        made += sum(call("task").values())
        same("one of its probes is stopped", other.results()[0], [before[0] + ROUNDS * N] * 2 + before[2:])
        same("a plugin goes on", plugin.results()[0], [number * made for number in times.values()])
        same("a session", [row["hits"] for row in json.loads(interrupt(owner)[0])["places"]], [ROUNDS * made])
        made += sum(call("timer").values())
        same("a plugin goes on, without the session", plugin.results()[0], [number * made for number in times.values()])
        other.stop()
        plugin.stop()


def calling_itself(plugin):
    """A probe's function calls what is probed, also by a jump out of it: it is not called for that."""
    for how, seldom in itertools.product(("itself", "tail", "other"), ("", ":seldom")):
        name = f"{how}{seldom}"
        plugin.start([f"__task_pid_nr_ns:before{seldom}"], how)
        for _ in range(N):
            os.getppid()
        (calls, _, wrong, uncalled), = plugin.rows()
        check(f"{name}: calls that call", calls >= N, calls)
        same(f"{name}: nothing is wrong", wrong, 0)
        if how == "other":
            same(f"{name}: what its condition excludes is not missing", uncalled, 0)
        else:
            check(f"{name}: each is not called for its own", uncalled >= N, uncalled)
        plugin.stop()


def stopping_itself(plugin, graphs):
    """A probe that has told itself to stop is gone soon, and costs nothing then."""
    places = [f"contexts_work{place}:before:seldom" for place, _ in graphs.instructions("contexts_work")[2:]]
    plugin.start(places, "once")
    listed = KPROBES.read_text().count("contexts_work+")
    check("breakpoints stand there", listed >= len(places) - 1, (listed, places))
    call("task")
    wait_for("they go", lambda: not KPROBES.read_text().count("contexts_work+"))
    calls = plugin.results()[0]
    check("each has been called", all(calls), calls)
    call("task")
    same("none is called any more", plugin.results()[0], calls)
    plugin.stop()
    same("nothing is left", (status()["sessions"], KPROBES.read_text().count("contexts_work+")), ([], 0))


def refusals(plugin, graphs):
    """Where there can be no probe, and what cannot be asked for there."""
    second = graphs.instructions("contexts_work")[2][0]
    middle = f"+{int(second, 16) + 1:#x}"
    _, branch = loop_of_work(graphs)
    for said, places, how in (
            ("the kernel has no function no_such", ["no_such:before"], "count"),
            ("no instruction begins there", [f"contexts_work{middle}:before"], "count"),
            ("no instruction begins there", ["contexts_work+0x1:before"], "count"),
            ("no branch on a condition stands there", ["contexts_work:taken"], "count"),
            ("there is no such value there", [f"contexts_work{branch}:before"], "argument"),
            ("there is no branch", ["contexts_work:before"], "branch"),
            ("the kernel forbids probes in it", ["exc_page_fault:before"], "count"),
            ("it switches tasks or stacks", ["__schedule:before"], "count"),
            ("JIFL itself calls the function", ["kallsyms_lookup_size_offset:before"], "count")):
        plugin.refused(said, places, how)
    same("no session is left", status()["sessions"], [])


def under_load(plugin, other, graphs, rounds):
    """Plugins come and go while functions run, sleep and recurse."""
    callers = [background("/usr/bin/python3", "-c", CALLS_ON) for _ in range(2)]
    asleep = graphs.instructions("contexts_sleep")
    # Behind the call that sleeps.
    behind = next(asleep[index + 1][0] for index, (_, text) in enumerate(asleep) if "usleep_range" in text)
    places = [*places_of_work(graphs), f"contexts_sleep{behind}:before", "contexts_recurse:before", "vfs_write:before"]
    total = 0
    for round_ in range(6 * rounds):
        one, two = (plugin, other) if round_ % 2 else (other, plugin)
        one.start([place + (":seldom" if round_ % 3 else "") for place in places], "context" if round_ % 4 else "count")
        two.start(places, "once" if round_ % 2 else "context")
        time.sleep(0.1)
        one.stop(3)
        total += sum(one.results()[0])
        one.stop()
        one.unload()
        two.stop()
        two.unload()
        one.__init__(one.name)
        two.__init__(two.name)
    figure("calls made by plugins that come and go", total)
    check("calls were made", total > 0, total)
    end_callers(callers)


def program(_, rounds):
    same("the module with the functions is there", run("insmod", MODULE).returncode, 0)
    graphs = Graphs("fn:contexts_*")
    mark = log_mark()
    plugin, other = Plugin("probes"), Plugin("more_probes")
    each_context(plugin, graphs)
    arguments(plugin, graphs)
    returns(plugin, graphs)
    others(plugin, graphs)
    natively(plugin, graphs)
    together(plugin, other, graphs)
    calling_itself(plugin)
    stopping_itself(plugin, graphs)
    under_load(plugin, other, graphs, int(rounds))
    refusals(plugin, graphs)
    same("the module has nothing else to say", [line for line in complaints(kernel_log(mark)) if line not in SAID], [])
    for each in (plugin, other):
        each.unload()


if __name__ == "__main__":
    main(program)
