# SPDX-License-Identifier: MIT OR Apache-2.0
"""Object files of BPF programs (jifl probe --bpf FILE.o): they run, or are refused in one line.

usage: bpf_objects.py SEED

The files are made here, as a compiler makes them. A program counts its executions and adds up rdi, in
a map. SEED draws bytes of a good file that are changed.
"""

import ctypes
import os
import random
import struct
import tempfile
from pathlib import Path

from actions import MASK, SEED, Bpf, probe, report_of
from contexts import MODULE, call
from lib import check, complaints, figure, kernel_log, log_mark, main, run, same, settled, status
from probe import Graphs, texts

BPF, X86_64 = 247, 62
PROGBITS, SYMTAB, STRTAB, REL = 1, 2, 3, 9
WRITE, ALLOC, EXECUTE = 1, 2, 4
OBJECT, FUNCTION = 0x11, 0x12
DAMAGED = 24


def insn(code, dst=0, src=0, off=0, imm=0):
    return struct.pack("<BBhi", code, src << 4 | dst, off, imm)


def counting(step=1):
    """map[0] += step; map[1] += rdi. The map's number comes into the instruction at 32."""
    return b"".join([insn(0xbf, 6, 1), insn(0x62, 10, 0, -4), insn(0xbf, 2, 10), insn(0x07, 2, 0, 0, -4), insn(0x18, 1), insn(0),
                     insn(0x85, imm=1), insn(0x15, 0, 0, 4), insn(0xb7, 1, 0, 0, step), insn(0xdb, 0, 1, 0), insn(0x79, 2, 6, 112),
                     insn(0xdb, 0, 2, 8), insn(0xb7), insn(0x95)])


RETURNS = insn(0xb7) + insn(0x95)
# It returns what nobody has set.
UNSET = insn(0x95)
# bpf_trace_printk, which is for programs under the GPL alone.
PRINTS = insn(0x7a, 10, 0, -8) + insn(0xbf, 1, 10) + insn(0x07, 1, 0, 0, -8) + insn(0xb7, 2, 0, 0, 8) + insn(0x85, imm=6) + RETURNS


class Names(bytearray):
    """A section of strings."""

    def at(self, name):
        found = len(self)
        self.extend(name.encode() + b"\0")
        return found


def object_file(programs, license_=b"GPL\0", machine=BPF, beyond=0):
    """An object file of programs: by name, the section and the code. beyond: so much more have their symbols."""
    sections = [("", 0, 0, b"", 0, 0, 0)]
    symbols, names = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)], Names(b"\0")
    relocations = []
    if license_:
        sections.append(("license", PROGBITS, ALLOC | WRITE, license_, 0, 0, 0))
    sections.append(("maps", PROGBITS, ALLOC | WRITE, struct.pack("<IIIII", 2, 4, 16, 1, 0), 0, 0, 0))
    symbols.append(struct.pack("<IBBHQQ", names.at("counted"), OBJECT, 0, len(sections) - 1, 0, 20))
    for name, (section, code) in programs.items():
        sections.append((section, PROGBITS, ALLOC | EXECUTE, code, 0, 0, 0))
        symbols.append(struct.pack("<IBBHQQ", names.at(name), FUNCTION, 0, len(sections) - 1, 0, len(code) + beyond))
        if insn(0x18, 1) in code:
            relocations.append((section, len(sections) - 1))
    symtab = len(sections) + len(relocations)
    for section, index in relocations:
        sections.append((f".rel{section}", REL, 0, struct.pack("<QQ", 32, 1 << 32 | 1), symtab, index, 16))
    sections.append((".symtab", SYMTAB, 0, b"".join(symbols), symtab + 1, 1, 24))
    sections.append((".strtab", STRTAB, 0, bytes(names), 0, 0, 0))
    headers, data, of_sections = [], bytearray(64), Names()
    for name, *_ in [*sections, (".shstrtab",)]:
        headers.append(of_sections.at(name))
    sections.append((".shstrtab", STRTAB, 0, bytes(of_sections), 0, 0, 0))
    table = []
    for at, (_, kind, flags, content, link, info, entry) in zip(headers, sections):
        data.extend(bytes(-len(data) % 8))
        table.append(struct.pack("<IIQQQQIIQQ", at, kind, flags, 0, len(data) if kind else 0, len(content), link, info, 8, entry))
        data.extend(content)
    data.extend(bytes(-len(data) % 8))
    struct.pack_into("<16sHHIQQQIHHHHHH", data, 0, b"\x7fELF\2\1\1", 1, machine, 1, 0, 0, len(data), 0, 64, 0, 0, 64,
                     len(sections), len(sections) - 1)
    return bytes(data) + b"".join(table)


class Kernel(Bpf):
    """The programs and maps that the kernel has."""

    PROGRAMS, MAPS, OPEN_MAP = 11, 12, 14

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)

    def numbers(self, what):
        found, last = set(), 0
        while True:
            data = ctypes.create_string_buffer(struct.pack("<II", last, 0).ljust(128, b"\0"))
            if self.libc.syscall(321, what, data, 128) < 0:
                return found
            last = struct.unpack_from("<I", data.raw, 4)[0]
            found.add(last)

    def all(self):
        return self.numbers(self.PROGRAMS), self.numbers(self.MAPS)

    def counted(self, before):
        """What the one map has counted that was not there before."""
        number, = self.numbers(self.MAPS) - before[1]
        self.map = self.call(self.OPEN_MAP, struct.pack("<I", number))
        found = self.read()
        os.close(self.map)
        return found


GOOD = {"on_work": ("kprobe/contexts_work", counting())}
TWO = {"first": ("kprobe/one", counting()), "second": ("kprobe/two", counting(1000)), "packets": ("xdp", RETURNS)}


def run_by(folder, kernel):
    """The program of a file runs at each execution, as one of several that is named does, and goes with its session."""
    (folder / "good.o").write_bytes(object_file(GOOD))
    (folder / "two.o").write_bytes(object_file(TWO))
    before = kernel.all()
    for word, step in (("good.o", 1), ("good.o:on_work", 1), ("two.o:first", 1), ("two.o:second", 1000)):
        owner = probe("fn:contexts_work", "-f", "json", "--bpf", folder / word)
        made = sum(sum(call(context).values()) for context in ("task", "timer", "ipi"))
        total, arguments = kernel.counted(before)
        data = report_of(owner, word)
        same(f"{word}: executions", (total, data["places"][0]["hits"], data["unrun"]), (made * step, made, 0))
        check(f"{word}: registers", (arguments - SEED * made) & MASK < 1000 * made, (made, arguments))
        same(f"{word}: the program and its map have gone", settled(kernel.all, lambda now: now == before), before)


def refusals(folder, kernel, before_text, graphs):
    """What is no such program, or none that the kernel takes, is refused in one line that says why."""
    good = object_file(GOOD)
    files = {
        "two": (object_file(TWO), ["several programs", "first", "second"]), "two.o:third": (None, ["no program third", "first", "second"]),
        "two.o:packets": (None, ["no program for kprobes"]),
        "packets": (object_file({"packets": ("xdp", RETURNS)}), ["no program for kprobes"]),
        "none": (object_file({}), ["no program for kprobes"]),
        "section": (object_file({"x": ("nonsense/x", RETURNS)}), ["nonsense/x"]),
        "unlicensed": (object_file(GOOD, license_=b""), ["no license", 'SEC("license")']),
        "printing": (object_file({"x": ("kprobe/x", PRINTS)}, license_=b"Proprietary\0"), ["GPL"]),
        "unset": (object_file({"x": ("kprobe/x", UNSET)}), ["R0"]),
        "machine": (object_file(GOOD, machine=X86_64), ["none for BPF"]),
        "beyond": (object_file(GOOD, beyond=64), ["damaged", "on_work"]),
        "half": (good[:len(good) // 2], ["no object file"]), "empty": (b"", ["no object file"]),
        "text": (b"SEC(\"kprobe\")\n" * 50, ["no object file"]), "absent": (None, ["No such file"]),
    }
    (folder / "folder.o").mkdir()
    files["folder"] = None, ["directory"]
    before = kernel.all()
    for name, (data, hints) in files.items():
        file = folder / (name if ".o:" in name else f"{name}.o")
        if data is not None:
            file.write_bytes(data)
        end = run("jifl", "probe", "fn:contexts_work", "--bpf", file, "--for", "100ms")
        check(f"{name} is refused", end.returncode in (1, 2) and not end.stdout and end.stderr.count("\n") == 1 and
              all(hint in end.stderr for hint in hints), end)
    same("nothing is left of what was refused", (settled(kernel.all, lambda now: now == before), status()["sessions"]), (before, []))
    same("the text is as it was", texts(graphs), before_text)


def changed(folder, kernel, seed):
    """Of a file with changed bytes the program runs, or one line says what is wrong."""
    chance, good, file = random.Random(int(seed)), object_file(GOOD), folder / "changed.o"
    before, taken = kernel.all(), 0
    for round_ in range(DAMAGED):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 3, 20])):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)])
        file.write_bytes(data)
        end = run("jifl", "probe", "fn:contexts_work", "--bpf", file, "--for", "1ms")
        taken += end.returncode == 0
        check(f"changed, seed {seed}, round {round_}", end.returncode == 0 or end.returncode in (1, 2) and end.stderr.count("\n") == 1,
              (end, data.hex()))
    same("nothing is left of changed files", (settled(kernel.all, lambda now: now == before), status()["sessions"]), (before, []))
    figure("changed files, those that are taken", (DAMAGED, taken))


def objects(seed):
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    graphs = Graphs("fn:contexts_work")
    before, kernel = texts(graphs), Kernel()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_by(folder, kernel)
        refusals(folder, kernel, before, graphs)
        changed(folder, kernel, seed)
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(objects)
