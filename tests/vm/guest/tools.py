# SPDX-License-Identifier: MIT OR Apache-2.0
"""What analysis functions are given, and the plugins that come with JIFL, on code whose actions are
known (modules/jifl_known.c).

usage: tools.py PLUGINS

PLUGINS: a directory with RELEASE/NAME.ko of plugins/values.c.
"""

import errno
import os
import re
from pathlib import Path

from lib import check, figure, kernel_log, log_mark, main, module_file, run, same

READS = 50
MODULES = Path(module_file()).parent


def good(name, *words):
    end = run("jifl", *words)
    return check(name, end.returncode == 0 and not end.stderr, end)


def known_reads(size=1):
    known = os.open("/proc/jifl_known", os.O_RDONLY)
    for _ in range(READS):
        try:
            os.read(known, size)
            check("a read fails", False)
        except OSError as error:
            if error.errno != errno.ERANGE:
                same("how a read fails", error.errno, errno.ERANGE)
    os.close(known)


def started(name, file, **parameters):
    good(f"{name} is loaded", "load", file)
    for parameter, value in parameters.items():
        Path(f"/sys/module/{name}/parameters/{parameter}").write_text(str(value))
    mark = log_mark()
    good(f"{name} starts", "start", name)
    return mark


def no_mistakes(name, lines):
    check(f"{name} makes no mistakes", not [line for line in lines if line.startswith("jifl: plugin")], lines)


def said_by(name, file, size=1, **parameters):
    """What the plugin says of READS reads by this process."""
    mark = started(name, file, **parameters)
    known_reads(size)
    good(f"{name} stops", "stop", name)
    lines = kernel_log(mark)
    good(f"{name} is unloaded", "unload", name)
    no_mistakes(name, lines)
    return [line.removeprefix(f"{name}: ") for line in lines if line.startswith(f"{name}: ")]


def values(directory):
    """Sums over READS reads, each of which is as modules/jifl_known.c says."""
    said = said_by("values", directory / "values.ko", size=777)
    words = said[0].split() if said else []
    got = {name: int(value) for name, value in zip(words[::2], words[1::2])}
    figure("values", got)
    want = {
        "leaves": 2, "arguments": 10 + 21, "low_arguments": 10 + 21, "returns": 2, "returned": 31 + 64,
        "tails": 1, "branches": 300, "taken": 299, "edges_taken": 299, "edges_not_taken": 1, "exchanges": 2,
        "reads": 1, "any_reads": 2, "contexts": 2 + 300 + 299, "errors": 1, "cell": 5,
    }
    for name, each in want.items():
        same(f"{name}, looked up", got.get(name), each * READS)
    for name, number in {"tail_values": 0, "wrong": 0, "refused": 0, "hinted": 1, "target": 1,
                         "operand": 1, "uses": 1}.items():
        same(f"{name}, of the code", got.get(name), number)


def calltrace(*tops, above=(), **parameters):
    """The tree below known_read; a tail call is beside its caller: known_error, one known_leaf.

    tops: what all begin at. above: what has called known_read.
    """
    mark = started("calltrace", MODULES / "calltrace.ko", pid=os.getpid(), **parameters)
    known_reads()
    good("calltrace stops", "stop", "calltrace")
    no_mistakes("calltrace", kernel_log(mark))
    end = run("jifl", "read", "calltrace")
    lines = end.stdout.splitlines()
    check("calltrace is read", end.returncode == 0 and end.stderr == f"# records {len(lines)}, lost 0\n", end)
    good("calltrace is unloaded", "unload", "calltrace")
    prefix = f"[{os.getpid()}] "
    said = [line.removeprefix(prefix) for line in lines]
    same("of this process alone", [line for line in lines if not line.startswith(prefix)], [])
    trace = [(len(line) - len(line.lstrip()), line.split()[0]) for line in said]
    starts = [at for at, (_, name) in enumerate(trace) if name == "known_read"]
    same("it has each read", len(starts), READS)
    want = [(2, name) for name in ("known_loop", "known_retry", "known_leaf", "known_tail", "known_leaf")]
    want.append((0, "known_error"))
    wrong = 0
    for start in starts:
        base = trace[start][0]
        got = [(indent - base, name) for indent, name in trace[start + 1:start + 1 + len(want)]]
        before = [(indent - base, name) for indent, name in trace[start - len(above):start]]
        if got != want or before != [(-2, name) for name in above]:
            wrong += 1
            check("a call's trace", wrong > 1, trace[start - 5:start + 9])
    same("traces that are not what was called", wrong, 0)
    found = {name for indent, name in trace if not indent}
    check("all begin at the target", set(tops[:1]) <= found <= set(tops), found)
    figure("calltrace", f"{len(trace)} calls")


def branchhints():
    said = said_by("branchhints", MODULES / "branchhints.ko", call=0)
    known = [line for line in said if line.startswith("known_")]
    figure("branchhints", said[-1:])
    check("the one branch that wants a hint", len(known) == 1 and
          re.fullmatch(rf"known_loop\+0x\w+/0x\w+ \[jifl_known\] taken {100 * READS} of {100 * READS}", known[0]),
          known)
    last = re.fullmatch(r"(\d+) of (\d+) branches want a hint, no room for 0", said[-1])
    check("and how many in all", last and 1 <= int(last[1]) < int(last[2]), said[-1])


def lockretry():
    said = said_by("lockretry", MODULES / "lockretry.ko", call=0)
    known = [line for line in said if line.startswith("known_")]
    figure("lockretry", said)
    check("each read fails once and then succeeds", len(known) == 1 and
          re.fullmatch(rf"known_retry\+0x\w+/0x\w+ \[jifl_known\] done {READS} failed {READS}", known[0]), said)


def whofails():
    said = said_by("whofails", MODULES / "whofails.ko", call=0, error=errno.ERANGE)
    counts = {line.split()[0]: int(line.split()[-1]) for line in said}
    figure("whofails", counts)
    # known_read has known_error return in its stead.
    for name in ("known_error", "proc_reg_read", "vfs_read"):
        same(f"{name} fails with each read", counts.get(name), READS)
    check("what has not failed is not named", not {"known_loop", "known_leaf", "known_tail", "known_read"} & set(counts), counts)


def program(directory):
    same("jifl_known is loaded", run("insmod", MODULES / "jifl_known.ko").returncode, 0)
    values(Path(directory) / os.uname().release)
    # Which jumps to ksys_read.
    calltrace("__x64_sys_read", "ksys_read", above=["proc_reg_read"], call=0, target="\n")
    # What it jumps to stands beside it.
    calltrace("known_read", "known_error", target="fn:known_read@jifl_known")
    branchhints()
    lockretry()
    whofails()
    same("jifl_known is unloaded", run("rmmod", "jifl_known").returncode, 0)


main(program)
