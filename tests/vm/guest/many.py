# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tens of thousands of places: what they take until they stand, and until they are gone.

usage: many.py

The machine's clock counts instructions: a second of it is a thousand million of them. All
instructions of some thousand functions of the network are places, with breakpoints of the module's
own.
"""

import json
import os
import re
import time
from pathlib import Path

from lib import Device, check, complaints, figure, main, run, same, status
from reached import OWN, start_places

TRACING = Path("/sys/kernel/tracing")
PLACES, PATTERNS = 50_000, ("fn:tcp_* insn", "fn:ip_* insn", "fn:udp_* insn", "fn:sock_* insn")
# The kernel waits for a grace period in these; each that is there has a kprobe.
WAITS = ("synchronize_rcu", "synchronize_rcu_expedited", "synchronize_rcu_tasks")


def memory():
    """Bytes of the kernel's slabs, of vmalloc, and of processors."""
    words = dict(re.findall(r"^(\w+): +(\d+) kB", Path("/proc/meminfo").read_text(), re.M))
    return 1024 * sum(int(words[name]) for name in ("Slab", "VmallocUsed", "Percpu"))


def add_event(line):
    """Not each kernel has each of these functions."""
    fd = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, f"{line}\n".encode())
    except OSError:
        pass
    os.close(fd)


def waits():
    return {name: int(hits) for name, hits, _ in (line.split() for line in (TRACING / "kprobe_profile").read_text().splitlines())}


def places():
    """Places by the function in which each is."""
    found, number = {}, 0
    for pattern in PATTERNS:
        end = run("jifl", "probe", pattern, "--list", "--yes", "-f", "json")
        check(f"{pattern}: the list", end.returncode == 0, end.stderr[-500:])
        for one in json.loads(end.stdout)["list"]:
            if number < PLACES:
                found.setdefault(int(one["function"], 16), []).append(int(one["address"], 16))
                number += 1
    return found


def many():
    # The lists ask the module, which sets breakpoints for that.
    OWN.write_text("1000")
    of = places()
    for name in WAITS:
        add_event(f"p:many/{name} {name}")
    (TRACING / "events/many/enable").write_text("1")
    with Device() as device:
        # The module leaves out what cannot be a place. Its words for these are known then.
        mine = start_places(device, of)
        device.stop()
    kept = {}
    for address, start in mine:
        kept.setdefault(start, []).append(address)
    with Device() as device:
        before, waited, begun = memory(), waits(), time.monotonic()
        mine = start_places(device, kept)
        armed, during = time.monotonic(), waits()
        used = memory() - before
        check("so many places stand", len(mine) > PLACES * 9 // 10, len(mine))
        stopping = time.monotonic()
        device.stop()
        stopped, after = time.monotonic(), waits()
    figure("places, functions", (len(mine), len(kept)))
    figure("until they stand, in ms of the clock; instructions a place", (round(1000 * (armed - begun)),
                                                                         round(1e9 * (armed - begun) / len(mine))))
    figure("until they are gone, in ms of the clock", round(1000 * (stopped - stopping)))
    figure("bytes a place", round(used / len(mine)))
    figure("waits at the start", {name: during[name] - waited[name] for name in during})
    figure("waits at the end", {name: after[name] - during[name] for name in after})
    check("they stand within 3 s", armed - begun <= 3, armed - begun)
    check("they are gone within 1 s", stopped - stopping <= 1, stopped - stopping)
    check("a place takes 400 bytes at most", used / len(mine) <= 400, used)
    check("few grace periods, however many places", all(after[name] - during[name] <= 3 for name in after), (during, after))
    (TRACING / "events/many/enable").write_text("0")
    (TRACING / "kprobe_events").write_text("")
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(), [])


if __name__ == "__main__":
    main(many)
