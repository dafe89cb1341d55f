# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions by their source: files, and lines, as debug information has them.

usage: files.py
"""

import json
import os
import re

from contexts import DEPTH, MODULE, call, target_of
from lib import check, complaints, interrupt, kernel_log, log_mark, main, report, run, same, session, status
from probe import SOURCE, debug_information

# Its loop stands in three functions: one has no site, one is inlined into others.
LOOP = "x ^= x << 13;"


def listed(word):
    """The module's functions that a word means, and the notes."""
    end = run("jifl", "list", word)
    names = re.findall(r"^fn:(\w[\w.]*)@jifl_contexts +0x", end.stdout, re.M)
    check(f"{word}: functions of the module alone", len(names) + 1 == len(end.stdout.splitlines()), end)
    return set(names), end.stderr


def lists(lines):
    """`jifl list` shows what each word means."""
    header, notes = listed("file:contexts.h")
    there = {"contexts_work", "contexts_recurse", "contexts_seldom", "contexts_tail", "contexts_bare"}
    check("a header: its functions", there <= header and "contexts_write" not in header, header)
    check("a header: the kernel may have more", "no source lines of the kernel" in notes, notes)
    source, notes = listed("file:jifl_contexts.c")
    there = {"contexts_write", "contexts_interrupted", "run_nested"}
    check("a file: its functions", there <= source and not source & header, (source, header))
    same("a file: no header may be meant", "no source lines" in notes, False)
    same("a glob: both", listed("file:*contexts.?")[0], source | header)
    same("a line", listed(f"line:contexts.h:{lines[0]}")[0], {"contexts_work"})
    inlined, _ = listed(f"line:contexts.h:{lines[2]}")
    check("a line that is inlined", {"run_recursion", "run_many", "run_wide"} <= inlined and "contexts_work" not in inlined, inlined)
    same("a line of a function without a site", listed(f"line:contexts.h:{lines[1]}")[0], {"contexts_bare"})


def counted(what, word, context, *scope):
    """A session around the calls of a context: the report, and the calls made, by level.

    A line on stderr says that the kernel may have more code of a header.
    """
    owner = session(what, word, "-f", "json", *scope)
    made = call(context)
    out, err = interrupt(owner)
    check(f"{what} {word}: notes", re.fullmatch(r"(jifl: .*: no source lines of .*\n)?Detaching\.\.\. .*\n", err), err)
    return report(out), made


def sessions(lines):
    """Sessions have the functions as targets, by their own names."""
    for what, word, context, function, calls in (
            ("call", "file:contexts.h", "task", "contexts_work", 1),
            ("call", f"line:./contexts.h:{lines[0]}", "recursion", "contexts_work", 1),
            ("insn", f"line:contexts.h:{lines[0]}", "task", "contexts_work", 1)):
        data, made = counted(what, word, context)
        got = target_of(data, function)
        same(f"{what} {word}: calls, missed", (got["calls"], got["missed_by"]), (calls * sum(made.values()), {}))
    data, made = counted("call", "fn:contexts_work", "recursion", "--under", f"line:contexts.h:{lines[3]}")
    same("--under a line: all that contexts_recurse calls", target_of(data, "contexts_work")["calls"], made["task"])
    same("its recursion", made["task"] % (DEPTH + 1), 0)
    owner = session(f"line:contexts.h:{lines[0]}", "-f", "ndjson", command="trace")
    made = call("task")
    out, _ = interrupt(owner)
    names = [json.loads(line)["function"].partition("@")[0] for line in out.splitlines()]
    same("trace of a line: calls", names, ["contexts_work"] * made["task"])


def refusals():
    """What cannot be is refused in one line."""
    for words, returned, hints in (
            (["line:contexts.h:1"], 2, ["the line has no code", "nearest with code: line:"]),
            (["line:contexts.h"], 2, ["line:fs/open.c:1390"]),
            (["file:"], 2, ["file:fs/ext4/*.c"]),
            # The kernel's debug information is not here.
            (["file:contxts.h"], 3, ["no source lines of the kernel", "file:contexts.h"]),
            (["file:no/such/file.c"], 3, ["no source lines of the kernel"])):
        end = run("jifl", "count", "call", *words, "--for", "100ms")
        check(f"{words}: refused", (end.returncode, end.stderr.count("\n")) == (returned, 1)
              and all(hint in end.stderr for hint in hints), end)


def all_of_it():
    mark = log_mark()
    run("insmod", MODULE)
    text = SOURCE.read_text().splitlines()
    lines = [at for at, line in enumerate(text, 1) if line.endswith(LOOP)]
    lines.append(next(at for at, line in enumerate(text, 1) if "contexts_recurse(depth - 1, seed)" in line))
    before = debug_information()
    lists(lines)
    sessions(lines)
    refusals()
    os.environ.clear()
    os.environ.update(before)
    end = run("jifl", "count", "call", "file:contexts.h", "--for", "100ms")
    check("without debug information", (end.returncode, end.stderr.count("\n")) == (3, 1)
          and "no source lines of the kernel" in end.stderr and end.stderr.endswith("DEBUGINFOD_URLS\n"), end)
    run("rmmod", "jifl_contexts")
    same("no session is left", status()["sessions"], [])
    same("nothing is said", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(all_of_it)
