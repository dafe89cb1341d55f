# SPDX-License-Identifier: MIT OR Apache-2.0
"""The flight recorder with all events, under load on all processors, while NMIs come from outside.

usage: flight_storm.py SECONDS READY

READY is a file that is made when NMIs may come.
Each place of the rings has a whole record with the number that belongs there, or is counted.
"""

import time
from pathlib import Path

from flight import frozen_of
from lib import background, check, complaints, figure, kernel_log, log_mark, main, same
from region import ALL, IRQ, NMI, SOFTIRQ, START, THAW, flight, recorder

RECORDS = 1 << 12
LOAD = ("--switch", "2", "--fork", "2", "--pipe", "2", "--timer", "2", "--fault", "2", "--get", "2")


def nmis():
    """NMIs of each processor, so far."""
    line = next(line for line in Path("/proc/interrupts").read_text().splitlines() if line.strip().startswith("NMI:"))
    return sum(int(word) for word in line.split() if word.isdigit())


def storm(seconds, ready):
    mark, before = log_mark(), nmis()
    with recorder() as device:
        flight(device, START, mask=ALL, count=RECORDS)
        Path(ready).touch()
        load = background("stress-ng", *LOAD, "--timeout", seconds, "--quiet")
        looked, bad, by_level = 0, 0, {}
        while load.poll() is None:
            time.sleep(0.5)
            recording = frozen_of(device)
            cpus = len(recording.counts)
            same("storm: each place is looked at", len(recording.records) + recording.bad,
                 sum(min(count, RECORDS) for count in recording.counts))
            check("storm: all but what an interrupt has overtaken are whole", recording.bad <= 2 * cpus, recording.bad)
            looked += len(recording.records)
            bad += recording.bad
            for _, _, _, _, context, _ in recording.records:
                level = "nmi" if context & NMI else "irq" if context & IRQ else "softirq" if context & SOFTIRQ else "task"
                by_level[level] = by_level.get(level, 0) + 1
            flight(device, THAW)
        same("storm: the load ends well", load.returncode, 0)
    figure("storm: records written", sum(recording.counts))
    figure("storm: records looked at, and places without a whole one", (looked, bad))
    figure("storm: records looked at, by level", by_level)
    figure("storm: NMIs", nmis() - before)
    check("storm: there were NMIs", nmis() > before)
    check("storm: interrupts and softirqs record, too", {"irq", "softirq", "task"} <= set(by_level), by_level)
    same("storm: the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(storm)
