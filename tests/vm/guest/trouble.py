# SPDX-License-Identifier: MIT OR Apache-2.0
"""Warnings, oopses and mended faults inside instrumented system calls: the log has the same text as
natively.

Needs the module trouble. In this machine an oops ends the process that caused it, not the machine.
"""

import json
import re
from pathlib import Path

from lib import (SLOWNESS, background, check, figure, interrupt, is_loaded, kernel_log, log_mark, main, report, run, same,
                 session, status, wait_for)

# What has no result but a text, and whether the process survives it.
TROUBLES = {"warn": True, "once": True, "bug": False, "null": False, "read_null": False, "user_null": False,
            "divide": False, "not_canonical": False, "jump_nowhere": False, "stack": True, "recurse": True,
            "nofault": True, "put_nofault": True, "zeropad": True, "msr": True, "unsafe_msr": True,
            "segment": True, "copy_mc": True, "spin": True, "sleep": True,
            "deep": True}

# What can be done in an interrupt: it must not sleep, and an oops there would end the machine.
INTERRUPTS = [f"irq-{name}" for name, survives in TROUBLES.items() if survives and name != "sleep"]
SOFTIRQS = ["softirq-warn", "softirq-recurse", "softirq-nofault", "softirq-copy_mc"]

# What is counted, and what is done then. The kinds leave the same code but for what they insert.
SOME = ["warn", "null", "divide", "stack", "nofault", "zeropad", "deep"]
CALLS = ("sys:write", "sys:kill", "sys:exit_group")
FUNCTIONS = ("mod:trouble",)
BODIES = ("fn:*", "--only", "--yes")
CASES = [("insn", CALLS, list(TROUBLES)), ("block", CALLS, SOME), ("insn", FUNCTIONS, [*TROUBLES, *INTERRUPTS, *SOFTIRQS]),
         ("block", FUNCTIONS, ["irq-warn", "irq-recurse", "irq-nofault", "irq-zeropad", "irq-deep", "softirq-nofault"]),
         ("call", BODIES, [*SOME, *INTERRUPTS])]

# What doors change: registers that are nobody's where a function begins (System V ABI, 3.2.3).
CHANGED = {CALLS: "-", FUNCTIONS: "R10|R11", BODIES: "RAX|R10|R11"}

# What each must have said natively, so that a machine on which it does nothing is noticed.
SAID = {"warn": "do_warn", "once": "do_once", "bug": "invalid opcode", "null": "0000000000000008",
        "read_null": "0000000000000010", "user_null": "0000000000010000", "divide": "divide error",
        # KASAN has words of its own for it.
        "not_canonical": ("probably for non-canonical address " if SLOWNESS == 1 else "") + "0x8000dead00000000",
        "jump_nowhere": "NULL pointer", "stack": "do_stack", "recurse": "recurse", "nofault": "nofault 0: mended 1",
        "put_nofault": "put: mended", "zeropad": "zeropad 1: 7a", "msr": "rdmsr: -5", "unsafe_msr": "unchecked MSR",
        "segment": "segment: 0, 0 again", "copy_mc": "copy_mc: 100 left", "spin": "spin: done", "sleep": "sleep: done",
        "deep": "deep: deep, stack's end intact"}

# What instrumentation may take of a call's kernel stack beyond what the call itself does, in bytes.
# Of a system call: its frame at the entry, and what a branch that is not linked yet pushes on the
# way to the dispatcher's own stack. Of each function that is entered: what chooses its copy, too.
STACK_COSTS = {("sys:write",): 256, FUNCTIONS: 256, ("fn:*@trouble", "--only"): 384}

# Lines that say when, where and after what it happened, or that the host stopped a CPU for a while;
# lockdep, which gives up at the first oops, has some of its own.
NOT_COMPARED = re.compile(r"CPU: |Hardware name|Code:|Modules linked|\[last unloaded|PGD |FS: |CS: |CR2: |"
                          r"DR[03]: |PKRU|\? | ?Tainted|hrtimer: interrupt took|INFO: NMI handler|clocksource:|"
                          r"sched: |sched_clock: |NOHZ |perf: |tsc: |TSC found|"
                          r"irq event stamp: |(hard|soft)irqs last ")
REGISTER = re.compile(r"\b(R[A-Z0-9]{2}): ([0-9a-f]{16})")


def register(match):
    """Addresses differ from process to process; numbers do not."""
    value = int(match[2], 16)
    # r8 holds the number of oopses so far, left over by an earlier call. So r9 holds what the scheduler has left,
    # if the task has waited in between.
    number = value < 1 << 32 and match[1] not in ("RSP", "R08", "R09")
    return f"{match[1]}: {match[2] if number else 'address'}"


def normal(line):
    """The line without what is this run's own."""
    line = re.sub(r" EFLAGS: \w+", "", line.strip())
    line = re.sub(r"(RSP: \w+):[0-9a-f]{16}", r"\1", line)
    line = REGISTER.sub(register, line)
    # What the local APIC was last told to send: another interrupt may have come in between.
    line = re.sub(r"RAX: 0{13}[08]f[0-9a-f]\b", "RAX: command", line)
    line = re.sub(r"CPU: \d+ PID: \d+", "CPU PID", line)
    line = re.sub(r"by task sh/\d+", "by task sh", line)
    line = re.sub(r"\[#\d+\]|\[\d+\]", "[N]", line)
    line = re.sub(r"RIP: 0033:.*", "RIP: user", line)
    return re.sub(r"\b(0x)?ffff[0-9a-f]{12}\b", "ADDRESS", line)


def told(name):
    """Exit status of who did it, and the lines of the log since."""
    Path("/sys/kernel/debug/clear_warn_once").write_text("1")
    # The serial line is slow; an oops turns it up again.
    Path("/proc/sys/kernel/printk").write_text("1")
    mark = log_mark()
    end = run("/bin/sh", "-c", f"printf {name} > /proc/trouble")
    lines = kernel_log(mark)
    kept = []
    for line in lines:
        if NOT_COMPARED.match(line.strip()):
            continue
        line = normal(line)
        # User space's registers, behind its RIP, are the program's.
        if kept and kept[-1] == "RIP: user" and REGISTER.search(line.replace("address", "0" * 16)):
            continue
        kept.append(line)
    return end.returncode, kept


def differences(got, want):
    return [pair for pair in zip(got + ["-"] * 50, want + ["-"] * 50) if pair[0] != pair[1]][:8]


def stacktrace():
    """Stacks that an event's trigger writes down while kill is called."""
    tracing = Path("/sys/kernel/tracing")
    event = tracing / "events/signal/signal_generate"
    (tracing / "trace").write_text("")
    (event / "trigger").write_text("stacktrace if sig == 12")
    (tracing / "tracing_on").write_text("1")
    run("/bin/sh", "-c", "trap : USR2; for i in 1 2 3 4 5; do kill -USR2 $$; done")
    (event / "trigger").write_text("!stacktrace")
    return re.findall(r"^ => (.*)$", (tracing / "trace").read_text(), re.MULTILINE)


def said():
    """The module's last line of the log."""
    return [line for line in kernel_log() if line.startswith("trouble: ")][-1]


def kept(*what):
    """What the log says of data like return addresses, when the session ends meanwhile."""
    owner = session(*what)
    # What it does there is fresh in the cache, not on the way into it.
    process = background("/bin/sh", "-c", "printf sleep > /proc/trouble; printf keep > /proc/trouble")
    wait_for("sleep", lambda: said().startswith("trouble: keep: asleep"))
    interrupt(owner)
    run("/bin/sh", "-c", "printf wake > /proc/trouble")
    process.communicate()
    return said()


def stack_used():
    """Bytes of the kernel's stack that were written, from its top, always by the same branches."""
    run("/bin/sh", "-c", "printf used > /proc/trouble")
    below, above = re.search(r"used: (\d+) below (\d+)", said()).groups()
    return int(below) + int(above)


def stack_cost(native, targets, most):
    for kind in ("none", "call", "block", "insn"):
        owner = session(kind, *targets)
        cold, warm = stack_used(), stack_used()
        interrupt(owner)
        what = f"{kind} {targets[0]}"
        # Where each function is entered, and its return is hooked, each call costs what the first does.
        hooked = "--only" in targets and kind in ("block", "insn")
        check(f"{what} takes some stack", native < cold <= native + most, (native, cold, warm))
        check(f"{what} takes less then", warm == cold if hooked else warm < cold, (cold, warm))
        figure(f"stack used under {what}", f"{cold} bytes at first, {warm} then, {native} natively")


def comparable(lines, targets):
    """The lines without the registers that doors change."""
    return [re.sub(rf"\b({CHANGED[targets]}): \w+", r"\1", line) for line in lines]


def done_under(kind, targets, names, native, traced):
    """All is as natively while the targets are instrumented, and when that ends."""
    what = f"{kind} {targets[0]}"
    owner = session(kind, *targets)
    faults = status()["faults"]
    for name in names:
        end, lines = told(name)
        same(f"{name} under {what}: exit status", end, native[name][0])
        got, want = comparable(lines, targets), comparable(native[name][1], targets)
        check(f"{name} under {what}: the log is the same", got == want, differences(got, want))
    same(f"stacks of a trigger under {what}", stacktrace(), traced)
    faults = status()["faults"] - faults
    # Of bodies alone, calls of what faults run natively.
    least = len(names) // (5 if targets == BODIES else 2) if "zeropad" in names else 1
    check(f"{what}: faults happened in the cache", faults >= least, faults)
    figure(f"faults in the cache under {what}", faults)
    out, err = interrupt(owner)
    check(f"the session of {what} ends well", owner.returncode == 0, (out, err))
    same(f"data is kept when a session of {what} ends", kept(kind, *targets), "trouble: keep: 0 changed, in a copy")


def failing():
    """Why a write fails while which an interrupt mends faults: exit status, error, faults, origin, functions."""
    end = run("jifl", "why", "sys:write", "-f", "ndjson", "--", "/bin/sh", "-c", "printf irq-nofault! > /proc/trouble")
    groups = [json.loads(line) for line in end.stdout.splitlines()]
    return end.returncode, [(group["errno"], group["fault"], group["origin"]["kind"], group["origin"]["at"]["name"],
                             [link["function"] for link in group["chain"]]) for group in groups]


def interrupted():
    """Faults in an interrupt's copies are none of the call below, which another session follows."""
    alone = failing()
    check("a write fails by no fault", [group[:2] for group in alone[1]] == [("EINVAL", None)], alone)
    other = session("call", "fn:do_nofault@trouble", "--only", "-f", "json")
    faults = status()["faults"]
    same("nor with faults in copies of an interrupt", failing(), alone)
    # Behind the first one it goes on natively.
    check("of which there was one", status()["faults"] > faults, faults)
    same("of a call that is counted", report(interrupt(other)[0])["by_name"]["do_nofault"]["calls"], 1)


def program():
    run("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    run("mount", "-t", "tracefs", "none", "/sys/kernel/tracing")
    for name in ("panic_on_oops", "panic_on_warn"):
        Path(f"/proc/sys/kernel/{name}").write_text("0")
    # All marks: else a few in a second are dropped.
    Path("/proc/sys/kernel/printk_devkmsg").write_text("on\n")
    native = {name: told(name) for name in [*TROUBLES, *INTERRUPTS, *SOFTIRQS]}
    for name, (end, lines) in native.items():
        bare = name.split("-")[-1]
        check(f"{name} natively", (end == 0) == TROUBLES[bare] and any(SAID[bare] in line for line in lines), native[name])
    native_stack = stack_used()
    traced = stacktrace()
    check("a trigger writes stacks", traced.count("do_syscall_64") == 5, traced)
    for kind, targets, names in CASES:
        # With checks of its own a kernel takes minutes for all functions: test_only has them.
        if SLOWNESS == 1 or targets != BODIES:
            done_under(kind, targets, names, native, traced)
    # The caller of what the second session follows is a copy, which the first has made.
    other = session("call", "fn:proc_reg_write", "--only")
    done_under("insn", FUNCTIONS, ["warn", "null", "nofault", "stack", "irq-stack"], native, traced)
    interrupt(other)
    interrupted()
    for targets, most in STACK_COSTS.items():
        stack_cost(native_stack, targets, most)
    same("no session is left", status()["sessions"], [])
    figure("lines compared", sum(len(lines) for _, lines in native.values()))
    end = run("jifl", "unload", "jifl")
    check("jifl unloads after all that", end.returncode == 0 and not is_loaded(), end)


main(program)
