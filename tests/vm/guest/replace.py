# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls of a function go to another one while a session runs, and nowhere else.

usage: replace.py MODULES [ROUNDS [beside]]

MODULES: a directory with storm.ko and replaced.ko of plugins/. What replaces a function returns the
original's result inverted, and counts its calls. So for jifl_contexts the results of replaced calls
are wrong, and no others. With ROUNDS the function of storm.ko is replaced and restored so often,
while all processors call it in all contexts and the cache is emptied. With `beside` another session
has the function all the time, so that the replacement runs as a copy, and the function's site stays
as it is.
"""

import errno
import json
import os
import re
import signal
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from contexts import CONTEXTS, FILE, LEVELS, MODULE, N
from lib import (REASONS, Device, background, check, complaints, figure, interrupt, is_loaded, kernel_log, log_mark, main,
                 report, run, same, session, settled, status, wait_for)

REPLACE = 11    # the kind of session
WORK = "fn:contexts_work@jifl_contexts"
REPLACED, STORM = Path("/proc/replaced"), Path("/proc/storm")
CMDLINE = Path("/proc/cmdline")
KPROBES = Path("/sys/kernel/tracing/kprobe_events")
LIVEPATCH = Path("/sys/kernel/livepatch/jifl_livepatch")


def address(name, module=None):
    """Where a function of a module, or of the kernel, begins."""
    for line in Path("/proc/kallsyms").read_text().splitlines():
        words = line.split()
        if words[2:] == [name] + [f"[{module}]"] * bool(module):
            return int(words[0], 16)
    raise RuntimeError(f"no {name} in {module}")


def tally(name):
    """How often a replacing function was called by level, and how many calls are inside."""
    for line in REPLACED.read_text().splitlines():
        if line.split()[0] == name:
            *calls, inside = map(int, line.split()[1:])
            return Counter(dict(zip(LEVELS, calls))), inside
    raise RuntimeError(name)


def made(*contexts, n=N):
    """Has calls made in contexts: how many by level, and how many results were wrong."""
    Path(FILE).write_text("reset 0")
    for context in contexts:
        Path(FILE).write_text(f"{context} {n}")
    calls, wrong = Counter(), 0
    for line in Path(FILE).read_text().splitlines():
        name, *numbers = line.split()
        if name in contexts:
            calls.update(dict(zip(LEVELS, map(int, numbers))))
            wrong += int(numbers[3])
    return calls, wrong


def replacing(function, ko, *options):
    """Starts `jifl replace`."""
    return session(function, "--with", ko, "-f", "json", *options, command="replace")


def ended(owner):
    """Its report, and what it said."""
    out, err = interrupt(owner)
    same("exit status", (owner.returncode, err if owner.returncode else ""), (0, ""))
    return json.loads(out), err


def listed():
    return json.loads(run("jifl", "replace", "-f", "json").stdout)["replacements"]


def refused(what, *words, hint, code=1):
    end = run("jifl", "replace", *words, "--for", "100ms")
    check(what, end.returncode == code and end.stderr.count("\n") == 1 and hint in end.stderr, end)


# --- which calls -----------------------------------------------------------------------------------

# Those that call contexts_work alone, and say of each result whether it is right.
# Instructions of the calculation that they make, at least.
WORKED = 20

PLAIN = [name for name, traits in CONTEXTS.items() if not traits.get("function")]


def each_context(ko):
    """All calls go there, at each level; then none does, and the module is gone."""
    calls, wrong = made(*PLAIN)
    same("originals: wrong results", wrong, 0)
    for function in ("contexts_work", "replaced_again"):
        name = {"contexts_work": "work", "replaced_again": "again"}[function]
        owner = replacing(WORK, ko if name == "work" else f"{ko}:{function}", "--unsafe")
        (one,) = listed()
        same(f"{name}: listed", (one["function"], one["with"], one["ended"], one["inside"]),
             ("contexts_work [jifl_contexts]", f"{function} [replaced]", False, 0))
        text = run("jifl", "replace").stdout
        check(f"{name}: shown", f"{function} [replaced]" in text and "runs" in text, text)
        calls, wrong = made(*PLAIN)
        check(f"{name}: at all levels", all(calls[level] for level in LEVELS), calls)
        same(f"{name}: all results are the other function's", wrong, sum(calls.values()))
        same(f"{name}: calls of the other function", tally(name)[0], calls)
        # With arguments on the stack, by a tail call, in a recursion.
        others = ("many", "tail", "recursion", "sleep")
        before = sum(tally(name)[0].values())
        made(*others)
        extra = sum(tally(name)[0].values()) - before
        check(f"{name}: other callers", extra >= N * len(others), extra)
        check(f"{name}: the module is in use", run("rmmod", "replaced").returncode != 0 and is_loaded("replaced"))
        got, _ = ended(owner)
        same(f"{name}: calls, missed", (got["calls"], got["missed_by"]), (sum(calls.values()) + extra, {}))
        check(f"{name}: the module that was inserted is removed", not is_loaded("replaced"))
        same(f"{name}: wrong results afterwards", made(*PLAIN)[1], 0)
        same(f"{name}: nothing is replaced", listed(), [])


def own_process(ko):
    """With a filter: the original for everyone else."""
    owner = replacing(WORK, ko, "--unsafe", "-p", os.getpid())
    calls, wrong = made("task", "irq-off", "spinlock")
    same("-p: this process's calls", wrong, sum(calls.values()))
    same("-p: kernel threads, interrupts", made("kthread", "work", "timer", "hrtimer", "ipi")[1], 0)
    # The module has nothing to say of wrong results while another process calls.
    Path(FILE).write_text("reset 0")
    run("sh", "-c", f"echo 'task {N}' > {FILE}")
    wrong = next(line.split()[4] for line in Path(FILE).read_text().splitlines() if line.startswith("task "))
    same("-p: another process", wrong, "0")
    got, _ = ended(owner)
    same("-p: calls", (got["calls"], got["missed_by"]), (sum(calls.values()), {}))


def on_a_condition(ko):
    """With --if: calls for which it does not hold run the original, at each level."""
    owner = replacing(WORK, ko, "--unsafe", "--if", "level == 0")
    calls, wrong = made(*PLAIN)
    same("--if level: task level", wrong, calls["task"])
    got, _ = ended(owner)
    same("--if level: calls", (got["calls"], got["missed_by"]), (calls["task"], {}))
    # One condition is the other's opposite.
    halves, own = [], f"$arg0 != 0 && pid == {os.getpid()}"
    for condition in (own, f"!({own})"):
        owner = replacing(WORK, ko, "--unsafe", "--if", condition)
        before = tally("work")[0]
        calls, wrong = made(*PLAIN)
        same(f"--if {condition}: results", wrong, sum((tally("work")[0] - before).values()))
        got, _ = ended(owner)
        same(f"--if {condition}: calls", (got["calls"], got["missed_by"]), (wrong, {}))
        halves.append(wrong)
    check("--if: each call is of one half", all(halves) and sum(halves) == sum(calls.values()), halves)
    # Memory, a string, and a filter beside it.
    for word, calls in (("sh", N), ("cat", 0)):
        end = run("jifl", "replace", WORK, "--with", ko, "--unsafe", "-f", "json", "--if",
                  f'comm == "{word}" && *(unsigned long *)rsp', "--", "sh", "-c", f"echo 'task {N}' > {FILE}")
        same(f"--if {word} with CMD: calls", (end.returncode, json.loads(end.stdout)["calls"]), (0, calls))
    # Beside others, whose copies come to the door.
    owner = replacing(WORK, ko, "--unsafe", "--if", "level == 0")
    other = session("insn", WORK, "-f", "json")
    calls, wrong = made(*PLAIN)
    same("--if beside a session: task level", wrong, calls["task"])
    data = report(interrupt(other)[0])["by_name"]["contexts_work"]
    same("--if beside a session: its calls", (data["calls"], data["missed_by"]), (sum(calls.values()), {}))
    ended(owner)
    # What cannot be read.
    owner = replacing(WORK, ko, "--unsafe", "--if", "*(int *)16 == 0")
    calls, wrong = made("task")
    same("--if of what cannot be read: the original", wrong, 0)
    got, _ = ended(owner)
    same("--if of what cannot be read: told", (got["calls"], got["missed_by"]), (0, {"condition": sum(calls.values())}))
    for condition, hint in (("caller == 1", "not `caller`"), ("rbx == 1", "no other registers"), ("$arg0 ==", "column")):
        refused(f"--if {condition}", WORK, "--with", ko, "--unsafe", "--if", condition, hint=hint, code=2)


def with_command(ko):
    """With CMD: its calls alone, and its exit status."""
    end = run("jifl", "replace", WORK, "--with", ko, "--unsafe", "-f", "json", "--", "sh", "-c",
              f"echo 'task {N}' > {FILE}; exit 3")
    same("CMD: exit status and calls", (end.returncode, json.loads(end.stdout)["calls"]), (3, N))


def beside_others(ko):
    """Other sessions see a function that is replaced, and copies call what replaces it."""
    owner = replacing(WORK, ko, "--unsafe")
    for words in (["call", WORK], ["insn", WORK], ["insn", WORK, "--only"]):
        before = tally("work")[0]
        other = session(*words, "-f", "json")
        calls, wrong = made(*PLAIN)
        data = report(interrupt(other)[0])["by_name"]["contexts_work"]
        same(f"{words}: results", wrong, sum(calls.values()))
        same(f"{words}: calls of the other function", tally("work")[0] - before, calls)
        same(f"{words}: calls, missed", (data["calls"], data["missed_by"]), (sum(calls.values()), {}))
        if words[0] == "insn":
            check(f"{words}: the replacement runs in the cache", data["min"] >= WORKED, data)
    # The caller runs in the cache.
    for words in (["insn", "sys:write"], ["block", "fn:contexts_write@jifl_contexts"]):
        other = session(*words, "-f", "json")
        calls, wrong = made("task", "irq-off", "nested")
        same(f"{words}: results", wrong, sum(calls.values()))
        data = report(interrupt(other)[0])
        check(f"{words}: counted", data["targets"][0]["calls"] > 0, data)
        check(f"{words}: each call leaves the cache", data["native_exits"].get("replaced", 0) >= 2 * N, data)
    # The replacing function as a target.
    other = session("call", "fn:contexts_work@replaced", "-f", "json")
    calls, _ = made(*PLAIN)
    same("calls of the replacing function", report(interrupt(other)[0])["by_name"]["contexts_work"]["calls"],
         sum(calls.values()))
    ended(owner)
    # The other order: a session that has copies when the replacement comes and goes.
    other = session("insn", "sys:write", "-f", "json")
    for _ in range(2):
        same("copies: the original", made("task")[1], 0)
        owner = replacing(WORK, ko, "--unsafe")
        calls, wrong = made("task")
        same("copies: the replacement", wrong, sum(calls.values()))
        ended(owner)
    same("copies: the original again", made("task")[1], 0)
    interrupt(other)


# --- ends ------------------------------------------------------------------------------------------

@contextmanager
def stuck(ko, function, name):
    """A thread is in the replacing function when the session ends: (its process, what was said)."""
    run("insmod", ko)
    REPLACED.write_text("wait")
    owner = replacing(WORK, f"{ko}:{function}", "--unsafe")
    child = background("sh", "-c", f"echo reset 0 > {FILE}; echo 'task 10' > {FILE}")
    wait_for("the thread", lambda: tally(name)[1] == 1)
    start = time.monotonic()
    got, said = ended(owner)
    figure(f"{name}: the command ended after", f"{time.monotonic() - start:.1f} s")
    same(f"{name}: calls", got["calls"], 1)
    same(f"{name}: inside at the end", got["inside_at_end"], 1)
    yield child, said
    REPLACED.write_text("go")
    same(f"{name}: the thread goes on", (child.wait(timeout=60), child.stderr.read()), (0, ""))
    lines = [line.split() for line in Path(FILE).read_text().splitlines()]
    same(f"{name}: one result is the replacement's", next(line[4] for line in lines if line[0] == "task"), "1")
    same(f"{name}: nothing is kept", settled(listed, lambda found: not found, 30), [])
    same(f"{name}: the module goes", run("rmmod", "replaced").returncode, 0)


def inside(ko):
    """Threads that are inside at the end keep the module; nobody waits for them."""
    # The return into replaced_run is in the record of a kretprobe, and not on the stack.
    KPROBES.write_text("r:jifl_test yield")
    enabled = Path("/sys/kernel/tracing/events/kprobes/jifl_test/enable")
    enabled.write_text("1")
    for function, name in (("replaced_sleep", "sleeps"), ("replaced_run", "runs")):
        with stuck(ko, function, name) as (child, said):
            (one,) = listed()
            check(f"{name}: ended, and somebody is inside", one["ended"] and one["inside"] == 1, one)
            check(f"{name}: who", f"{one['threads'][0]['pid']} (" in said and "replacement" in said, (one, said))
            same(f"{name}: rmmod is refused", (run("rmmod", "replaced").returncode, is_loaded("replaced")), (1, True))
            check(f"{name}: JIFL stays, too", run("jifl", "unload", "jifl").returncode == 1 and is_loaded())
            # Another replacement comes and goes meanwhile.
            owner = replacing(WORK, f"{ko}:replaced_again", "--unsafe")
            same(f"{name}: two are there", [found["ended"] for found in listed()], [True, False])
            ended(owner)
            check(f"{name}: the thread has not moved", child.poll() is None)
    enabled.write_text("0")
    KPROBES.write_text("")


def inside_the_original(ko):
    """Threads that are in the original at the start are named, and finish there."""
    run("insmod", ko)
    REPLACED.write_text("wait")
    owner = replacing(WORK, f"{ko}:replaced_sleep", "--unsafe")
    child = background("sh", "-c", f"echo 'task 10' > {FILE}")
    wait_for("the sleeper", lambda: tally("sleeps")[1] == 1)
    # It is in contexts_write, which calls contexts_work.
    other = replacing("fn:contexts_write@jifl_contexts", f"{ko}:replaced_other", "--unsafe", "-p", 1)
    names = {one["function"]: one for one in listed()}
    one = names["contexts_write [jifl_contexts]"]
    same("one thread is in the original", (one["inside"], one["threads"][0]["comm"]), (1, "sh"))
    got, said = ended(other)
    check("it was named", got["inside_at_start"] == 1 and "finishing in the original: " in said and "(sh)" in said, said)
    REPLACED.write_text("go")
    same("it finishes", child.wait(timeout=60), 0)
    ended(owner)
    same("the module goes", run("rmmod", "replaced").returncode, 0)


def killed(ko):
    """A command that is killed takes the replacement with it; what it inserted stays."""
    owner = replacing(WORK, ko, "--unsafe")
    calls, wrong = made("task")
    same("before: replaced", wrong, sum(calls.values()))
    owner.kill()
    owner.wait()
    wait_for("the end of the session", lambda: not status()["sessions"])
    same("killed: the original", made("task")[1], 0)
    same("killed: nothing is kept", settled(listed, lambda found: not found, 30), [])
    same("killed: the module goes", run("rmmod", "replaced").returncode, 0)


def restored(ko):
    """By its function, by its session, and with all: sessions that count go on."""
    counting = session("call", "fn:contexts_write@jifl_contexts", "-f", "json")
    for what in ("fn:contexts_work@jifl_contexts", "ID", ""):
        owner = replacing(WORK, ko, "--unsafe")
        calls, wrong = made("task")
        same(f"before restore {what}: replaced", wrong, sum(calls.values()))
        word = str(listed()[0]["session"]) if what == "ID" else what
        end = run("jifl", "restore", *filter(None, [word]))
        check(f"restore {what}: said", end.returncode == 0 and "ended 1 replacement and 0 layouts in " in end.stderr, end)
        out, err = owner.communicate(timeout=60)
        same(f"restore {what}: its command reports", (owner.returncode, json.loads(out)["calls"]), (4, sum(calls.values())))
        same(f"restore {what}: the original", made("task")[1], 0)
        same(f"restore {what}: what counts goes on", [one["kind"] for one in status()["sessions"]], ["call"])
    number = str(status()["sessions"][0]["id"])
    for word, hint in ((number, f"its kind is call; `jifl detach {number}` ends it"), ("9999", "no such session"),
                       ("fn:vfs_read", "vfs_read is not replaced")):
        end = run("jifl", "restore", word)
        check(f"restore {word}: refused", end.returncode == 1 and end.stderr.count("\n") == 1 and hint in end.stderr, end)
    counted = report(interrupt(counting)[0])["by_name"]["contexts_write"]["calls"]
    same("what counted missed none", counted, 12)


# --- what is not taken -----------------------------------------------------------------------------

def refusals(ko):
    """One line each, and nothing has changed."""
    insert = Path(MODULE).parent
    refused("another prototype", "fn:cmdline_proc_show", "--with", f"{ko}:replaced_other",
            hint="fn:cmdline_proc_show is s32 (struct seq_file *, void *), and fn:replaced_other@replaced is "
                 "s32 (struct seq_file *, u32)")
    check("the module is removed again", not is_loaded("replaced"))
    refused("a prototype that is not known", WORK, "--with", ko, hint="--unsafe")
    refused("no such function", WORK, "--with", f"{ko}:contexts_wrok", hint="nearest are contexts_work", code=2)
    refused("no such original", "fn:no_such_function", "--with", ko, hint="no such function", code=2)
    refused("several originals", "fn:vfs_*", "--with", ko, hint="name one function", code=2)
    refused("no module", WORK, "--with", "/etc/hostname", hint="not a kernel module", code=2)
    refused("without a site", "fn:contexts_bare@jifl_contexts", "--with", f"{ko}:contexts_work", "--unsafe", hint="fentry")
    refused("switches tasks", "fn:__schedule", "--with", f"{ko}:contexts_work", "--unsafe", hint="cannot be a target")
    refused("is in use by the module", "fn:unwind_next_frame", "--with", f"{ko}:contexts_work", "--unsafe",
            hint="cannot be a target")
    owner = replacing(WORK, ko, "--unsafe")
    refused("a second replacement", WORK, "--with", f"{ko}:replaced_again", "--unsafe", hint="another session replaces it")
    refused("a circle", "fn:contexts_work@replaced", "--with", f"{insert}/jifl_contexts.ko:contexts_work", "--unsafe",
            hint="is replaced by it")
    # A chain is none.
    second = replacing("fn:contexts_work@replaced", f"{ko}:replaced_again", "--unsafe")
    before = tally("again")[0]
    calls, wrong = made(*PLAIN)
    same("a replacement of a replacement", (wrong, tally("again")[0] - before), (sum(calls.values()), calls))
    ended(second)
    ended(owner)
    work = address("contexts_work", "jifl_contexts")
    with Device() as device:
        for what, place in (("the middle of a function", address("contexts_write", "jifl_contexts") + 1),
                            ("behind an endbr64", address("contexts_write", "jifl_contexts") + 4),
                            ("data", address("bare_hooked", "jifl_contexts")),
                            ("a function without a site", address("contexts_bare", "jifl_contexts")),
                            ("a part that the compiler has put aside", address("contexts_aside.cold", "jifl_contexts")),
                            ("the kernel's own function", address("vfs_read")),
                            ("JIFL's own function", address("jifl_hold_take", "jifl")), ("no address", 1)):
            try:
                device.start_of(REPLACE, [Device.target(place, Device.FUNCTION, address=work)])
                check(f"{what} replaces nothing", False)
            except OSError as error:
                same(f"{what} replaces nothing", (error.errno, device.refused),
                     (errno.EOPNOTSUPP, [REASONS.index("WITH")]))
    run("insmod", ko)
    end = run("setpriv", "--bounding-set", "-sys_module", "--inh-caps", "-sys_module",
              "jifl", "replace", WORK, "--with", ko, "--unsafe", "--for", "100ms")
    check("without CAP_SYS_MODULE", end.returncode == 3 and "CAP_SYS_MODULE" in end.stderr, end)
    same("the module goes", run("rmmod", "replaced").returncode, 0)
    same("nothing has been replaced", made(*PLAIN)[1], 0)


def taken(ko):
    """A BPF program's, a live patch's or another tracer's site: whoever is later is refused."""
    modules = Path(MODULE).parent
    cmdline = CMDLINE.read_text()
    example = f"{modules}/cmdline.ko"
    end = run("jifl", "replace", "fn:cmdline_proc_show", "--with", example, "--", "cat", CMDLINE)
    same("the example", (end.returncode, end.stdout),
         (0, f"replaced: {cmdline}cmdline_proc_show: 1 call went to cmdline_proc_show [cmdline]; missed 0\n"))
    run("insmod", f"{modules}/jifl_direct.ko", "function=cmdline_proc_show")
    refused("another's direct call", "fn:cmdline_proc_show", "--with", example, hint="another tracer has its fentry site")
    run("rmmod", "jifl_direct")
    owner = replacing("fn:cmdline_proc_show", example)
    end = run("insmod", f"{modules}/jifl_direct.ko", "function=cmdline_proc_show")
    check("another's direct call comes later", end.returncode != 0 and not is_loaded("jifl_direct"), end)
    if Path("/sys/kernel/livepatch").exists():
        end = run("insmod", f"{modules}/jifl_livepatch.ko")
        check("a live patch comes later", end.returncode != 0 and not is_loaded("jifl_livepatch"), end)
    same("replaced all the time", CMDLINE.read_text(), f"replaced: {cmdline}")
    # insmod reads the command line, too: from here on nobody else does.
    ended(owner)
    owner = replacing("fn:cmdline_proc_show", example)
    same("replaced again", CMDLINE.read_text(), f"replaced: {cmdline}")
    # The function tracer and kprobes at the site see calls, and change nothing.
    # By its address: the module has a function of this name, too.
    KPROBES.write_text(f"p:jifl_test {address('cmdline_proc_show'):#x}")
    enabled = Path("/sys/kernel/tracing/events/kprobes/jifl_test/enable")
    enabled.write_text("1")
    same("beside a kprobe", CMDLINE.read_text(), f"replaced: {cmdline}")
    enabled.write_text("0")
    KPROBES.write_text("")
    got, _ = ended(owner)
    same("calls", got["calls"], 2)
    same("restored", CMDLINE.read_text(), cmdline)
    if not Path("/sys/kernel/livepatch").exists():
        return
    same("the live patch loads", run("insmod", f"{modules}/jifl_livepatch.ko").returncode, 0)
    wait_for("the live patch", lambda: (LIVEPATCH / "transition").read_text() == "0\n", 120)
    refused("a live patch came before", "fn:cmdline_proc_show", "--with", example, hint="a live patch")
    same("the live patch takes effect", CMDLINE.read_text(), "patched\n")
    (LIVEPATCH / "enabled").write_text("0")
    wait_for("the end of the live patch", lambda: not LIVEPATCH.exists() and run("rmmod", "jifl_livepatch").returncode == 0,
             120)


# --- under a load ----------------------------------------------------------------------------------

def storm():
    """By level: calls, results of the original, of the replacement, of neither; in the window, lost."""
    return [[int(word) for word in line.split()[1:]] for line in STORM.read_text().splitlines()]


def rounds(modules, count, beside):
    """Replaced and restored again and again, while all processors call it in all contexts.

    Each result is that of one of the two functions, and it is the replacement's for each call that
    begins after the session's start and ends before its end. Meanwhile the cache is emptied, because
    it has no room for another session's copies.
    """
    for name in ("storm", "replaced"):
        same(f"{name} loads", run("insmod", f"{modules}/{name}.ko").returncode, 0)
    target = Device.target(address("storm_work", "replaced"), Device.FUNCTION, address=address("storm_work", "storm"))
    counts = session("call", "fn:storm_work@storm", "-f", "json") if beside else None
    load = background("sh", "-c", "while :; do ls -lR /etc > /dev/null; cat /proc/stat > /dev/null; done",
                      start_new_session=True)
    other = session("insn", "sys:*", "-f", "json")
    STORM.write_text("start")
    calls = missed = 0
    flushes = status()["flushes"]
    start = time.monotonic()
    with Device() as device:
        for number in range(count):
            device.start_of(REPLACE, [target])
            STORM.write_text("open")
            time.sleep(0.02)
            STORM.write_text("close")
            device.stop()
            answer = device.stat_of(0)
            calls += int.from_bytes(answer[8:16], "little")
            missed += int.from_bytes(answer[48:56], "little")
            if number % 50 == 0:
                check(f"round {number}: no result of neither", not any(level[3] for level in storm()), storm())
    took = time.monotonic() - start
    STORM.write_text("stop")
    interrupt(other)
    levels = storm()
    if counts:
        data = report(interrupt(counts)[0])["by_name"]["storm_work"]
        same("the other session's calls, and those that it missed", data["calls"] + data["missed"],
             sum(level[0] for level in levels))
        figure("calls that the other session missed", data["missed_by"])
    flushes = status()["flushes"] - flushes
    os.killpg(load.pid, signal.SIGKILL)
    for level, (all_calls, original, replaced, neither, within, lost) in zip(LEVELS, levels):
        check(f"{level}: replaced and not", original and replaced, levels)
        check(f"{level}: of {within} calls while it was replaced none is lost", within and not lost, lost)
        same(f"{level}: each result is one of the two", (original + replaced, neither), (all_calls, 0))
    counted = sum(level[2] for level in levels)
    same("calls that were counted, and missed", (calls, missed), (counted, 0))
    same("calls of the replacement, by level", [tally("storm")[0][level] for level in LEVELS],
         [level[2] for level in levels])
    check("the cache was emptied meanwhile", flushes > 0, flushes)
    figure("rounds, seconds each, calls, of them replaced, missed, flushes",
           f"{count}, {took / count:.2f}, {sum(level[0] for level in levels)}, {counted}, {missed}, {flushes}")
    same("nothing is kept", settled(listed, lambda found: not found, 30), [])
    for name in ("replaced", "storm"):
        same(f"{name} goes", run("rmmod", name).returncode, 0)


def program(modules, count=0, beside=""):
    mark = log_mark()
    ko = f"{modules}/replaced.ko"
    same("the module with the originals", run("insmod", MODULE).returncode, 0)
    if int(count):
        rounds(modules, int(count), beside)
    else:
        each_context(ko)
        own_process(ko)
        on_a_condition(ko)
        with_command(ko)
        beside_others(ko)
        inside(ko)
        inside_the_original(ko)
        restored(ko)
        killed(ko)
        refusals(ko)
        taken(ko)
    same("it goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("no session is left", status()["sessions"], [])
    same("JIFL goes", run("rmmod", "jifl").returncode, 0)
    same("the kernel's log", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(program)
