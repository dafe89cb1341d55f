# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same 500 places have a kprobe event and a place of `jifl probe`, in the same run.

usage: crowd.py SEED

SEED draws functions that the load reaches, and instructions of them. Beside those stand functions
of the module jifl_contexts, which run at each level, recur, sleep and come to other processors.

The kprobes come first. So each execution of an instruction with both is native, and is counted by
the handler of a breakpoint. At the entries the kprobes are ftrace's, and the session counts by its
doors. There the bodies run in copies, as far as the first kprobe.

The session's hits are read before and after those of the kprobes, at the beginning and at the end.
So those of a kprobe lie between the difference of the inner two and that of the outer two. Where a
place was not executed while the hits were read, that is one number.

A kprobe is not told of what is executed in the handler of a kprobe. The kernel counts that
(nmissed). At an instruction the session is not told either, and says how much it has missed. The
door at an entry is told: there the session's hits are the kprobe's and what that has missed.
"""

import json
import os
import random
from pathlib import Path

from contexts import CONTEXTS, MODULE, call
from lib import Device, check, complaints, figure, kernel_log, log_mark, main, run, same, status
from reached import OWN, Load, Names, hits, instructions, reached, start_places

TRACING = Path("/sys/kernel/tracing")
PLACES, ENTRIES, PARTS = 500, 100, ("files", "channels", "tasks", "scheduling")
# Its handler reads a string of the process, by the second.
READER, READ = "do_sys_openat2", "strncpy_from_user_nofault"
ROUNDS = 3


def of_contexts():
    """Entries and instructions of the module's functions: {address: (start, symbol, offset)}."""
    end = run("jifl", "probe", "fn:contexts_* insn", "--list", "--yes", "-f", "json")
    every = json.loads(end.stdout)["list"]
    entries = {int(one["function"], 16): one["place"].partition("@")[0] for one in every}
    found = {}
    for one in every:
        start, address = int(one["function"], 16), int(one["address"], 16)
        # Cold parts have a name of their own, and functions without a site have jumps over their beginning.
        if "@" in one["place"].partition("+")[0] and not entries[start].startswith(("contexts_bare", "contexts_owned")):
            found[address] = start, f"jifl_contexts:{entries[start]}", address - start
    return found


class Kprobes:
    """Kprobe events at these places, as many as the kernel takes."""

    def __init__(self, places):
        self.places = []
        for address, (_, name, offset) in places.items():
            if self.add(f"p:crowd/at_{address:x} {name}+{offset:#x}"):
                self.places.append(address)
        (TRACING / "events/crowd/enable").write_text("1")
        check("the event that reads a string", self.add(f"p:crowd_reader/reader {READER}+{reader_offset():#x} name=+0(%si):ustring"))
        (TRACING / "events/crowd_reader/enable").write_text("1")

    @staticmethod
    def add(line):
        """Whether the kernel takes the event."""
        fd = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(fd, f"{line}\n".encode()) > 0
        except OSError:
            return False
        finally:
            os.close(fd)

    def hits(self):
        """(hits, missed) of each, in their order."""
        lines = (line.split() for line in (TRACING / "kprobe_profile").read_text().splitlines())
        found = {name: (int(hits), int(missed)) for name, hits, missed in lines}
        return [found[f"at_{address:x}"] for address in self.places]

    @staticmethod
    def clear():
        for group in ("crowd", "crowd_reader"):
            (TRACING / f"events/{group}/enable").write_text("0")
        (TRACING / "kprobe_events").write_text("")


def reader_offset():
    """An instruction of READER behind the tracer's call, so that its kprobe is an int3."""
    end = run("jifl", "probe", "--list", f"fn:{READER} insn", "-f", "json")
    offsets = [int(one["place"].partition("+")[2], 16) for one in json.loads(end.stdout)["list"]]
    return min(offset for offset in offsets if offset >= 9)


def chosen(load, seed):
    """The places: {address: (function's start, its name, offset)}."""
    chooser = random.Random(int(seed))
    starts = {start: part for part in PARTS for start in reached(load, names, part)[0]}
    read = [start for start, name in names.names.items() if name == READ]
    check(f"{READ} has a door", read and READ in names.doors, read)
    some = read + chooser.sample(sorted(set(starts) - set(read)), 2 * ENTRIES)
    every = instructions(some)
    places = {start: (start, names.name(start), 0) for start in some[:ENTRIES]}
    inside = [(address, (start, names.name(start), address - start)) for start, all_ in every.items() for address in all_
              if address - start >= 9]
    mine = [one for one in inside if one[1][0] == read[0]][:2]
    return dict([*places.items(), *mine, *chooser.sample(inside, min(len(inside), 380)), *of_contexts().items()])


def work(load, native):
    for _ in range(ROUNDS):
        for part in PARTS:
            same(f"{part}: the results", load.turn(part), native[part])
        for context in CONTEXTS:
            call(context)


def compare(places, kprobes, session, load, native):
    """Reads all hits around the load, and compares those of each place."""
    of = {address: index for index, (address, _) in enumerate(session)}
    number = len(session)
    with_both = [(index, address) for index, address in enumerate(kprobes.places) if address in of]
    check(f"places with both: {len(with_both)}", len(with_both) >= PLACES, (len(kprobes.places), number))
    before, begun, first = hits(DEVICE, number), kprobes.hits(), hits(DEVICE, number)
    work(load, native)
    last, ended, after = hits(DEVICE, number), kprobes.hits(), hits(DEVICE, number)
    wrong, exact, executed, total, missed_in, missed_at = [], 0, 0, 0, 0, 0
    for index, address in with_both:
        at, (start, name, offset) = of[address], places[address]
        told, missed = (ended[index][which] - begun[index][which] for which in (0, 1))
        inner, outer = last[0][at] - first[0][at], after[0][at] - before[0][at]
        entry = offset == 0
        known = told + missed if entry else told
        missed_at += missed if entry else 0
        missed_in += 0 if entry else missed
        exact += inner == outer == known
        executed += outer > 0
        total += told
        if not inner <= known <= outer:
            wrong.append((f"{name}+{offset:#x}", told, missed, inner, outer))
    check(f"{len(with_both)} places have the hits of their kprobes", not wrong,
          f"{len(wrong)}: place, hits, missed, the session's at least, at most: {wrong[:20]}")
    figure("places with both, executed, of these with one number", (len(with_both), executed, exact))
    figure("hits of the kprobes; what they missed at entries, where the session did not; at instructions", (total, missed_at, missed_in))
    check("most were executed, and their hits are one number", executed > PLACES // 2 and exact > PLACES * 9 // 10, (executed, exact))
    check("kprobes missed some at entries", missed_at > 0, missed_at)
    lost = last[2] - first[2], after[2] - before[2]
    check("the session says what it has missed at instructions", lost[0] <= missed_in <= lost[1], (lost, missed_in))
    caught = sum(late - early for early, late in zip(before[1], after[1]))
    check("instructions with a kprobe were native", caught > 0, caught)


def crowd(seed):
    global DEVICE, names
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    load = Load()
    native = {part: load.turn(part) for part in PARTS}
    names = Names()
    places = chosen(load, seed)
    # The session has kprobes, as the events have.
    OWN.write_text("4294967295")
    kprobes = Kprobes(places)
    of = {}
    for address in kprobes.places:
        of.setdefault(places[address][0], []).append(address)
    with Device() as DEVICE:
        compare(places, kprobes, start_places(DEVICE, of), load, native)
        DEVICE.stop()
    kprobes.clear()
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


DEVICE = names = None

if __name__ == "__main__":
    main(crowd)
