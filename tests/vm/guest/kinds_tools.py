# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each command that runs sessions, with a target of each kind, while a fixed load makes its calls.

A pair ends in one of two ways: the target stands there by its name, with its calls; or one line
refuses it, which says why.

usage: kinds_tools.py CALLS32 PART

CALLS32 is the program calls32. PART: 0 to 2 are a third of the commands each; 3 is --under with
other commands than count, and values in softirqs.
"""

import json
import os
import re
import socket
from pathlib import Path

from kinds import FILE, FIRE, MODULE, N, WORKS, interrupts, packets, up
from lib import (PATIENCE, RELEASE, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, module_file, run,
                 same, session, status, wait_for)

PAIR = Path("/proc/jifl_pair")
OUT = Path("/run/kinds")
# The program calls32. With the busiest interrupt, below, it is known when this program runs.
KNOWN = {}


def called(context):
    FILE.write_text(f"{context} {WORKS}")


def disk():
    """Interrupts of the disk that this tree is on; fewer than traffic() makes."""
    for _ in range(2):
        run("dd", f"if={__file__}", "of=/dev/null", "iflag=direct", "status=none")


# The kinds: how their targets are named, and what makes their calls.
LOADS = {
    "softirq": lambda: packets(N // 10),
    "irq": disk,
    "work": lambda: called("work"),
    "timer": lambda: called("timer"),
    "sys32": lambda: run(KNOWN["program"], N // 10),
    "kthread": lambda: PAIR.write_text("1000"),
}
WORDS = {"softirq": "softirq:NET_RX", "work": "work:work_item", "timer": "timer:timer_function", "sys32": "sys32:read",
         "kthread": "kthread:jifl_pair/*"}
FUNCTIONS = {"softirq": "net_rx_action", "work": "work_item", "timer": "timer_function", "sys32": "__ia32_sys_read",
             "kthread": "pair_thread"}
# What the loads make exactly. Others make calls of the rest.
MADE = {"work": WORKS // FIRE, "timer": WORKS // FIRE, "sys32": N // 10}
# As reports have them.
NAMES = {"work": "work:work_item@jifl_contexts", "timer": "timer:timer_function@jifl_contexts"}


def is_function(kind, name):
    """Is that name, maybe with its module, of the kind's function?"""
    return name.split()[0].partition("@")[0] == FUNCTIONS[kind]


def name_of(kind):
    return NAMES.get(kind, WORDS[kind])


def ended(kind, words):
    """A command's end, after the load: exit status, stdout, stderr."""
    before = len(status()["sessions"])
    process = background("jifl", *(WORDS[kind] if word == "TARGET" else word for word in words))
    wait_for(f"{words} {kind}", lambda: process.poll() is not None or len(status()["sessions"]) > before, PATIENCE)
    if process.poll() is None:
        LOADS[kind]()
        out, err = interrupt(process)
    else:
        out, err = process.communicate()
    return process.returncode, out, err


# --- what a report must have: each of these returns the number of calls of the target, by its name --------------------


def row(kind, out, err):
    """Of a report with targets: the calls; of those that had begun before, their number."""
    rows = [one for one in json.loads(out)["targets"] if one["function"] == name_of(kind)]
    return sum(one["calls"] + one.get("adopted", 0) for one in rows)


def copies(kind, out, err):
    """Nothing is counted: blocks were copied, or the threads taken over."""
    data = json.loads(out)
    return data["translation"]["blocks"] and (kind != "kthread" or data["adoption"]["tasks"])


def keys(kind, out, err):
    return sum(one["calls"] + one.get("adopted", 0) for one in json.loads(out)["rows"])


def sums(kind, out, err):
    """Of all targets together; there are figures."""
    data = json.loads(out)
    figures = [value for one in data["rows"] for value in one.values() if isinstance(value, int)]
    return (data["calls"] or kind == "kthread") and sum(figures)


def lines(kind, out, err):
    """Of a trace, which is a line a call."""
    return sum(json.loads(line)["function"] == name_of(kind) for line in OUT.read_text().splitlines())


def functions(kind, out, err):
    """Of blocks: the function itself was executed. The kernel's threads were inside of it."""
    data = json.loads(out)
    there = [one for one in data["functions"] if is_function(kind, one["function"])]
    return bool(there) and (data["calls"] or kind == "kthread")


def branches(kind, out, err):
    data = json.loads(out)
    return bool(data["branches"]) and (data["calls"] or kind == "kthread")


def paths(kind, out, err):
    return sum(one["calls"] for one in json.loads(out)["paths"] if len(one["path"]) == 1 and is_function(kind, one["path"][0]))


def locks(kind, out, err):
    found = re.search(r"^(?:jifl: )?#? ?([\d,]+) calls; |in ([\d,]+) calls$", out + err, re.M)
    return found and (int((found[1] or found[2]).replace(",", "")) or kind == "kthread" and "adopted: 2 tasks" in out + err)


def accesses(kind, out, err):
    data = json.loads(out)
    return data["loads"] and (data["calls"] or kind == "kthread")


def nothing_failed(kind, out, err):
    """Of calls of which none failed: they were looked at."""
    return int((re.search(r"^([\d,]+) calls, none ", err, re.M) or [0, "0"])[1].replace(",", ""))


def failed(kind, out, err):
    """The load of 32-bit calls fails with EBADF."""
    if kind != "sys32":
        return nothing_failed(kind, out, err)
    return "decided here" in out and out.startswith("sys32:read = -EBADF")


def recorded(kind, out, err):
    end = run("jifl", "report", OUT, "--as", "prof", "-f", "json")
    return end.returncode == 0 and functions(kind, end.stdout, end.stderr)


def never(kind, out, err):
    """Every kind is refused."""
    return False


def blocks(kind, out, err):
    return sum(is_function(kind, one["function"]) for one in json.loads(out)["blocks"])


J = ("-f", "json")
TOOLS = {
    "count call": (["count", "call", "TARGET", *J], row),
    "count insn": (["count", "insn", "TARGET", *J], row),
    "count block": (["count", "block", "TARGET", *J], row),
    "count none": (["count", "none", "TARGET", *J], copies),
    "count insn --repeats": (["count", "insn", "TARGET", "--repeats", *J], row),
    "count insn --by comm,pid": (["count", "insn", "TARGET", "--by", "comm,pid", *J], keys),
    "count call --by context": (["count", "call", "TARGET", "--by", "context", *J], keys),
    "count insn --by cpu": (["count", "insn", "TARGET", "--by", "cpu", *J], keys),
    "count insn --by func": (["count", "insn", "TARGET", "--by", "func", *J], sums),
    "count branch": (["count", "branch", "TARGET", *J], sums),
    "count load": (["count", "load", "TARGET", *J], sums),
    "count store": (["count", "store", "TARGET", *J], sums),
    "count opcode": (["count", "opcode", "TARGET", *J], sums),
    "count func": (["count", "func", "TARGET", *J], sums),
    "count hist:duration": (["count", "hist:duration", "TARGET", *J], row),
    "count hist:retval": (["count", "hist:retval", "TARGET", *J], row),
    "count hist:ARG0": (["count", "hist:ARG0", "TARGET", *J], row),
    "count insn --only": (["count", "insn", "TARGET", "--only", *J], row),
    "trace": (["trace", "TARGET", "-f", "ndjson", "-o", OUT], lines),
    "trace -A -d": (["trace", "-A", "-d", "TARGET", "-f", "ndjson", "-o", OUT], lines),
    "why": (["why", "-x", "EBADF", "TARGET"], failed),
    "why -x NULL": (["why", "-x", "NULL", "TARGET"], nothing_failed),
    "cover": (["cover", "TARGET", *J], functions),
    "cover --edges": (["cover", "TARGET", "--edges", *J], functions),
    "prof": (["prof", "TARGET", *J], functions),
    "prof --paths": (["prof", "TARGET", "--paths", *J], paths),
    "prof --paths=wall": (["prof", "TARGET", "--paths=wall", *J], paths),
    "branch": (["branch", "TARGET", *J], branches),
    "lock": (["lock", "TARGET"], locks),
    "mem": (["mem", "TARGET", *J], accesses),
    "record": (["record", "TARGET", "-o", OUT], recorded),
    "stat": (["stat", "TARGET", *J], never),
    "dump": (["dump", "TARGET", *J], blocks),
}

THIRDS = 3

# Pairs that are refused, and what the one line says.
BEGINNING = "all else needs the beginning of a call; give a function that the thread calls"
OF_THREADS = "--by comm,pid has a row for each thread"
NOTHING, NO_POINTER, UNTOLD = "it returns nothing", "it returns no pointer", "the kernel does not tell what it returns"
REFUSED = {
    "softirq": {"count hist:retval": NOTHING, "why": NOTHING, "why -x NULL": NO_POINTER},
    "irq": {"why -x NULL": NO_POINTER},
    "work": {"why -x NULL": UNTOLD},
    "timer": {"why -x NULL": UNTOLD},
    "sys32": {"why -x NULL": NO_POINTER},
    "kthread": {"count call": BEGINNING, "count hist:duration": BEGINNING, "count hist:retval": BEGINNING,
                "count hist:ARG0": BEGINNING, "count call --by context": OF_THREADS, "count insn --by cpu": OF_THREADS,
                "why": BEGINNING, "why -x NULL": UNTOLD, "prof --paths": BEGINNING, "prof --paths=wall": BEGINNING},
}
for refused in REFUSED.values():
    refused["stat"] = "give fn:NAME, fn:GLOB or mod:NAME"
if RELEASE >= (6, 12):  # before, it has an argument
    REFUSED["softirq"]["count hist:ARG0"] = "it has no such argument in a register; it has none"

# What returns the number of calls of the target, and of nothing else.
EXACT = row, keys, lines, nothing_failed


def every_tool(tools):
    """Each tool has the target of each kind, or refuses it."""
    for tool in tools:
        words, calls = TOOLS[tool]
        for kind in LOADS:
            status_, out, err = ended(kind, words)
            hint = REFUSED[kind].get(tool)
            if hint:
                check(f"{tool} {kind}: refused", status_ == 2 and err.count("\n") == 1 and hint in err, (status_, out, err))
                continue
            try:
                found = status_ == 0 and calls(kind, out, err)
            except (ValueError, KeyError, AttributeError) as error:
                found = f"{error!r}"
            made = MADE.get(kind) if calls in EXACT else None
            check(f"{tool} {kind}", found and isinstance(found, (int, bool)) and made in (None, found),
                  (status_, found, made, out[:1500], err))


def under_and_filters():
    """--under goes with commands that are not count, and with filters."""
    word = "fn:contexts_work@jifl_contexts"

    def one(command, *words):
        process = background("jifl", command, *words)
        wait_for("the session", lambda: process.poll() is not None or status()["sessions"], PATIENCE)
        if process.poll() is None:
            called("task")
            called("work")
            out, err = interrupt(process)
        else:
            out, err = process.communicate()
        check(f"{command} {words}: ends well", process.returncode == 0, err)
        return out

    write = ("--under", "sys:write")
    mine, other = ("-p", os.getpid()), ("-p", 1)
    same("trace --under", len(one("trace", word, *write, "-f", "ndjson").splitlines()), WORKS)
    same("trace --under a function", len(one("trace", word, "--under", "fn:work_item", "-f", "ndjson").splitlines()), WORKS)
    same("trace without", len(one("trace", word, "-f", "ndjson").splitlines()), 2 * WORKS)
    for command, *more in (["prof"], ["cover"], ["branch"], ["mem"], ["prof", "--paths"]):
        got = json.loads(one(command, word, *more, *write, *J))
        calls = got["calls"] if "calls" in got else sum(path["calls"] for path in got["paths"] if len(path["path"]) == 1)
        same(f"{command} {more} --under", calls, WORKS)
    one("record", word, *write, "-o", OUT)
    same("record --under", json.loads(run("jifl", "report", OUT, "--as", "prof", *J).stdout)["calls"], WORKS)
    one("lock", word, *write)
    for filters, want in ((mine, WORKS), (other, 0), (("-n", "python3"), WORKS), (("-n", "no-such-name"), 0)):
        got = json.loads(one("count", "insn", word, *write, *filters, *J))["targets"]
        same(f"count --under {filters}", sum(row["calls"] for row in got), want)
    got = json.loads(one("count", "insn", word, *write, "--by", "comm", *J))["rows"]
    same("count --under --by comm", [(row["comm"], row["calls"]) for row in got], [("python3", WORKS)])
    got = json.loads(one("count", "hist:duration", word, *write, *J))["targets"]
    same("count hist --under", sum(row["calls"] for row in got), WORKS)


def closed_ports(number):
    """Packets to a port that nobody has, each after the answer to the one before.

    What looks for the packet's socket, in a softirq, finds none. Then it finds the sender's, for
    the answer: that must not be closed before.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(port)
        answers = 0
        for _ in range(number):
            one.send(b"x")
            try:
                one.recv(1)
            except ConnectionRefusedError:
                answers += 1
    same("packets that were refused", answers, number)


def in_softirqs():
    """Arguments by their names, and results that are NULL, of functions that softirqs call."""
    owner = session("hist:arg.quota", "fn:process_backlog", *J)
    packets(N // 10)
    target, = json.loads(interrupt(owner)[0])["targets"]
    check("hist:arg.quota in a softirq", target["calls"] >= N // 10 and target["missed"] == 0, target)
    same("hist:arg.quota: the value", (target["min"], target["max"]), (64, 64))
    owner = session("-x", "NULL", "fn:__udp4_lib_lookup", "-f", "ndjson", command="why")
    closed_ports(N // 10)
    out, err = interrupt(owner)
    groups = [json.loads(line) for line in out.splitlines()]
    check("why -x NULL in a softirq", sum(group["calls"] for group in groups) == N // 10 and
          f"{N // 5} calls, {N // 10} returned NULL" in err and
          {(group["function"], group["errno"]) for group in groups} == {("__udp4_lib_lookup", "NULL")}, (out[:1000], err))
    figure("why -x NULL in a softirq", err.strip())


def run_part(program, part):
    mark = log_mark()
    KNOWN["program"] = program
    up("lo")
    for module in MODULE, Path(module_file()).parent / "jifl_pair.ko":
        same(f"{module} is there", run("insmod", module).returncode, 0)
    WORDS["irq"], FUNCTIONS["irq"] = busy_irq()
    if int(part) < THIRDS:
        every_tool(list(TOOLS)[int(part)::THIRDS])
    else:
        under_and_filters()
        in_softirqs()
    for name in "jifl_contexts", "jifl_pair":
        same(f"{name} goes", run("rmmod", name).returncode, 0)
    same("no session is left", status()["sessions"], [])
    same("nothing is said", complaints(kernel_log(mark)), [])


def busy_irq():
    """The target of the interrupt that comes most often while files are read, and its function."""
    before = interrupts()
    disk()
    after = interrupts()
    nr = max(after, key=lambda nr: after[nr] - before.get(nr, 0))
    listed = [line.split() for line in run("jifl", "list", "irq:").stdout.splitlines()[1:]]
    function, = {words[2] for words in listed if words[1] == str(nr)}
    return f"irq:{nr}", function


if __name__ == "__main__":
    main(run_part)
