# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the start and the end of a session of all functions take, beside switching the function tracer on and off.

usage: attach.py

The requests alone are timed, without the command that makes them. Where the machine's clock counts
instructions, a nanosecond of it is one. Behind the sessions the kernel's text is as it was.
"""

import hashlib
import time
from pathlib import Path

from kcore import kernel_memory
from lib import Device, all_sites_patched, check, complaints, figure, known_functions, main, same, status

TRACER = Path("/sys/kernel/tracing/current_tracer")
# Functions without a site of the tracer are entered by jumps.
JUMPS = Path("/sys/module/jifl/parameters/jumps")
SITES = TRACER.with_name("enabled_functions")
COUNT, ROUNDS, MOST = 1, 2, 65_536


def functions():
    """All that are functions by kallsyms, each once; those that cannot be targets are left out by the module."""
    return [Device.target(0, Device.FUNCTION, Device.ONLY, address, name.encode()[:63], Device.OPTIONAL)
            for address, (_, name) in sorted(known_functions().items())[:MOST]]


def text():
    """A sum of the bytes of the kernel's own text."""
    at = dict(reversed(line.split()[::2]) for line in Path("/proc/kallsyms").read_text().splitlines()
              if line.endswith((" _stext", " _etext")))
    begin, end = int(at["_stext"], 16), int(at["_etext"], 16)
    return hashlib.sha256(kernel_memory([(begin, end - begin)])[0]).hexdigest()


def switched_on():
    """Functions whose sites somebody has."""
    return sorted(line.split()[0] for line in SITES.read_text().splitlines())


def timed(what):
    begun = time.monotonic_ns()
    what()
    return time.monotonic_ns() - begun


def of_the_tracer(targets, on, off):
    """Start and stop in those of the tracer where no function is entered by a jump, and their number."""
    JUMPS.write_text("0")
    with Device() as device:
        start = timed(lambda: device.start_of(COUNT, targets))
        taken = device.refused.count(0)
        stop = timed(device.stop)
    JUMPS.write_text("1")
    return round(start / on, 2), round(stop / off, 2), taken


def attach():
    targets = functions()
    figure("functions asked for", len(targets))
    with all_sites_patched():
        for number in range(ROUNDS):
            on = timed(lambda: TRACER.write_text("function"))
            off = timed(lambda: TRACER.write_text("nop"))
            if not number:
                before = text(), switched_on()
            with Device() as device:
                start = timed(lambda: device.start_of(COUNT, targets))
                taken = device.refused.count(0)
                stop = timed(device.stop)
            check("nearly all are targets", taken > 30_000, taken)
            figure("tracer on, off, ms of the clock", (round(on / 1e6), round(off / 1e6)))
            figure("session start, stop, ms of the clock", (round(start / 1e6), round(stop / 1e6)))
            figure("start and stop, in those of the tracer", (round(start / on, 2), round(stop / off, 2), taken))
        figure("the same of functions that the tracer has", of_the_tracer(targets, on, off))
    same("the text is as before", text(), before[0])
    same("and so are the sites that are switched on", switched_on(), before[1])
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(), [])


if __name__ == "__main__":
    main(attach)
