# SPDX-License-Identifier: MIT OR Apache-2.0
"""Call paths (jifl prof --paths): their sums are what others count of the same calls, their shape is a trace's.

usage: call_paths.py

Sessions that are compared run beside each other, so they are about the same calls.
"""

import gzip
import json
import os
import re
from collections import Counter
from pathlib import Path

from contexts import CONTEXTS, DEPTH, MODULE, call
from lib import check, complaints, figure, interrupt, kernel_log, log_mark, main, reload, report, run, same, session
from reader import Reader, now

# Busy with many system calls and functions, and short enough for the rings of `trace`.
WORK = ("ls", "-l", "/etc")


def paths_of(owner, name, missed=0):
    """The report of a session, with its paths as tuples; what holds of each is checked."""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    check(f"{name}: a report", out, err)
    found = json.loads(out)
    same(f"{name}: nothing is missed, nothing is without a path", (found["missed"], found["without_path"]), (missed, 0))
    rows = {tuple(row["path"]): row for row in found["paths"]}
    same(f"{name}: each path once", len(rows), len(found["paths"]))
    callees = {}
    for path in rows:
        callees.setdefault(path[:-1], []).append(path)
    for path, row in rows.items():
        below = callees.get(path, ())
        for member in ("instructions", "calls", "wall_ns", "blocked_ns", "runnable_ns"):
            if row["inclusive"][member] != row[member] + sum(rows[one]["inclusive"][member] for one in below):
                check(f"{name}: {path}: {member} is its own and that of what it calls", False, row)
        if row["wall_ns"] != row["cpu_ns"] + row["blocked_ns"] + row["runnable_ns"]:
            check(f"{name}: {path}: wall is cpu, blocked and runnable", False, row)
    return rows, found


def total(rows, member="instructions"):
    return sum(row[member] for row in rows.values())


def roots(rows, member="calls"):
    return sum(row[member] for path, row in rows.items() if len(path) == 1)


def counted(owner, missed=0):
    """Instructions and calls that `count insn` has."""
    out, err = interrupt(owner)
    found = report(out)
    same("count: calls missed", found["missed"], missed)
    targets = found["targets"]
    return sum(one["instructions"] for one in targets), sum(one["calls"] for one in targets)


def as_paths(calls):
    """Calls by path, as a trace's functions stand below each other. The target is on each, also after it has jumped on."""
    seen = Counter()
    for one in calls:
        path, shift = [], 0
        for function in one["functions"]:
            shift = shift or int(bool(path) and function["depth"] == 0)
            path[function["depth"] + shift:] = [function["name"]]
            seen[tuple(path)] += 1
    return seen


def same_as_others():
    """All system calls of a program: each instruction is on one path, and the paths are those of a trace."""
    kept = Path("/run/paths.ndjson")
    tracer = session("sys:*", "-n", "ls", "-o", kept, "-f", "ndjson", command="trace")
    counter = session("insn", "sys:*", "-n", "ls", "-f", "json")
    owner = session("sys:*", "--paths", "-n", "ls", "-f", "json", command="prof")
    run(*WORK)
    rows, found = paths_of(owner, "all calls")
    instructions, calls = counted(counter)
    _, err = interrupt(tracer)
    same("all calls: instructions", total(rows), instructions)
    same("all calls: and that is said", found["total"], instructions)
    same("all calls: calls", (roots(rows), found["calls"]), (calls, calls))
    same("all calls: no return is stray", found["stray_returns"], 0)
    check("all calls: the trace is whole", "records lost 0, calls missed 0" in err and "not shown" not in err, err)
    seen = as_paths(json.loads(line) for line in kept.read_text().splitlines())
    have = Counter({path: row["calls"] for path, row in rows.items()})
    differing = {path: (have[path], seen[path]) for path in have | seen if have[path] != seen[path]}
    same("all calls: each path as often as in the trace", dict(list(differing.items())[:5]), {})
    check("all calls: many of them", len(rows) > 300 and max(map(len, rows)) > 6, len(rows))
    groups_of(found)
    figure("paths", len(rows))


def groups_of(found):
    """Functions, modules and edges of a report have all that its paths have."""
    for member in ("functions", "modules"):
        same(f"groups: instructions of {member}", sum(one["own"]["instructions"] for one in found[member]), found["total"])
    same("groups: calls of what nothing calls", sum(one["calls"] for one in found["edges"] if one["caller"] is None), found["calls"])


def each_context():
    """Functions in each context: all calls, all instructions."""
    for context, about in CONTEXTS.items():
        name = about.get("function", "contexts_work")
        target = f"fn:{name}"
        owner = session(target, "--paths=cpu", "-f", "json", command="prof")
        counter = session("insn", target, "-f", "json")
        made = sum(call(context).values())
        # A call inside another one is a part of that.
        inner = made - made // (DEPTH + 1) if context == "recursion" else 0
        instructions, calls = counted(counter, inner)
        rows, found = paths_of(owner, context, inner)
        same(f"{context}: instructions", total(rows), instructions)
        same(f"{context}: calls", (roots(rows), calls), (made - inner, made - inner))
        same(f"{context}: all calls of it", sum(row["calls"] for path, row in rows.items() if path[-1].split(" ")[0] == name), made)
        same(f"{context}: the target is at the root", {path[0].split(" ")[0] for path in rows}, {name})
        same(f"{context}: all have times", found["without_times"], 0)
        check(f"{context}: it took its time", 0 < total(rows, "cpu_ns"), total(rows, "cpu_ns"))


def waits():
    """Reads wait until somebody writes: these paths are blocked from when they were seen asleep, at least."""
    reader = Reader()
    owner = session("sys:read", "--paths=blocked", "-p", str(reader.process.pid), "-f", "json", command="prof")
    before = now()
    # The read that is in the middle is not of this session. The last one does not end.
    os.write(reader.pipe, b"x")
    least = reader.waits(10, now, 0.05)
    reader.sleeps()
    rows, found = paths_of(owner, "waits", missed=1)
    most = now() - before
    blocked = total(rows, "blocked_ns")
    check("waits: as long as nobody writes", least * 0.999 - 1000 <= blocked <= most * 1.001 + 1000, (least, blocked, most))
    same("waits: that is said", found["total"], blocked)
    hottest = max(rows, key=lambda path: rows[path]["blocked_ns"])
    check("waits: in the pipe", {"pipe_read", "anon_pipe_read"} & set(hottest), hottest)
    reader.end()


def forms():
    """The files have what the report has."""
    files = {form: Path(f"/run/paths.{form}") for form in ("folded", "svg", "pprof", "speedscope", "perfetto")}
    options = [word for form, file in files.items() for word in (f"--{form}", file)]
    end = run("jifl", "prof", "sys:*", "--paths", *options, "-f", "json", "--", *WORK)
    same("forms: exit status", end.returncode, 0)
    found = json.loads(end.stdout[end.stdout.index('{"command"'):])
    lines = [line.rpartition(" ") for line in files["folded"].read_text().splitlines()]
    folded = {tuple(stack.split(";")): int(value) for stack, _, value in lines}
    same("folded: all paths with instructions", folded,
         {tuple(row["path"]): row["instructions"] for row in found["paths"] if row["instructions"]})
    check("svg: all instructions", f"all ({found['total']:,} instructions, 100%)" in files["svg"].read_text())
    shown = json.loads(files["speedscope"].read_text())
    profile = shown["profiles"][shown["activeProfileIndex"]]
    same("speedscope: instructions", sum(profile["weights"]), found["total"])
    check("pprof: is compressed", b"do_sys_openat2" in gzip.decompress(files["pprof"].read_bytes()))
    check("perfetto: has the functions", b"do_sys_openat2" in files["perfetto"].read_bytes())
    end = run("jifl", "prof", "sys:*", "--paths", "--base", files["folded"], "--", *WORK)
    check("a base: what has changed", re.search(r"^PATH +INSNS +CHANGE", end.stdout, re.M), end.stdout[-500:])


def no_room():
    """A small table: what finds no room is its caller's, and that is said. The sum is the same."""
    reload("tree_nodes=64")
    counter = session("insn", "sys:*", "-n", "ls", "-f", "json")
    owner = session("sys:*", "--paths", "-n", "ls", "-f", "json", command="prof")
    run(*WORK)
    out, err = interrupt(owner)
    found = json.loads(out)
    instructions, _ = counted(counter)
    same("no room: instructions", found["total"], instructions)
    check("no room: is told", found["without_path"] > 0 and "load the module with a larger tree_nodes" in err, err)
    same("no room: paths, and the others", (len(found["paths"]), ["(others)"] in [row["path"] for row in found["paths"]]), (65, True))


def refusals():
    """One line each."""
    wrong = Path("/run/wrong.folded")
    wrong.write_text("a;b 1\nc\n")
    for words, why in {
        ("--paths=time",): "possible values: insn, wall, cpu, blocked, runnable, calls",
        ("--paths", "--inlined"): "--inlined and --annotate are about blocks",
        ("--paths", "--record", "/run/x"): "--record does not go with --paths",
        ("--pprof", "/run/x"): "--paths",
        ("--paths", "--base", "/run/none"): "/run/none: No such file",
        ("--paths", "--base", wrong): "/run/wrong.folded: line 2 is not of the form",
        ("--paths", "--base", wrong, "--group", "edge"): "--base goes with --group path, function and module",
        ("--group", "edge"): "--paths",
        ("--paths", "--only", "fn:vfs_read"): "--only goes with",
    }.items():
        end = run("jifl", "prof", "sys:read", *words, "--for", "1s")
        check(f"{words[:2]}: refused", end.returncode != 0 and why in end.stderr, end.stderr)


def test():
    mark = log_mark()
    same_as_others()
    waits()
    forms()
    refusals()
    same("the module of the tests", run("insmod", MODULE).returncode, 0)
    each_context()
    run("rmmod", "jifl_contexts")
    no_room()
    same("nothing is wrong", complaints(kernel_log(mark)), [])


main(test)
