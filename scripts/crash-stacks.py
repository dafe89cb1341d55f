# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stacks of a dump that was taken while sessions ran, with original addresses in place of those of
the code cache.

usage: drgn -c VMCORE -s VMLINUX -s JIFL_KO scripts/crash-stacks.py [PID...]

VMLINUX, JIFL_KO: with debug information; JIFL_KO must be the module that was loaded. Without PIDs:
all tasks that have addresses of the code cache on their stacks. drgn is a debugger; `pip install
drgn` has it.

Every word that looks like an address of the cache is replaced on each stack before drgn walks the
stack. A thread inside inserted code, or in an analysis function, has more on its stack than this
script knows: its walk may end there.
"""

import struct
import sys
from bisect import bisect_right
from collections import namedtuple

import drgn
from drgn.helpers.linux.pid import find_task, for_each_task

def signed(low):
    """A kernel address from its low half."""
    return low | 0xffffffff00000000


def table(prog, name, address, count):
    """An array of structures without padding, as named tuples."""
    members = prog.type(name).members
    codes = "".join({1: "B", 2: "H", 4: "I"}[drgn.sizeof(member.type)] for member in members)
    row = namedtuple("row", [member.name for member in members])
    data = prog.read(address, drgn.sizeof(prog.type(name)) * count)
    return [row(*values) for values in struct.iter_unpack(f"<{codes}", data)]


class Cache:
    """What engine/cache/where.c does, for a dump."""

    def __init__(self, prog):
        cache = prog.variable("cache", "engine/cache/region.c")
        self.base = cache.code_base.value_()
        self.hot_end = cache.hot_end.value_()
        self.return_site = cache.return_site.value_()
        self.entry = prog.constant("CACHE_BLOCK_ENTRY")
        self.inserted = prog.constant("EMIT_MAP_CONTINUES")
        self.blocks = table(prog, "struct cache_block", cache.blocks.value_(), cache.nblocks.value_())
        self.map = prog.read(cache.map.value_(), cache.nmap.value_())

    def holds(self, address):
        return 0 <= address - self.base < self.hot_end

    def original(self, address):
        """The original of a return address; None where nothing is."""
        offset = address - self.base
        index = bisect_right(self.blocks, offset, key=lambda block: block.start) - 1
        if index < 0 or offset - self.blocks[index].start > self.blocks[index].len:
            return None
        # Of the blocks that start there the first: all but the last have no code.
        while self.blocks[index].start == offset and index and self.blocks[index - 1].start == offset:
            index -= 1
        return self.in_block(index, offset)

    def in_block(self, index, offset):
        block = self.blocks[index]
        if block.flags & self.entry:
            return self.return_site if block.src_len and offset >= block.start + block.src_len else signed(block.orig)
        source, at, pair = block.orig, block.start, block.map
        end = self.blocks[index + 1].map if index + 1 < len(self.blocks) else len(self.map)
        while pair < end and at < offset:
            length, what = self.map[pair], self.map[pair + 1]
            if offset < at + length:
                break
            at += length
            source += what if 0 < what < self.inserted else 0
            pair += 2
        return signed(source)


def show_originals(prog, cache, task):
    """Puts a copy with original addresses over the task's stack; returns how many there are."""
    start, size = task.stack.value_(), 16384
    words = list(struct.unpack(f"<{size // 8}Q", prog.read(start, size)))
    found = 0
    for index, word in enumerate(words):
        original = cache.original(word) if cache.holds(word) else None
        if original is not None:
            words[index] = original
            found += 1
    copy = struct.pack(f"<{len(words)}Q", *words)
    prog.add_memory_segment(start, size, lambda address, count, offset, physical: copy[offset:offset + count])
    return found


def walk(prog, cache, task):
    """The stack's frames, from the original of where the task runs, if that is in the cache."""
    frames = prog.stack_trace(task)
    if not frames or not cache.holds(frames[0].pc):
        return frames
    names = {"rax": "ax", "rbx": "bx", "rcx": "cx", "rdx": "dx", "rsi": "si", "rdi": "di", "rbp": "bp", "rsp": "sp"}
    registers = {names.get(name, name): value for name, value in frames[0].registers().items()}
    known = {member.name for member in prog.type("struct pt_regs").members}
    registers = {name: value for name, value in registers.items() if name in known}
    registers["ip"] = cache.original(frames[0].pc) or cache.return_site
    return prog.stack_trace(drgn.Object(prog, "struct pt_regs", registers))


def show(cache, frames):
    for frame in frames:
        if frame.pc >> 63 == 0:
            break       # user space
        # An entry piece's frame has no counterpart.
        if frame.pc != cache.return_site:
            print(f"  {frame.pc:#x} {frame.name or '?'}")


def main(prog, pids):
    cache = Cache(prog)
    tasks = [find_task(prog, pid) for pid in pids] if pids else for_each_task(prog)
    for task in tasks:
        found = show_originals(prog, cache, task)
        if pids or found:
            print(f"{task.pid.value_()} {task.comm.string_().decode()}: {found} addresses of the code cache")
            show(cache, walk(prog, cache, task))


main(globals()["prog"], [int(word) for word in sys.argv[1:]])
