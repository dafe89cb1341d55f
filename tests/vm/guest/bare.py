# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions without an ftrace site as targets: each call is counted once, by every tool.

usage: bare.py

Such a function is entered by a jump in place of its first instructions. The functions are those of
the module jifl_contexts (modules/bare.h, modules/contexts.h), and the kernel's own.
"""

import json
import os
import signal
from pathlib import Path

from contexts import LEVELS, MODULE, N, call, counted, target_of
from lib import (all_sites_patched, background, check, ends_clean, figure, interrupt, log_mark, main, report, run, same,
                 session, status, wait_for)
from probe import Hook, probe

BARE = "contexts_bare"
# The contexts of modules/bare.h that call contexts_bare.
CONTEXTS = ("task", "preempt-off", "bh-off", "irq-off", "spinlock", "kthread", "work", "timer", "tasklet", "hrtimer",
            "irq-work", "ipi", "nested")
OTHERS = ("kthread", "work")    # where tasks of others make the calls
OUT = Path("/run/bare")
ME = ("-p", os.getpid())
# Busy functions of the kernel without a site: of those there are, whatever a kernel has.
KERNELS = ("rb_next", "rb_erase", "rb_insert_color", "clear_page_erms", "clear_page_rep", "clear_page_orig", "number",
           "put_dec_trunc8", "strnlen_user", "vsnprintf", "sched_clock_local", "__put_user_4", "llist_add_batch", "memchr_inv")
WORK = "import os\nfor n in range(3000): open('/proc/self/stat').read(), os.stat('/etc/hostname')"


def hits_of(owner):
    """The hits of a probe that ends now, by place."""
    data = json.loads(interrupt(owner)[0])
    return {row["place"]: row["hits"] for row in data["places"]}


def each_context():
    """Calls, instructions and blocks at each level: all are counted, and each call costs the same."""
    for what in ("call", "insn", "block"):
        costs = {}
        for context in CONTEXTS:
            data, made = counted(what, [f"fn:{BARE}"], f"bare-{context}")
            got = target_of(data, BARE)
            same(f"{what} {context}: calls", (got["calls"], got["missed_by"]), (sum(made.values()), {}))
            costs[context] = got.get("min"), got.get("max")
        same(f"{what}: each call costs the same", set(costs.values()), {(costs["task"][0],) * 2})
        figure(f"{what} of {BARE}", costs["task"][0])
    levels = {level for context in CONTEXTS for level, made in call(f"bare-{context}").items() if made}
    same("there are contexts at each level", levels, set(LEVELS))
    for context in CONTEXTS:
        data, made = counted("call", [f"fn:{BARE}"], f"bare-{context}", *ME)
        got = target_of(data, BARE)
        same(f"{context}, with a filter", (got["calls"], got["missed"]), (0 if context in OTHERS else made["task"], 0))
        data, made = counted("call", [f"fn:{BARE}"], f"bare-{context}", "--only")
        got = target_of(data, BARE)
        same(f"{context}, alone", (got["calls"], got["missed_by"]), (sum(made.values()), {}))


def by_function(target, context):
    """Instructions of functions under a target, in calls of this task."""
    owner = session("insn", target, "--by", "func", *ME, "-f", "json")
    call(context)
    return {row["func"].split(" ")[0]: row["instructions"] for row in json.loads(interrupt(owner)[0])["rows"]}


def instructions():
    """A call has as many instructions by its door as where a copy calls, which skips none."""
    for function, context in ((BARE, "bare-task"), ("contexts_marked", "marked"), ("contexts_slow", "slow"),
                              ("contexts_mixed", "mixed")):
        rows = by_function("sys:write", context)
        data, _ = counted("insn", [f"fn:{function}"], context)
        got = target_of(data, function)
        same(f"{function}: instructions by its door", (got["min"], got["max"]), (rows[function] / N,) * 2)
        same(f"{function}: in a profile", by_function(f"fn:{function}", context)[function], rows[function])
        if function == "contexts_marked":
            same("its instructions, with the endbr64", got["min"], 4)


def inside_others():
    """Calls that copies make begin there, for a session that follows them and for one that counts them."""
    for context, inner in (("bare-task", BARE), ("marked", "contexts_marked"), ("mixed", "contexts_mixed")):
        for what in ("call", "insn"):
            outer = session("insn", "sys:write", *ME, "-f", "json")
            data, made = counted(what, [f"fn:{inner}"], context)
            got = target_of(data, inner)
            same(f"{what} inside a system call's copy, {context}", (got["calls"], got["missed"]), (made["task"], 0))
            interrupt(outer)
    # A session has one call at a time: what is inside is a part of it.
    data, made = counted("insn", ["fn:contexts_passed", "fn:contexts_marked"], "passed")
    same("a tail call: calls, and parts of them",
         [(target_of(data, name)["calls"], target_of(data, name)["missed_by"]) for name in ("contexts_passed", "contexts_marked")],
         [(N, {}), (0, {"nested": N})])
    for scope in ([], ["--only"]):
        data, made = counted("call", ["fn:contexts_passed", "fn:contexts_marked"], "passed", *scope)
        same(f"a tail call {scope}: calls of both", [target_of(data, name)["calls"] for name in ("contexts_passed", "contexts_marked")],
             [N, N])


def recorded(command, words, context, *options):
    owner = session(*words, "-o", OUT, "-f", "ndjson", *options, command=command)
    made = call(context)
    _, err = interrupt(owner)
    same(f"{command} {context}: exit status", owner.returncode, 0)
    check(f"{command} {context}: nothing is lost", "records lost 0, calls missed 0" in err, err)
    return [json.loads(line) for line in OUT.read_text().splitlines()], made


def records():
    """Traces, accesses, values and profiles."""
    for context in CONTEXTS:
        calls, made = recorded("trace", [f"fn:{BARE}"], f"bare-{context}")
        levels = dict.fromkeys(LEVELS, 0)
        for one in calls:
            levels[one.get("context", "task")] += 1
        same(f"trace {context}: calls by level", levels, made)
        check(f"trace {context}: one function each", all([f["name"].split(" ")[0] for f in one["functions"]] == [BARE]
                                                         for one in calls), calls[:1])
    for function, context in (("contexts_marked", "marked"), ("contexts_passed", "passed")):
        calls, _ = recorded("trace", [f"fn:{function}"], context)
        same(f"trace {function}: results", [one["result"] for one in calls], [3 * n for n in range(1, N + 1)])
        same(f"trace {function}: functions", {tuple(f["name"].split(" ")[0] for f in one["functions"]) for one in calls},
             {("contexts_marked",) if context == "marked" else ("contexts_passed", "contexts_marked")})
    calls, _ = recorded("trace", ["fn:contexts_mixing", "-d"], "mixed")
    same("trace contexts_mixing: results", [one["result"] for one in calls], [n + 13 for n in range(1, N + 1)])
    for words in (["fn:contexts_mixed"], ["fn:contexts_mixed", "fn:contexts_mixing"]):
        for what in ("call", "insn", "block", "hist:retval"):
            counted(what, words, "mixed", *(["--only"] if what == "call" else []))
    owner = session("hist:retval", f"fn:contexts_marked", "-f", "json")
    call("marked")
    got, = json.loads(interrupt(owner)[0])["targets"]
    same("hist:retval", (got["calls"], got["min"], got["max"], got["sum"]), (N, 3, 3 * N, 3 * N * (N + 1) // 2))
    owner = session("hist:ARG0", f"fn:contexts_marked", "-f", "json")
    call("marked")
    got, = json.loads(interrupt(owner)[0])["targets"]
    same("hist:ARG0", (got["calls"], got["min"], got["max"], got["sum"]), (N, 1, N, N * (N + 1) // 2))


def refused():
    """What is met at its first instruction without a call is no target, nor is what cannot have a jump."""
    for function in ("contexts_again", "contexts_looped"):
        end = run("jifl", "count", "call", f"fn:{function}", "--for", "100ms")
        check(f"{function} is refused", end.returncode == 1 and end.stderr.count("\n") == 1 and
              "nothing can stand there in its place" in end.stderr, end)
    data, _ = counted("call", ["fn:contexts_*@jifl_contexts"], "again")
    check("a pattern leaves them out", data["functions"]["left_out"] and "contexts_again" not in data["by_name"], data["functions"])
    # A probe needs no door, and counts each execution of the place.
    owner = probe("fn:contexts_again+0x0")
    call("again")
    same("a loop's executions", list(hits_of(owner).values()), [N * (N + 1) // 2])


def with_others_kprobe():
    """While somebody else has a kprobe on the jump, calls are missed, with the cause."""
    owner = session("call", f"fn:{BARE}", "-f", "json")
    first = sum(call("bare-task").values())
    hook = Hook()
    more = sum(call(f"bare-{context}")["task"] for context in ("task", "irq-off"))
    same("hits of the kprobe", hook.hits(), more)
    hook.clear()
    last = sum(call("bare-task").values())
    got = target_of(report(interrupt(owner)[0]), BARE)
    same("calls before, meanwhile and behind", (got["calls"], got["missed_by"]), (first + last, {"native": more}))
    owner = session("call", f"fn:{BARE}", "-f", "json", *ME)
    hook = Hook()
    made = sum(call("bare-task").values())
    hook.clear()
    got = target_of(report(interrupt(owner)[0]), BARE)
    same("with a filter", (got["calls"], got["missed_by"]), (0, {"native": made}))


def beside_probes():
    """A session that counts, beside a probe at each instruction that the jump replaces."""
    places = [f"fn:{BARE}", f"fn:contexts_marked+0x4", "fn:contexts_marked+0x8"]
    for filters in ([], ["-p", "1"]):
        for first in (True, False):
            name = f"{filters}, the probe {'before' if first else 'after'} the count"
            prober = probe(*places) if first else None
            counter = session("insn", f"fn:{BARE}", "fn:contexts_marked", "--only", "-f", "json", *filters)
            prober = prober or probe(*places)
            made = sum(sum(call(f"bare-{context}").values()) for context in ("task", "timer", "irq-work"))
            call("marked")
            same(f"{name}: hits", hits_of(prober), dict(zip(places, (made, N, N))))
            # Without the probe again.
            call("marked")
            data = report(interrupt(counter)[0])
            wanted = [(0, 0)] * 2 if filters else [(made, 0), (2 * N, 0)]
            same(f"{name}: calls", [(target_of(data, f)["calls"], target_of(data, f)["missed"]) for f in (BARE, "contexts_marked")],
                 wanted)


def adopted():
    """Who sleeps inside such a function when the session starts is taken over."""
    sleeper = background("/usr/bin/python3", "-S", "-E", "-c", "open('/proc/jifl_contexts', 'w').write('doze 10')")
    wait_for("the sleeper", lambda: "contexts_doze" in Path(f"/proc/{sleeper.pid}/stack").read_text())
    owner = session("insn", "fn:contexts_doze", "-f", "json", "-p", sleeper.pid)
    sleeper.send_signal(signal.SIGUSR1)
    sleeper.communicate()
    data = report(interrupt(owner)[0])
    got = target_of(data, "contexts_doze")
    same("tasks taken over", data["adoption"]["tasks"], 1)
    figure("contexts_doze", got)
    # The first call had begun before. The others return at once, as a signal waits.
    same("whole calls, and those taken over", (got["calls"], got["adopted"], got["missed"]), (9, 1, 0))


def kernels_own():
    """Busy functions of the kernel, all at once: programs go on, and each call is somebody's."""
    listed = run("jifl", "list", "fn:*").stdout.splitlines()
    bare = {words[0].removeprefix("fn:") for words in map(str.split, listed) if words[2:] == ["jump"]}
    words = [f"fn:{name}" for name in KERNELS if name in bare]
    check("the kernel has some of them", len(words) >= 5, sorted(bare)[:20])
    good = [word for word in words if run("jifl", "count", "call", word, "--for", "10ms").returncode == 0]
    figure("functions of the kernel without a site, counted", (good, len(words)))
    for what, scope in (("call", []), ("insn", []), ("call", ["--only"]), ("insn", ["--only"]), ("block", [])):
        owner = session(what, *good, "-f", "json", *scope)
        end = run("/usr/bin/python3", "-S", "-E", "-c", WORK)
        same(f"{what} {scope}: the program ends well", end.returncode, 0)
        data = report(interrupt(owner)[0])
        calls = {name: target["calls"] for name, target in data["by_name"].items()}
        check(f"{what} {scope}: calls", sum(calls.values()) > 1000, calls)
        figure(f"{what} {scope}", calls)


def all_at_once():
    """All functions of the kernel and of modules, in all contexts."""
    with all_sites_patched():
        owner = session("call", "fn:*", "--only", "--yes", "-f", "json")
    end = run("/usr/bin/python3", "-S", "-E", "-c", WORK)
    same("the program ends well", end.returncode, 0)
    with all_sites_patched():
        data = json.loads(interrupt(owner)[0])
    figure("functions entered", data["functions"]["entered"])
    named = {row["function"]: row["calls"] for row in data["targets"]}
    check("some without a site were called", sum(named.get(name, 0) for name in KERNELS) > 1000,
          {name: named.get(name) for name in KERNELS})
    check("the report says why others were left out", "nothing can stand there" in json.dumps(data["functions"]), data["functions"])


def bare():
    mark = log_mark()
    same("the module comes", run("insmod", MODULE).returncode, 0)
    each_context()
    instructions()
    inside_others()
    records()
    refused()
    with_others_kprobe()
    beside_probes()
    adopted()
    kernels_own()
    all_at_once()
    same("no session is left", status()["sessions"], [])
    same("the module goes", run("rmmod", "jifl_contexts").returncode, 0)
    ends_clean([], mark)


if __name__ == "__main__":
    main(bare)
