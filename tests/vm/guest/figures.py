# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plugins that the JIFL paper prints; the results of each are compared with results known from
elsewhere.

usage: figures.py PLUGINS

PLUGINS: a directory with RELEASE/figureN.ko of plugins/figureN.c.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

from lib import (check, figure, interrupt, kernel_log, log_mark, main, module_file, report, run, same, session)

MODULES = Path(module_file()).parent
PLUGINS = Path()
KNOWN = "/proc/jifl_figures"


def good(name, *words):
    end = run("jifl", *words)
    return check(name, end.returncode == 0 and not end.stderr, end)


def said_by(name, act):
    """What the log says from the plugin's start to its end, while act() runs; what that returns."""
    good(f"{name} is loaded", "load", PLUGINS / f"{name}.ko")
    mark = log_mark()
    good(f"{name} starts", "start", name)
    result = act()
    good(f"{name} stops", "stop", name)
    lines = kernel_log(mark)
    good(f"{name} is unloaded", "unload", name)
    check(f"{name} makes no mistakes", not [line for line in lines if line.startswith("jifl: plugin")], lines)
    return lines, result


# --- figure 3 ------------------------------------------------------------------------------


def instructions():
    """Those of clone, beside what `jifl count` counts of the same calls."""
    program = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do (true); done"]
    counter = session("insn", "sys:clone", "-f", "json")
    lines, end = said_by("figure3", lambda: run(*program))
    data = report(interrupt(counter)[0])
    said = [line for line in lines if line.startswith("Clone system call")]
    clone = data["by_name"]["clone"]
    figure("figure 3", f"{said}; jifl count: {clone}")
    same("the program's calls, of which none was missed", (end.returncode, clone["calls"], data["missed"]), (0, 10, 0))
    same("the instructions that jifl count has counted", said,
         [f"Clone system call executed {clone['instructions']} instructions"])


# --- figure 14 -----------------------------------------------------------------------------

TIMES = 20
CALLS = {"getpgid": "os.getpgid(0)", "preadv2": "os.preadv(f, [bytearray(3)], 0)"}
TRACED = ["python3", "-S", "-E", "-c", f"import os; f = os.open('{KNOWN}', 0); "
          + "; ".join(f"[{call} for i in range({TIMES})]" for call in CALLS.values())]


def traces_of(lines):
    """A list of names for each call."""
    traces = []
    for line in lines:
        if re.fullmatch(r"call trace for process \d+", line):
            traces.append([])
        elif traces and re.fullmatch(r"[\w.]+", line):
            traces[-1].append(line)
    return traces


def by_call(traces):
    """Of each call's traces how often there was which."""
    return {name: Counter(tuple(trace) for trace in traces if trace[0] == f"__x64_sys_{name}") for name in CALLS}


def call_trace():
    """The functions of both calls, beside those that `jifl trace` shows of the same program."""
    lines, _ = said_by("figure14", lambda: run(*TRACED))
    plugin = by_call(traces_of(lines))
    run("jifl", "trace", *(f"sys:{name}" for name in CALLS), "-f", "ndjson", "-o", "/run/calls", "--", *TRACED)
    calls = [json.loads(line) for line in Path("/run/calls").read_text().splitlines()]
    trace = by_call([[function["name"].split(" ")[0] for function in call["functions"]] for call in calls])
    for name in CALLS:
        same(f"{name}: each call has its trace", (sum(plugin[name].values()), sum(trace[name].values())), (TIMES, TIMES))
        (ours, n), = plugin[name].most_common(1)
        (theirs, times), = trace[name].most_common(1)
        same(f"{name}: the functions that jifl trace shows, in their order", ours, theirs)
        check(f"{name}: of nearly all calls", min(n, times) > TIMES * 3 // 4, (n, times))
        check(f"{name}: and no few", len(ours) > 2, ours)
        figure(f"figure 14, {name}", f"{n} times {' '.join(ours)}")
    (ours, _), = plugin["preadv2"].most_common(1)
    check("down to the module's function", "figures_hints" in ours, ours)


# --- figure 15 -----------------------------------------------------------------------------

# Of each branch of figures_hints() with a hint: what that says, and for which i it is taken.
HINTS = [(True, lambda i: i % 2 != 0), (False, lambda i: i % 4 != 0), (False, lambda i: i % 8 == 0), (True, lambda i: i > 3)]


def hinted(n):
    """How often a read of n bytes has a hint that is right, and one that is wrong.

    And of each branch how often it is taken, and not.
    """
    taken = [sum(is_taken(i) for i in range(1, n + 1)) for _, is_taken in HINTS]
    correct = sum(times if hint else n - times for (hint, _), times in zip(HINTS, taken))
    return correct, len(HINTS) * n - correct, [(times, n - times) for times in taken]


READ, PREAD = 501, 1003


def branch_hints():
    """Their outcomes, known by arithmetic, and of each branch those that `jifl branch` shows."""
    known = os.open(KNOWN, os.O_RDONLY)

    def reads():
        os.read(known, READ)
        os.pread(known, PREAD, 0)

    branches = session("sys:pread64", "-f", "json", command="branch")
    lines, _ = said_by("figure15", reads)
    shown = json.loads(interrupt(branches)[0])["branches"]
    os.close(known)
    said = {int(number): (int(correct), int(incorrect)) for number, correct, incorrect in
            re.findall(r"hints of system call (\d+): (\d+) correct (\d+) incorrect", "\n".join(lines))}
    figure("figure 15", said)
    same("correct and incorrect hints, by system call", said, {0: hinted(READ)[:2], 17: hinted(PREAD)[:2]})
    sites = sorted((int(branch["address"], 16), branch["taken"], branch["not_taken"]) for branch in shown
                   if branch["site"].startswith("figures_hints"))
    same("what jifl branch shows of each branch", [counts for _, *counts in sites],
         [*map(list, hinted(PREAD)[2]), [PREAD - 1, 1]])
    right = sum(taken if hint else not_taken for (hint, _), (_, taken, not_taken) in zip(HINTS, sites))
    same("which has as many correct", right, said[17][0])


# --- figure 17 -----------------------------------------------------------------------------

INCREMENTS = 5000


def retries():
    return int(Path("/sys/module/jifl_figures/parameters/retries").read_text())


def contention():
    """How often an increment was tried again, beside what who tries has counted."""
    known = os.open(KNOWN, os.O_WRONLY)
    # The last processor is the contender's.
    os.sched_setaffinity(0, {0})
    for contend in "N", "Y":
        Path("/sys/module/jifl_figures/parameters/contend").write_text(contend)
        before = retries()

        def increment():
            # A busy host may let the two processors run one after the other.
            for _ in range(200):
                os.pwrite(known, bytes(INCREMENTS), 0)
                if contend == "N" or retries() - before >= 100:
                    break

        lines, _ = said_by("figure17", increment)
        again = retries() - before
        figure(f"figure 17, contended: {contend}", f"{again} of {INCREMENTS} or more")
        check("it is contended if it is to be", again >= 100 if contend == "Y" else not again, again)
        same("the plugin has seen each", [line for line in lines if line.startswith("contention")],
             [f"contention_count {again}"])
    os.close(known)


def program(directory):
    global PLUGINS
    PLUGINS = Path(directory) / os.uname().release
    same("jifl_figures is loaded", run("insmod", MODULES / "jifl_figures.ko").returncode, 0)
    instructions()
    call_trace()
    branch_hints()
    contention()
    same("jifl_figures is unloaded", run("rmmod", "jifl_figures").returncode, 0)


main(program)
