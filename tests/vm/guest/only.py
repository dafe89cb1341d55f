# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions alone (--only): their bodies are counted, what they call is not, and no call is lost.

usage: only.py
"""

import json
import os
import re
import time
from collections import Counter, defaultdict
from pathlib import Path

from contexts import CONTEXTS, DEPTH, MODULE, N, against_kprobes, call, counted, target_of
from function_tools import ask
from lib import (Device, all_sites_patched, background, check, complaints, figure, interrupt, is_loaded, kernel_log,
                 log_mark, main, report, run, same, session, status)

ME = ("-p", os.getpid())
DIRECT = Path(MODULE).with_name("jifl_direct.ko")
TRACING = Path("/sys/kernel/tracing")
# Of a function that has a site these would not be true.
NO_SITE = {"JIFL_REFUSED_UNKNOWN", "JIFL_REFUSED_SITE"}
TAKEN = "__x64_sys_getsid"
# The session's own memory is freed a little later. ftrace of 6.1 lost 950 MB.
KEPT = 20_000
WORK = "import os\nfor n in range(20000): os.stat('/etc/hostname'), os.getpgid(0)"


def ended(owner, name):
    """The report of a session that ends now."""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    return json.loads(out)


def each_context():
    """Calls at each level, and from copies of the same session."""
    for context, traits in CONTEXTS.items():
        function = traits.get("function", "contexts_work")
        for words in ([f"fn:{function}"], ["mod:jifl_contexts"]):
            data, made = counted("call", words, context, "--only")
            got = target_of(data, function)
            name = f"{context}, {words[0]}"
            same(f"{name}: calls", (got["calls"], got["missed_by"]), (sum(made.values()), {}))
            # What it calls is a target, too, or it is not.
            inner = {"recursion": (DEPTH + 1) * N}.get(context, N if function != "contexts_work" else 0)
            if inner:
                wanted = inner if words[0].startswith("mod:") else 0
                same(f"{name}: calls of contexts_work inside", target_of(data, "contexts_work")["calls"], wanted)


def bodies():
    """Instructions of a body are those that blocks of it execute under the function."""
    for function in ("do_getpgid", "find_task_by_vpid"):
        owner = session("insn", f"fn:{function}", "--by", "func", *ME, "-f", "json")
        ask()
        rows = {row["func"]: row["instructions"] for row in ended(owner, f"{function} by func")["rows"]}
        owner = session("insn", f"fn:{function}", "--only", *ME, "-f", "json")
        ask()
        got, = ended(owner, f"{function} alone")["targets"]
        same(f"{function}: instructions of its body", (got["calls"], got["instructions"]), (2 * N, rows[function]))
        check(f"{function}: which are not all", len(rows) > 1 or function != "do_getpgid", rows)
        figure(f"instructions of {function} alone, and under it", (rows[function], sum(rows.values())))
        owner = session(f"fn:{function}", "--only", *ME, "-f", "json", command="prof")
        ask()
        data = ended(owner, f"prof {function}")
        same(f"prof {function}: it is alone", {row["function"] for row in data["functions"]}, {function})
    for what in ("insn", "block"):
        data, made = counted(what, ["fn:contexts_recurse"], "recursion", "--only")
        got = target_of(data, "contexts_recurse")
        # The calls inside come to the door, and are parts of the outermost one.
        same(f"{what} of recursion: calls", (got["calls"], got["missed_by"]), (N, {"nested": DEPTH * N}))
        alone, _ = counted(what, ["fn:contexts_work"], "task", "--only")
        under, _ = counted(what, ["fn:contexts_work"], "task")
        same(f"{what} of a function that calls nothing",
             *((target_of(one, "contexts_work")["min"], target_of(one, "contexts_work")["max"]) for one in (alone, under)))


def profiles():
    """A profile has all calls of its functions, also those inside each other, and no other calls."""
    def profile(context, *words):
        owner = session(*words, "--only", "-f", "json", command="prof")
        made = sum(call(context).values())
        data = ended(owner, f"prof {words}")
        # Calls of a function are executions of its first block. The session's are counted apart from blocks.
        calls = sum(one["calls"] for one in data["functions"])
        same(f"prof {words} in {context}: calls, and those missed", (data["calls"], data["missed"]), (calls, 0))
        return made, {one["function"].partition(" ")[0]: (one["calls"], one["instructions"]) for one in data["functions"]}

    made, got = profile("task", "fn:contexts_work")
    calls, instructions = got["contexts_work"]
    same("prof contexts_work: calls", calls, made)
    for context, caller, inner in (("many", "contexts_many", N), ("recursion", "contexts_recurse", (DEPTH + 1) * N)):
        made, got = profile(context, f"fn:{caller}", "fn:contexts_work")
        same(f"prof {caller}: its calls", got[caller][0], made)
        same(f"prof {caller}: the calls inside, and their instructions", got["contexts_work"],
             (inner, inner * instructions // calls))
        # The same function with a condition that does not hold.
        _, got = profile(context, f"fn:{caller}", "work:contexts_work")
        same(f"prof {caller}: calls inside that are not meant", set(got), {caller})
    # Functions in between run natively: the calls inside come to the door.
    data, _ = counted("call", ["fn:contexts_write"], "task", "--only")
    made, got = profile("task", "fn:contexts_write", "fn:contexts_work")
    same("prof contexts_write: its calls", got["contexts_write"][0], target_of(data, "contexts_write")["calls"])
    same("prof contexts_write: the calls inside, and their instructions", got["contexts_work"],
         (made, made * instructions // calls))


def sessions_together():
    """Each of several sessions has its own functions' calls."""
    outer = session("call", "fn:do_getpgid", "fn:find_task_by_vpid", "--only", *ME, "-f", "json")
    inner = session("call", "fn:find_task_by_vpid", "--only", *ME, "-f", "json")
    other = session("insn", "fn:do_getpgid", "--only", *ME, "-f", "json")
    ask()
    for owner, wanted in ((other, ["do_getpgid"]), (inner, ["find_task_by_vpid"]),
                          (outer, ["do_getpgid", "find_task_by_vpid"])):
        targets = ended(owner, f"beside others, {wanted}")["targets"]
        same(f"beside others, {wanted}: calls", {one["function"]: (one["calls"], one["missed"]) for one in targets},
             dict.fromkeys(wanted, (2 * N, 0)))


def processors():
    """What a processor has counted stays counted when it goes, and when it comes back."""
    owner = session("call", "mod:jifl_contexts", "--only", "-f", "json")
    made = Counter()
    second = Path("/sys/devices/system/cpu/cpu1/online")
    for cpu, there in ((1, "1"), (0, "0"), (1, "1")):
        second.write_text(there)
        os.sched_setaffinity(0, {cpu})
        for context, function in (("recursion", "contexts_recurse"), ("irq-off", "contexts_work")):
            made[function] += sum(call(context).values())
        made["contexts_work"] += (DEPTH + 1) * N
    os.sched_setaffinity(0, {0, 1})
    second.write_text("0")
    data = report(interrupt(owner)[0])
    second.write_text("1")
    same("processors go and come: exit status", owner.returncode, 0)
    for function, calls in made.items():
        got = target_of(data, function)
        same(f"processors go and come: calls of {function}", (got["calls"], got["missed_by"]), (calls, {}))


def refusals():
    """What cannot be counted so is refused in one line."""
    for words, hint in ((["count", "insn", "sys:read", "--only"], "fn:ksys_read"),
                        (["trace", "fn:vfs_read", "--only"], "--only goes with"),
                        (["why", "fn:vfs_read", "--only"], "--only goes with"),
                        (["lock", "fn:vfs_read", "--only"], "--only goes with")):
        end = run("jifl", *words, "--for", "100ms")
        check(f"{words} is refused", end.returncode == 2 and end.stderr.count("\n") == 1 and hint in end.stderr, end)
    owner = session("call", "fn:do_getpgid", *ME)
    end = run("jifl", "count", "call", "fn:do_getpgid", "--only", "--for", "100ms")
    check("a function that another session has with what it calls", end.returncode == 1 and "--only" in end.stderr, end)
    ended_ = interrupt(owner)
    same("the other session was not disturbed", owner.returncode, 0)
    figure("the other session", ended_[1][-100:])


def unreclaimable():
    """KiB of the kernel's own memory that it does not give back by itself."""
    line, = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("SUnreclaim:"))
    return int(line.split()[1])


def direct_calls():
    """How often somebody else's direct call was called at this process's getsid, and how often that was made."""
    calls = Path("/sys/module/jifl_direct/parameters/calls")
    before = int(calls.read_text())
    for _ in range(N):
        os.getsid(0)
    return int(calls.read_text()) - before, N


def refusals_by_number():
    """(name, words) of each reason for which a function is no target, as the module's answer has it."""
    text = (Path(os.environ["JIFL_ROOT"]) / "include/uapi/jifl_refusals.h").read_text()
    text = text.partition("enum jifl_refusal {")[0].partition("#define JIFL_REFUSALS")[2]
    return [(name, "".join(re.findall(r'"([^"]*)"', words)))
            for name, words in re.findall(r'X\((\w+),\s*((?:"[^"]*"[\s\\]*)+)\)', text)]


class Symbols:
    """Functions by one of the names that their address has, the same for each of these names."""

    def __init__(self):
        self.names, self.at = defaultdict(set), defaultdict(set)
        for line in Path("/proc/kallsyms").read_text().splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                self.names[int(address, 16)].add((name, module[0].strip("[]") if module else ""))
        for address, names in self.names.items():
            for name in names:
                self.at[name].add(address)

    def of_address(self, address):
        return min(self.names[address])

    def of_name(self, name, module):
        return min((self.of_address(address) for address in self.at[name, module]), default=(name, module))


def sites(symbols, file, wanted=""):
    """How many functions of each name have a site that this file of the tracer's lists; with words that must follow."""
    found = Counter()
    for entry in re.findall(r"^\S.*(?:\n\s+.*)*", (TRACING / file).read_text(), re.M):
        name, module = re.match(r"(\S+)(?: \[(\w+)\])?", entry).groups()
        # Of functions that the linker has thrown away for others of the same name sites are left.
        if wanted in entry and not name.startswith("__ftrace_invalid_address___"):
            found[symbols.of_name(name, module or "")] += 1
    return found


def each_site(functions):
    """Each function with a site is entered by it, or is left out for a reason that the report counts.

    functions: the report's, of a session of all functions.
    """
    symbols, reasons = Symbols(), refusals_by_number()
    rows = (line.split() for line in run("jifl", "list", "fn:*").stdout.splitlines()[1:])
    # Of each address one name, as long as the module takes it.
    targets = {int(row[1], 16): row[0].removeprefix("fn:").partition("@")[0][:63] for row in rows}
    with all_sites_patched(), Device() as device:
        device.start_of(1, [Device.target(0, Device.FUNCTION, Device.ONLY, address, name.encode(), Device.OPTIONAL)
                            for address, name in targets.items()])
        refused = device.refused
        entered = sites(symbols, "enabled_functions", "[jifl]")
        device.stop()
    left_out = Counter(reasons[why][1] for why in refused if why)
    same("the report counts each function that is entered, or left out for a reason",
         (functions["entered"], functions["left_out"]), (refused.count(0), left_out))
    of_name, good, jumped = Counter(), Counter(), Counter()
    for address, why in zip(targets, refused):
        name = symbols.of_address(address)
        of_name[name] += 1
        good[name] += why != 0 and reasons[why][0] not in NO_SITE
        jumped[name] += why == 0
    all_sites = sites(symbols, "available_filter_functions")
    same("functions with a site that are no targets", all_sites - of_name, Counter())
    same("functions are entered by their own sites", entered - all_sites, Counter())
    left = all_sites - entered
    same("functions with a site that are not entered by it, and have no reason", dict(left - good), {(TAKEN, ""): 1})
    same("somebody else's is entered behind its site", jumped[symbols.of_name(TAKEN, "")], 1)
    figure("functions with a site, entered by it, left out", (all_sites.total(), entered.total(), left.total()))
    figure("functions entered by a jump", refused.count(0) - entered.total())
    figure("functions left out, by reason", dict(left_out))


def all_functions():
    """All functions of the kernel at once, in all contexts, under load."""
    mark = log_mark()
    end = run("insmod", DIRECT, f"function={TAKEN}")
    same("somebody else has a function", end.returncode, 0)
    kept = unreclaimable()
    load = [background("python3", "-c", f"print('begins', flush=True)\nwhile True:\n exec({WORK!r})") for _ in range(2)]
    # What a machine's python3 does before that may take longer than all of this test.
    for process in load:
        same("the load begins", process.stdout.readline(), "begins\n")
    start = time.monotonic()
    with all_sites_patched():
        owner = session("call", "fn:*", "--only", "--yes", "-f", "json")
    figure("seconds until all functions were targets", round(time.monotonic() - start, 1))
    ask()
    made = {context: call(context) for context in ("task", "timer", "hrtimer", "irq-work", "nested")}
    same("somebody else's function, beside ours", *direct_calls())
    time.sleep(5)
    with all_sites_patched():
        data = report(interrupt(owner)[0])
    same("all functions: exit status", owner.returncode, 0)
    same("somebody else's function, behind ours", *direct_calls())
    kept = unreclaimable() - kept
    figure("KiB of the kernel's memory that are kept afterwards", kept)
    check("the kernel's memory is given back", kept < KEPT, kept)
    each_site(data["functions"])
    got = data["by_name"]
    check("calls of do_getpgid", got["do_getpgid"]["calls"] > 2 * N, got["do_getpgid"])
    same("calls of contexts_work", got["contexts_work"]["calls"], sum(sum(one.values()) for one in made.values()))
    figure("calls, and functions that were called", (sum(one["calls"] for one in data["targets"]), len(data["targets"])))
    causes = Counter()
    for target in data["targets"]:
        causes.update(target["missed_by"])
    figure("missed", dict(causes))
    # What the module calls itself is not the load's, and so are calls in flight.
    check("no call of the load is missed", set(causes) <= {"own", "idle", "stopper", "nmi", "session-end"}, causes)
    for process in load:
        check("the load runs on", process.poll() is None, process)
        process.kill()
        process.communicate()
    same("nothing is said", complaints(kernel_log(mark)), [])


def gone():
    """The module goes, and somebody else's direct call stays."""
    end = run("jifl", "unload", "jifl")
    check("the module unloads", end.returncode == 0 and not is_loaded(), end)
    same("somebody else's function, without the module", *direct_calls())
    same("it is given back", run("rmmod", "jifl_direct").returncode, 0)


def only():
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    each_context()
    bodies()
    profiles()
    sessions_together()
    processors()
    refusals()
    against_kprobes(200, True, "--only")
    all_functions()
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    gone()
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(only)
