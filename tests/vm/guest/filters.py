# SPDX-License-Identifier: MIT OR Apache-2.0
"""A session counts only the tasks that its filters select, and every call of these tasks.

usage: filters.py CALLS
"""

import os
from pathlib import Path

from lib import background, check, costs_the_same, figure, interrupt, main, report, run, same, session, status, wait_for

CGROUPS = Path("/sys/fs/cgroup")

# What `calls tree` does.
MAIN, THREAD, CHILD, GRANDCHILD = 1000, 200, 50, 7


class Tree:
    """`calls tree`, up to the point where it is told to go."""

    def __init__(self, calls):
        self.process = background(calls, "tree", stdin=-1)
        ids = self.process.stdout.readline().split()
        self.pid, self.tid, self.child, self.grandchild = map(int, ids)

    def go(self):
        self.process.communicate("go\n", timeout=60)
        return self.process.returncode


def exact(name, data, want, kind="insn"):
    """The report has exactly so many calls of getresuid, each of the same cost."""
    target = data["by_name"].get("getresuid", {"calls": 0, "missed": 0, "min": None, "max": None})
    same(f"{name}: calls", target["calls"], want)
    same(f"{name}: missed", target["missed"], 0)
    if want and kind != "call":
        check(f"{name}: a call costs something", target["min"] > 0, target)
        costs_the_same(f"{name}: each call costs the same", target)


def filtered(name, calls, want, arguments, kind="insn", before=lambda tree: None):
    tree = Tree(calls)
    before(tree)
    owner = session(kind, "sys:getresuid", "-f", "json", *arguments(tree))
    same(f"{name}: the program ends well", tree.go(), 0)
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    exact(name, report(out), want, kind)


def of_command(name, want, *words, filters=(), status=0):
    """`jifl count -- CMD`: CMD and its descendants."""
    Path("/tmp/go").write_text("go\n")
    with open("/tmp/go") as go:
        end = run("jifl", "count", "insn", "sys:getresuid", *filters, "-f", "json", "-o", "/tmp/report", "--", *words,
                  stdin=go)
    same(f"{name}: exit status", end.returncode, status)
    exact(name, report(Path("/tmp/report").read_text()), want)


def into_cgroups(tree):
    for path, pid in (("jifl-test/a", tree.child), ("jifl-test/b", tree.grandchild)):
        (CGROUPS / path).mkdir(parents=True, exist_ok=True)
        (CGROUPS / path / "cgroup.procs").write_text(str(pid))


def by_task(calls):
    everyone = MAIN + THREAD + CHILD + GRANDCHILD
    # Python and jifl make no such calls.
    filtered("no filter", calls, everyone, lambda tree: [])
    filtered("-p", calls, MAIN + THREAD, lambda tree: ["-p", tree.pid])
    filtered("-p of a child", calls, CHILD, lambda tree: ["-p", tree.child])
    filtered("-t of the first thread", calls, MAIN, lambda tree: ["-t", tree.pid])
    filtered("-t of another thread", calls, THREAD, lambda tree: ["-t", tree.tid])
    filtered("-n", calls, MAIN, lambda tree: ["-n", "calls"])
    filtered("-n of a thread", calls, THREAD, lambda tree: ["-n", "calls-thread"])
    filtered("-n of nobody", calls, 0, lambda tree: ["-n", "calls-nobody"])
    filtered("-p and -n", calls, THREAD, lambda tree: ["-p", tree.pid, "-n", "calls-thread"])
    filtered("-p and -n that exclude each other", calls, 0, lambda tree: ["-p", tree.pid, "-n", "calls-child"])
    filtered("-p, blocks", calls, MAIN + THREAD, lambda tree: ["-p", tree.pid], "block")
    filtered("-p, calls alone", calls, MAIN + THREAD, lambda tree: ["-p", tree.pid], "call")


def by_cgroup(calls):
    both = CHILD + GRANDCHILD
    filtered("--cgroup", calls, both, lambda tree: ["--cgroup", "jifl-test"], before=into_cgroups)
    filtered("--cgroup below", calls, CHILD, lambda tree: ["--cgroup", "jifl-test/a"], before=into_cgroups)
    filtered("--cgroup by its whole path", calls, GRANDCHILD, lambda tree: ["--cgroup", CGROUPS / "jifl-test/b"],
             before=into_cgroups)
    filtered("--cgroup and -n", calls, GRANDCHILD, lambda tree: ["--cgroup", "jifl-test", "-n", "calls-grand"],
             before=into_cgroups)


def by_command(calls):
    of_command("-- CMD", 123, calls, 123)
    of_command("-- CMD with threads and children", MAIN + THREAD + CHILD + GRANDCHILD,
               calls, "tree")
    of_command("-- CMD in the background", 15, "sh", "-c", f"{calls} 10 & {calls} 5; wait", filters=("-n", "calls"))
    of_command("-- CMD that executes another", 20, calls, "exec", 5)
    of_command("-- CMD: a child without its parent is nobody's", 0, calls, "orphan")
    of_command("-- CMD fails", 3, "sh", "-c", f"{calls} 3; exit 9", status=9, filters=("-n", "calls"))


def at_once(calls):
    """Many processes on all CPUs lose no call, and two sessions do not disturb each other."""
    first = session("insn", "sys:getresuid", "-n", "calls", "-f", "json")
    second = session("block", "sys:exit_group", "-n", "calls", "-f", "json")
    same("two sessions run", len(status()["sessions"]), 2)
    processes = [background(calls, 2000) for _ in range(8)]
    same("all end well", [process.wait() for process in processes], [0] * 8)
    # They are dead where their parent knows it, and a moment later done with their last call.
    wait_for("the ends of all", lambda: status()["sessions"][1]["calls"] == 8)
    out, _ = interrupt(first)
    exact("eight at once", report(out), 8 * 2000)
    out, _ = interrupt(second)
    target = report(out)["by_name"]["exit_group"]
    check("calls that do not return", target["calls"] + target["missed"] == 8 and
          target["no_return"] == target["calls"], target)
    check("one session's end costs the other next to nothing", target["missed"] == 0, target)


def program(calls):
    figure("CPUs", os.cpu_count())
    by_task(calls)
    by_cgroup(calls)
    by_command(calls)
    at_once(calls)
    same("no session is left", status()["sessions"], [])


main(program)
