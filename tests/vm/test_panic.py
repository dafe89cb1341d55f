# SPDX-License-Identifier: MIT OR Apache-2.0
"""Panics inside instrumented system calls, functions and interrupts: the log has the same text as
natively, and a crash kernel gets its dump.
"""

import re

import pytest

import harness

# What is this run's own: when and where, registers, and words of the stack that are no frames.
NOT_COMPARED = re.compile(r"CPU: |Hardware name|Code: |PGD |Modules linked|\[last unloaded|R(?!IP: 0010)[A-Z0-9]{2}: |"
                          r"[CDFG][RS]\d?: |PKRU|\? |Kernel Offset|Shutting down|hrtimer: interrupt took|INFO: NMI handler|"
                          r"clocksource:|sched: |sched_clock: |NOHZ |perf: |tsc: |TSC found")

# Frames from the crash to user space.
WRITE = ["proc_reg_write", "vfs_write", "ksys_write", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"]
CRASH = ["panic", "sysrq_handle_crash", "__handle_sysrq", "write_sysrq_trigger", *WRITE]


def panic(*arguments, kernel, append=""):
    """Runs guest/panic.py, which the machine does not survive; returns the lines of the panic."""
    module = harness.build_trouble(kernel)
    words = " ".join(str(word) for word in arguments)
    run = harness.vm(f"/usr/bin/python3 -B tests/vm/guest/panic.py {words}", kernel=kernel, smp=2, check=False,
                     append=f"randomize_kstack_offset=off {append}", timeout=300, options=["--module", module])
    assert run.status == 123, run.shown()
    lines = [re.sub(r"^\[ *\d+\.\d+\] *", "", line.strip()) for line in run.console.splitlines()]
    marks = [number for number, line in enumerate(lines) if line.startswith("mark ")]
    assert marks, run.shown()
    return lines[marks[-1] + 1:]


def normal(lines):
    """Without what is the run's own; lines that repeat themselves once."""
    kept = []
    for line in lines:
        line = re.sub(r"\b(0x)?[0-9a-f]{16}\b", "ADDRESS", re.sub(r"\[#\d+\]", "[N]", line))
        # Which of its pushes meets the end of the stack depends on where the stack begins.
        line = re.sub(r"^(RIP: .*)\+0x\w+/", r"\1+OFFSET/", line)
        if line and not NOT_COMPARED.match(line) and kept[-1:] != [line]:
            kept.append(line)
    return kept


def frames(lines):
    """Functions on the stack, guesses and the compiler's suffixes left out."""
    return [match[1] for line in lines if (match := re.match(r"(\w+)[\w.]*\+0x\w+/0x\w+( \[\w+\])?$", line))]


CALLS = "sys:read,sys:write,sys:openat"
FUNCTIONS = "mod:trouble"
# What is done, what is instrumented, and the beginning of a line that only this panic has.
CASES = [("overflow", CALLS, "BUG: TASK stack guard page was hit at"),
         ("overflow", FUNCTIONS, "BUG: TASK stack guard page was hit at"),
         ("irq-overflow", FUNCTIONS, "BUG: IRQ stack guard page was hit at"),
         ("irq-null", FUNCTIONS, "Kernel panic - not syncing: Fatal exception in interrupt")]


@pytest.mark.parametrize("kernel", harness.turn(0))
@pytest.mark.parametrize("how, targets, first", harness.share(CASES, 1))
def test_text(kernel, how, targets, first, show):
    want = panic(how, "natively", kernel=kernel)
    assert any(line.startswith(first) for line in normal(want)), want
    got = panic(how, targets, kernel=kernel)
    assert normal(got) == normal(want)
    assert abs(len(frames(got)) - len(frames(want))) <= 1, (got, want)
    show(f"{how}: {len(frames(got))} frames, {len(frames(want))} natively")


@pytest.mark.parametrize("kernel", harness.turn(1))
@pytest.mark.parametrize("how, targets", harness.share([("sysrq", CALLS), ("sysrq", "fn:vfs_*,fn:proc_reg_*,fn:ksys_*"),
                                                        ("irq-null", FUNCTIONS)], 1))
def test_crash_kernel(kernel, how, targets, show):
    # Any kernel will do, and one with KASAN needs more memory than is put aside.
    release = harness.release_of("6.12" if kernel in harness.FINDERS else kernel)
    image = harness.ROOT / f"build/kernels/boot/vmlinuz-{release}"
    lines = panic(how, targets, image, harness.compile_program("crash_init"), kernel=kernel,
                  append="crashkernel=192M")
    found = frames(lines)
    if how == "sysrq":
        assert found[found.index("panic"):] == CRASH, lines
    else:
        # The interrupt comes somewhere in what the write calls.
        assert any(line.startswith("RIP: 0010:do_null+") for line in lines), lines
        assert found[0] == "irq_work_single" and "asm_sysvec_irq_work" in found, found
        assert found[-len(WRITE):] == WRITE, found
    said = [line for line in lines if line.startswith("crash kernel: ")]
    assert len(said) == 1 and said[0].startswith("crash kernel: 2 CPUs, vmcoreinfo of "), lines
    show(said[0])
