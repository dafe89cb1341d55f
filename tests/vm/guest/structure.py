# SPDX-License-Identifier: MIT OR Apache-2.0
"""Keeps what sessions see of blocks, branches, functions and ways, and the code, of a machine.

test_structure.py looks at it.

usage: structure.py DIRECTORY LOAD... -- LOAD...

DIRECTORY is the host's. It gets the directory `kernel`, which `jifl analyze --keep` makes; `vmcore`,
an image of the kernel's own text and data;
`counts`, the blocks that were executed; `path.CPU`, the blocks in their order; `trace.CPU`, the
functions. LOAD is a line of the shell. Those before -- are counted, those behind it are recorded.
"""

import ctypes
import os
import struct
import subprocess
from pathlib import Path

from lib import Device, NO_BRANCH, check, figure, main, run

TRACE, PROFILE, PATH = 5, 6, 7
BRANCHES, WAIT = 1 << 4, 1 << 18
TGID, CHILDREN = 1 << 1, 1 << 4
ALL = range(512)
MODULES = ["ext4", "xfs", "nf_tables"]
# Stands for records that were lost.
GAP = struct.pack("<II", 0, 0)


def stopped(load):
    """A shell that waits for a byte before it works: the session begins before the work does."""
    reader, writer = os.pipe()
    shell = subprocess.Popen(["sh", "-c", f"read line <&{reader}; {load}"], pass_fds=[reader], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    os.close(reader)
    return shell, writer


def under(kind, load, flags, each=lambda device: None):
    """Runs the load under a session of this kind; its `each` reads what the device then has."""
    with Device() as device:
        shell, writer = stopped(load)
        device.start(kind, ALL, filters=TGID | CHILDREN, tgid=shell.pid, flags=flags)
        os.write(writer, b"\n")
        os.close(writer)
        while shell.poll() is None:
            each(device)
        device.stop()
        each(device)
        return device.counts() if kind == PROFILE else None


def counts(directory, loads):
    with open(directory / "counts", "wb") as file:
        for load in loads:
            found, refused = under(PROFILE, load, BRANCHES)
            check("no block was refused", not refused, refused)
            for count in found:
                if count.executed:
                    branch = 0xffff if count.branch == NO_BRANCH else count.branch
                    file.write(struct.pack("<QQQQII", count.orig, count.executed, count.taken, count.target, count.length, branch))


def records(directory, name, kind, loads):
    """The records of each CPU."""
    files = [open(directory / f"{name}.{cpu}", "wb") for cpu in range(os.cpu_count())]
    lost_at_all = 0

    def each(device):
        nonlocal lost_at_all
        for cpu, file in enumerate(files):
            words, lost = device.records(cpu)
            lost_at_all += lost
            file.write((GAP if lost else b"") + struct.pack(f"<{len(words)}I", *words))

    for load in loads:
        under(kind, load, WAIT, each)
        for file in files:
            file.write(GAP)
    sizes = [file.tell() // 8 for file in files]
    for file in files:
        file.close()
    figure(f"records of {name}, lost", f"{sum(sizes)}, {lost_at_all}")


def bpf_program():
    """Loads a BPF program, which the kernel translates; its file.

    r0 = 1; if r1 == 0 goto +1; r0 = 2; exit
    """
    instructions = [(0xb7, 0, 0, 1), (0x15, 1, 1, 0), (0xb7, 0, 0, 2), (0x95, 0, 0, 0)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<BBhi", *one) for one in instructions))
    licence = ctypes.create_string_buffer(b"GPL")
    # BPF_PROG_LOAD of a socket filter: type, instructions, code, licence.
    attributes = struct.pack("<IIQQ", 1, len(instructions), ctypes.addressof(code), ctypes.addressof(licence)).ljust(120, b"\0")
    file = ctypes.CDLL(None, use_errno=True).syscall(321, 5, ctypes.create_string_buffer(attributes), len(attributes))
    check("a BPF program is loaded", file >= 0, os.strerror(ctypes.get_errno()))
    return file


def memory_image(path):
    """What is in /proc/kcore of the kernel's text and data, with its notes, as an ELF core."""
    begin, end = (next(int(line.split()[0], 16) for line in open("/proc/kallsyms", encoding="utf-8") if line.split()[2] == name)
                  for name in ("_stext", "__bss_start"))
    with open("/proc/kcore", "rb") as kcore, open(path, "wb") as image:
        head = kcore.read(64)
        table, (number,) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)
        kcore.seek(table)
        entries = [list(struct.unpack("<IIQQQQQQ", kcore.read(56))) for _ in range(number)]
        parts = [entry for entry in entries if entry[0] == 4]
        for kind, flags, offset, virtual, physical, size, _, _ in entries:
            if kind == 1 and virtual <= begin < end <= virtual + size:
                skipped = begin - virtual
                parts.append([1, flags, offset + skipped, begin, physical + skipped, end - begin, end - begin, 0])
        image.write(head[:32] + struct.pack("<Q", 64) + head[40:56] + struct.pack("<H", len(parts)) + head[58:])
        place = 64 + 56 * len(parts)
        for part in parts:
            image.write(struct.pack("<IIQQQQQQ", part[0], part[1], place, *part[3:]))
            place += part[5]
        for _, _, offset, _, _, size, _, _ in parts:
            kcore.seek(offset)
            while size:
                piece = kcore.read(min(size, 1 << 20))
                image.write(piece)
                size -= len(piece)
    check("the kernel is in one part", len(parts) >= 2, parts)


def structure(directory, *loads):
    directory = Path(directory)
    cut = loads.index("--")
    counts(directory, loads[:cut])
    records(directory, "path", PATH, loads[cut + 1:])
    records(directory, "trace", TRACE, loads[cut + 1:])
    bpf_program()
    # The memory of modules' initialization is used again for others.
    for module in MODULES:
        check(f"{module} comes", run("modprobe", module).returncode == 0)
    # A session stands in the text while it is read: its way in is not to be seen.
    with Device() as device:
        device.start(PROFILE, ALL, filters=TGID, tgid=os.getpid())
        kept = run("jifl", "analyze", "--keep", directory / "kernel")
    check("the kernel is kept", kept.returncode == 0, kept)
    memory_image(directory / "vmcore")


main(structure)
