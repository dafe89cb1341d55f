# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the machine panic inside a system call or a function, which is instrumented or not.

usage: panic.py HOW TARGETS [CRASH_KERNEL INIT]

HOW: a command for the module trouble (which must be loaded), or `sysrq`. TARGETS: what is
instrumented, with commas between, or `natively`. The panic starts CRASH_KERNEL, a bzImage, with the
program INIT.
"""

import ctypes
import os
import sys
from pathlib import Path

from lib import background, log_mark, session

KEXEC_FILE_LOAD = 320
KEXEC_FILE_ON_CRASH = 2
PARAMETERS = b"console=ttyS0 loglevel=4 nr_cpus=1 reset_devices panic=-1"


def archive(path, program):
    """An initramfs (cpio, newc) with a console and /init."""
    def entry(name, mode, data=b"", device=(0, 0)):
        fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name + b"\0"
        return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)

    path.write_bytes(entry(b"dev", 0o040755) + entry(b"dev/console", 0o020600, device=(5, 1)) +
                     entry(b"init", 0o100755, program) + entry(b"TRAILER!!!", 0))


def load_crash_kernel(image, program):
    ramdisk = Path("/tmp/crash.cpio")
    archive(ramdisk, Path(program).read_bytes())
    libc = ctypes.CDLL(None, use_errno=True)
    with open(image, "rb") as kernel, ramdisk.open("rb") as initrd:
        if libc.syscall(KEXEC_FILE_LOAD, kernel.fileno(), initrd.fileno(), ctypes.c_ulong(len(PARAMETERS) + 1),
                        PARAMETERS, ctypes.c_ulong(KEXEC_FILE_ON_CRASH)):
            raise OSError(ctypes.get_errno(), "kexec_file_load")


def program(how, targets, *crash):
    if targets != "natively":
        session("insn", *targets.split(","))
    if crash:
        load_crash_kernel(*crash)
        # The other CPUs are in system calls, too, when the crash stops them.
        for _ in range(os.cpu_count() - 1):
            background("/bin/sh", "-c", "while :; do cat /proc/self/maps > /dev/null; done")
    Path("/proc/sys/kernel/printk").write_text("8")
    log_mark()
    where, what = ("/proc/sysrq-trigger", "c") if how == "sysrq" else ("/proc/trouble", how)
    Path(where).write_text(what)


program(*sys.argv[1:])
