# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several sessions at once on the same system calls: each counts as if it were alone.

usage: sessions.py CALLS SLEEPERS
"""

import json
from pathlib import Path

from lib import background, check, costs_the_same, figure, interrupt, main, report, run, same, same_cost, session, status

N = 5000
LANES = 4   # sessions that one system call can have


def alone(calls, kind):
    """What one call of getresuid comes to when nobody else looks."""
    run("jifl", "count", kind, "sys:getresuid", "-f", "json", "-o", "/tmp/alone", "--", calls, N)
    return report(Path("/tmp/alone").read_text())["by_name"]["getresuid"]


def end(name, owner, want):
    """The session's report: N calls, none missed, each of the cost it has alone."""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    target = report(out)["by_name"]["getresuid"]
    same(f"{name}: calls", (target["calls"], target["missed"]), (N, 0))
    if want.get("min"):
        same_cost(f"{name}: cost of a call", (target["min"], target["max"]), (want["min"], want["max"]))


def together(calls):
    want = {kind: alone(calls, kind) for kind in ("insn", "block", "call")}
    figure("alone", {kind: target.get("min") for kind, target in want.items()})
    kinds = ["insn", "call", "block", "insn"]
    owners = [session(kind, "sys:getresuid", "-n", "calls", "-f", "json") for kind in kinds]
    refused = run("jifl", "count", "insn", "sys:getresuid", "--for", "1s")
    check("one more is refused with the name of a holder",
          refused.returncode == 1 and "as many sessions as can be" in refused.stderr and
          refused.stderr.count("\n") == 1, refused)
    same("but not on another call", run("jifl", "count", "insn", "sys:getuid", "--for", "100ms").returncode, 0)
    same("the program ends well", run(calls, N).returncode, 0)
    for n, kind in enumerate(kinds):
        end(f"{kind}, lane {n}", owners[n], want[kind])
    same("no session is left", status()["sessions"], [])


def asleep_by_turns(calls):
    """Calls in which tasks sleep are counted for those who made them, on one CPU, too."""
    def counts(n):
        end = run("jifl", "count", "insn", "sys:read", "sys:write", "sys:getresuid", "-f", "json", "-o", "/tmp/turns",
                  "--", calls, "pipe", n)
        same(f"{n} turns: the program ends well", end.returncode, 0)
        data = report(Path("/tmp/turns").read_text())
        same(f"{n} turns: none missed", data["missed"], 0)
        return data["by_name"]

    def calls_of(targets, name):
        return targets[name]["calls"] if name in targets else 0

    before, after = counts(0), counts(N)    # the first are those of its loading
    same("calls of read, write, getresuid",
         [calls_of(after, name) - calls_of(before, name) for name in ("read", "write", "getresuid")], [2 * N, 2 * N, N])
    costs_the_same("each getresuid at the same cost", after["getresuid"])


def one_ends_others_stay(calls):
    """Sessions come and go around one that stays and misses nothing while the cache has room."""
    stays = session("insn", "sys:getresuid", "-n", "calls", "-f", "json")
    before = status()["flushes"]
    for round_ in range(6):
        goes = session("block", "sys:getresuid", "sys:read", "sys:ioctl", "-f", "json")
        run(calls, N // 10)
        out, _ = interrupt(goes)
        same(f"round {round_}: exit status", goes.returncode, 0)
        got = report(out)["by_name"]["getresuid"]
        check(f"round {round_}: the one that goes has counted", got["calls"] >= N // 10, got)
        run(calls, N // 10)
    same("the cache was not emptied meanwhile", status()["flushes"], before)
    out, _ = interrupt(stays)
    target = report(out)["by_name"]["getresuid"]
    same("the one that stays has counted every call", (target["calls"], target["missed"]), (12 * (N // 10), 0))
    costs_the_same("each at the same cost", target)


def load_while_others_come_and_go(sleepers):
    """Tasks that sleep in calls of both sessions wake with right results after one or both end."""
    first = session("insn", "sys:*", "-f", "json")
    process = background(sleepers, 2, stdin=-1)
    process.stdout.readline()
    second = session("block", "sys:*", "-f", "json")
    other = background(sleepers, 2, stdin=-1)
    other.stdout.readline()
    for owner in (second, first):
        interrupt(owner)
        same("exit status", owner.returncode, 0)
    for one in (process, other):
        out, err = one.communicate("go\n", timeout=60)
        check("sleepers wake with the right results", one.returncode == 0 and out.splitlines()[-1:] == ["done"] and
              all(word.split()[1] == "2/2" for word in out.splitlines()[:-1]), out + err)


def program(calls, sleepers):
    together(calls)
    asleep_by_turns(calls)
    one_ends_others_stay(calls)
    load_while_others_come_and_go(sleepers)
    figure("status", json.dumps({key: status()[key] for key in ("flushes", "missed", "translated_blocks")}))


main(program)
