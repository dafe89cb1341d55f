# SPDX-License-Identifier: MIT OR Apache-2.0
"""A counter at every instruction of many functions, compared with how often their blocks ran.

usage: sweep.py SEED PIECE PIECES SECONDS INSTRUCTIONS

SEED draws the functions, of those that the load reaches, and their order. PIECE, from 0 on, is one
of so many PIECES: all functions are in one of them each, so all pieces with one seed are all
functions that the load reaches. It goes on until the piece is done, or so many instructions had a
counter, or so many seconds are over.

Two sessions see the same run. One has a place at each instruction, as `jifl probe 'fn:NAME insn'`
has. The other counts blocks: of the functions alone, as `jifl prof fn:NAME --only` does, or of all
system calls for functions that have no door. Why the two must be equal, exactly:

1. The places are read four times: before and after the block counter starts, before and after it
   stops. What the blocks counted lies between the difference of the inner two and that of the outer
   two. Where a place was not executed at either edge, the two differences are one number.
2. A place counts in all contexts, a block only in copies. A thread that comes natively is caught by
   a breakpoint, and the session says how often. Without one, and without a missed call, all
   executions of a function were in copies.
3. A thread that a breakpoint has led into the cache goes on in copies that count no blocks. From
   there it may call a function without a door, and meets no breakpoint. So without doors the two
   are equal if nobody was led. With doors such a call comes by the door.
4. A jump in place leads native calls of functions without a door into copies that count no blocks,
   and nothing tells how many. So the two are equal only where such jumps are switched off.

Otherwise blocks count at most what places count.
"""

import os
import random
import re
import struct
import time
import zlib
from collections import Counter
from pathlib import Path

from lib import Device, add, check, complaints, figure, main, same
from reached import OWN, PARTS, PROFILE, Load, Names, hits, instructions, led, reached, start_places, system_calls

# Instructions that have a counter at a time, by what their breakpoints are: the module's own, or
# kprobes, which take much longer.
BATCH = {True: 10000, False: 200}
# The same where functions have no door.
WITHOUT_DOOR = 1500
# Functions without a door are entered by jumps in place.
JUMPS = Path("/sys/module/jifl/parameters/jumps")


# --- one comparison ---------------------------------------------------------------------------


# Why a call was missed: of include/uapi/jifl.h, in its order, without JIFL_MISS_.
MISSES = re.findall(r"^\tJIFL_MISS_(\w+),", Path(f"{os.environ['JIFL_ROOT']}/include/uapi/jifl.h").read_text(), re.M)


class Sums(Counter):
    """What was compared."""


def compare(name, of, turn, native, has_door, sums, jumps, leads):
    """A counter at each of these instructions while the load runs, beside a counter of blocks.

    leads: by function, instructions of the kernel's own, and the places that count for them.
    """
    for start, some in leads.items():
        of = {**of, start: [*of[start], *sorted({lead for all_of in some.values() for lead in all_of if lead[1]})]}
    with Device() as places_of, Device() as blocks_of:
        begun = time.monotonic()
        places = start_places(places_of, of)
        if not places:
            return
        armed = time.monotonic()
        targets = sorted({start for _, start in places})
        reads = [hits(places_of, len(places))]
        if has_door:
            blocks_of.start_of(PROFILE, [Device.target(0, Device.FUNCTION, Device.ONLY, start) for start in targets])
        else:
            system_calls(blocks_of)
        reads.append(hits(places_of, len(places)))
        results = turn()
        reads.append(hits(places_of, len(places)))
        blocks_of.stop()
        reads.append(hits(places_of, len(places)))
        counts, refused = blocks_of.counts()
        missed = {start: struct.unpack_from(f"<72x{len(MISSES)}Q", blocks_of.stat_of(index)) for index, start in enumerate(targets)} \
            if has_door else {}
        stopping = time.monotonic()
        places_of.stop()
        stopped = time.monotonic()
    same(f"{name}: the load's results", results, native)
    same(f"{name}: each block has a counter", refused, 0)
    sums["ms to arm"] += round((armed - begun) * 1000)
    sums["ms to end"] += round((stopped - stopping) * 1000)
    judge(name, places, reads, counts, missed, sums, jumps, leads)


def executed(counts, addresses):
    """How often the instruction at each address was executed, by the counts of blocks."""
    steps = Counter()
    for count in counts:
        steps[count.orig] += count.executed
        steps[count.orig + count.length] -= count.executed
    found, level, edges = {}, 0, sorted(steps)
    at = 0
    for address in addresses:
        while at < len(edges) and edges[at] <= address:
            level += steps[edges[at]]
            at += 1
        found[address] = level
    return found


def judge(name, places, reads, counts, missed, sums, jumps, leads):
    known = executed(counts, sorted({place for place, _ in places if isinstance(place, int)} |
                                    {address for some in leads.values() for address in some}))
    before, first, last, after = reads
    losing = {start for start, reasons in missed.items() if any(reasons)}
    losing |= {start for (_, start), early, late in zip(places, before[1], after[1]) if late != early}
    if not missed and (jumps or after[3] != before[3]):
        losing = {start for _, start in places}
    wrong = []
    found = {}
    bounds = set(losing)
    for index, (address, start) in enumerate(places):
        inner, outer = last[0][index] - first[0][index], after[0][index] - before[0][index]
        found[address] = (inner, outer)
        if isinstance(address, tuple):
            continue
        if inner != outer:
            bounds.add(start)
        sums["instructions"] += 1
        sums["executed"] += inner > 0
        sums["exact"] += inner == outer and start not in losing
        sums["exact and executed"] += inner == outer and inner > 0 and start not in losing
        low = 0 if start in losing else inner
        if not low <= known[address] <= outer:
            wrong.append((hex(address), hex(address - start), NAMES.names.get(start), known[address], inner, outer,
                          start in losing))
    for start, some in leads.items():
        for address, ways in some.items():
            ways = [found.get(at if not side else (at, side)) for at, side in ways]
            # The module refuses some, as it refuses others.
            if None in ways:
                continue
            inner, outer = (sum(ends) for ends in zip(*ways))
            sums["kernel's own"] += 1
            sums["kernel's own, executed"] += inner > 0
            sums["kernel's own, exact and executed"] += 0 < inner == outer and start not in losing
            if not (0 if start in losing else inner) <= known[address] <= outer:
                wrong.append((hex(address), hex(address - start), NAMES.names.get(start), known[address], inner, outer,
                              start in losing))
    sums["functions"] += len({start for _, start in places})
    sums["functions executed"] += len({start for index, (_, start) in enumerate(places) if last[0][index] > first[0][index]})
    sums["functions executed, all of each exact"] += len({start for index, (_, start) in enumerate(places)
                                                          if last[0][index] > first[0][index] and start not in bounds})
    sums["functions with missed calls"] += sum(map(any, missed.values()))
    for reason, of in zip(MISSES, zip(*missed.values())):
        if any(of):
            sums[f"functions with calls missed: {reason}"] += sum(map(bool, of))
            sums[f"calls missed: {reason}"] += sum(of)
    sums["functions not exact"] += len(losing)
    same(f"{name}: nothing is lost", (after[2], before[2]), (0, 0))
    check(f"{name}: each instruction is counted as its block is", not wrong,
          f"{len(wrong)} of {len(places)}: address, offset, function, blocks, places at least, at most, natively too: {wrong[:8]}")


NAMES = None


class Functions:
    """The functions of the piece that are left, by whether they have a door, in parts of the load."""

    def __init__(self, load, seed, piece, pieces):
        self.load, self.seed, self.piece, self.pieces = load, seed, piece, pieces
        self.chooser = random.Random(seed)
        self.parts = list(PARTS)
        self.chooser.shuffle(self.parts)
        self.known, self.left, self.natives = set(), {}, {}
        self.number = Counter()

    def reach(self):
        """The next part is looked at. A part may bring modules with it: names are read anew."""
        global NAMES
        part = self.parts.pop()
        native = self.natives[part] = self.load.turn(part)
        check(f"{part}: it works", native != Load.FAILED)
        NAMES = Names()
        same(f"{part}: the results are always the same", self.load.turn(part), native)
        for has_door, starts in zip((True, False), reached(self.load, NAMES, part)):
            mine = [start for start in starts if start not in self.known and
                    zlib.crc32(f"{self.seed} {NAMES.name(start)}".encode()) % self.pieces == self.piece]
            self.known.update(mine)
            self.chooser.shuffle(mine)
            self.left[part, has_door] = mine
            self.number[has_door] += len(mine)

    def take(self, has_door, size, largest):
        """(part, instructions by function) of functions that are left, none of them larger. None: there are none."""
        if self.parts and not any(self.left.values()):
            self.reach()
        part = next((part for (part, door), starts in self.left.items() if starts and door == has_door), None)
        if part is None:
            return None
        left, chosen, number = self.left[part, has_door], {}, 0
        some = left[:max(size // 30, 2)]
        found = instructions(some)
        for start in some:
            every = found.get(start, [])
            if len(every) > largest or (number and number + len(every) > size):
                continue
            left.remove(start)
            if every:
                chosen[start] = every
                number += len(every)
        # Those that were too large come later.
        self.left[part, has_door] = [start for start in left if start not in some] + [start for start in left if start in some]
        return part, chosen

    def are_left(self):
        return self.parts or any(self.left.values())


def sweep(seed, piece, pieces, seconds, number):
    load = Load()
    functions = Functions(load, int(seed), int(piece), int(pieces))
    sums = {True: Sums(), False: Sums()}
    batches, end = 0, time.monotonic() + int(seconds)
    while functions.are_left() and time.monotonic() < end and sum(one["instructions"] for one in sums.values()) < int(number):
        has_door = batches % 3 != 1
        own = batches % 8 != 3
        # Without a door every second batch has jumps.
        jumps = batches % 2 == 0
        batches += 1
        size = min(BATCH[own] if has_door else WITHOUT_DOOR, int(number) // 3)
        part, chosen = functions.take(has_door, size, 1 << 30 if own else size) or (None, {})
        if not chosen:
            continue
        OWN.write_text("0" if own else "4294967295")
        JUMPS.write_text("Y" if jumps else "N")
        ways_in = "doors" if has_door else "jumps" if jumps else "no door"
        name = f"seed {seed}, piece {piece} of {pieces}, batch {batches}, {part}, {'own breakpoints' if own else 'kprobes'}, {ways_in}"
        # To find what leads somewhere all of the kernel is looked at.
        leads = led(chosen, NAMES) if has_door and own else {}
        compare(name, chosen, lambda: load.turn(part), functions.natives[part], has_door, sums[has_door], jumps, leads)
    figure("functions that the load reaches, of the piece", f"{functions.number[True]} with a door, {functions.number[False]} without")
    for has_door, one in sums.items():
        figure(f"swept, {'with' if has_door else 'without'} a door", dict(one))
        for what in ("functions", "functions executed", "functions executed, all of each exact", "instructions", "executed",
                     "exact and executed"):
            add(f"swept: {what}", one[what])
    figure("functions left", sum(map(len, functions.left.values())))
    check("instructions had a counter", sums[True]["exact"] > 100, sums)
    same("the module has nothing to say", complaints(), [])


main(sweep)
