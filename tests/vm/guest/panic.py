# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the machine panic inside a system call or a function, which is instrumented or not.

usage: panic.py HOW TARGETS [CRASH_KERNEL INIT]

HOW: a command for the module trouble (which must be loaded), or `sysrq`. TARGETS: what is
instrumented, with commas between, or `natively`. The panic starts CRASH_KERNEL, a bzImage, with the
program INIT.
"""

import os
import sys
from pathlib import Path

import crash_kernel
from lib import background, log_mark, session


def program(how, targets, *crash):
    if targets != "natively":
        session("insn", *targets.split(","))
    if crash:
        image, init = crash
        crash_kernel.load(image, {b"init": init})
        # The other CPUs are in system calls, too, when the crash stops them.
        for _ in range(os.cpu_count() - 1):
            background("/bin/sh", "-c", "while :; do cat /proc/self/maps > /dev/null; done")
    Path("/proc/sys/kernel/printk").write_text("8")
    log_mark()
    where, what = ("/proc/sysrq-trigger", "c") if how == "sysrq" else ("/proc/trouble", how)
    Path(where).write_text(what)


program(*sys.argv[1:])
