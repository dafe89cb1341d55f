# SPDX-License-Identifier: MIT OR Apache-2.0
"""A kernel that starts when this one panics, with programs of the test's."""

import ctypes
from pathlib import Path

KEXEC_FILE_LOAD = 320
KEXEC_FILE_ON_CRASH = 2
PARAMETERS = b"console=ttyS0 loglevel=4 nr_cpus=1 reset_devices panic=-1"


def archive(path, files):
    """An initramfs (cpio, newc) with a console and these executable files, by name."""
    def entry(name, mode, data=b"", device=(0, 0)):
        fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name + b"\0"
        return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)

    programs = b"".join(entry(name, 0o100755, data) for name, data in files.items())
    path.write_bytes(entry(b"dev", 0o040755) + entry(b"dev/console", 0o020600, device=(5, 1)) + programs + entry(b"TRAILER!!!", 0))


def load(image, files, arguments=b""):
    """Loads a bzImage for the case of a panic. arguments: of its init, b"init" among the files."""
    ramdisk = Path("/tmp/crash.cpio")
    archive(ramdisk, {name: Path(file).read_bytes() for name, file in files.items()})
    line = PARAMETERS + (b" -- " + arguments if arguments else b"")
    libc = ctypes.CDLL(None, use_errno=True)
    with open(image, "rb") as kernel, ramdisk.open("rb") as initrd:
        if libc.syscall(KEXEC_FILE_LOAD, kernel.fileno(), initrd.fileno(), ctypes.c_ulong(len(line) + 1), line,
                        ctypes.c_ulong(KEXEC_FILE_ON_CRASH)):
            raise OSError(ctypes.get_errno(), "kexec_file_load")
    ramdisk.unlink()
