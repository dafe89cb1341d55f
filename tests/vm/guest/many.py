# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tens of thousands of places: they count, and what they take is told.

usage: many.py

All instructions of functions of the network are places, with breakpoints of the module's own. Where
the machine's clock counts instructions, a second of it is a thousand million of them.
"""

import os
import re
import time
from pathlib import Path

from kcore import kernel_memory
from lib import Device, check, complaints, figure, main, run, same, status
from reached import OWN, Names, hits, instructions, start_places

TRACING = Path("/sys/kernel/tracing")
EVENTS = TRACING / "kprobe_events"
PLACES, NETWORK = 50_000, re.compile("(tcp|ip|udp|sock)_")
# What a session waits in. Each that the kernel has gets a kprobe, which counts.
WAITS = ("synchronize_rcu", "synchronize_rcu_expedited", "synchronize_rcu_tasks", "stop_machine")


def memory():
    """Bytes of the kernel's slabs, of vmalloc, and of processors."""
    words = dict(re.findall(r"^(\w+): +(\d+) kB", Path("/proc/meminfo").read_text(), re.M))
    return 1024 * sum(int(words[name]) for name in ("Slab", "VmallocUsed", "Percpu"))


def probed(names):
    """Switches these events on."""
    for name in names:
        # It cannot be sought in, as Python's files that are appended to are.
        events = os.open(EVENTS, os.O_WRONLY | os.O_APPEND)
        os.write(events, f"p:many/{name} {name}\n".encode())
        os.close(events)
    (TRACING / "events/many/enable").write_text("1")


def waits():
    profile = (TRACING / "kprobe_profile").read_text()
    return {name: int(number) for name, number, _ in (line.split() for line in profile.splitlines())}


def chosen():
    """Places by the function in which each is: at most PLACES."""
    names = Names()
    starts = [start for start in names.starts if NETWORK.match(names.name(start)) and names.name(start) in names.doors]
    found, number = {}, 0
    # A list has room for 65,536.
    for half in (starts[::2], starts[1::2]):
        for start, addresses in instructions(half).items():
            if number + len(addresses) <= PLACES:
                found[start] = addresses
                number += len(addresses)
    with Device() as device:
        # The module leaves out what cannot be a place.
        kept = {}
        for address, start in start_places(device, found):
            kept.setdefault(start, []).append(address)
        device.stop()
    return kept


def texts(of):
    """The first byte of each place, where a breakpoint stands meanwhile, by its address."""
    addresses = sorted(address for some in of.values() for address in some)
    return dict(zip(addresses, kernel_memory([(address, 1) for address in addresses])))


def send():
    """A load in these functions."""
    code = ("import socket\n"
            "one = socket.create_server(('127.0.0.1', 0)); two = socket.create_connection(one.getsockname())\n"
            "three, _ = one.accept(); two.sendall(bytes(9000)); got = 0\n"
            "while got < 9000: got += len(three.recv(9000))\n")
    same("the load", run("python3", "-c", code).returncode, 0)


def many():
    run("ip", "link", "set", "lo", "up")
    # The lists ask the module, which sets breakpoints for that.
    OWN.write_text("1000")
    of = chosen()
    # The first time it switches static keys.
    send()
    before_any = texts(of)
    probed([name for name in WAITS if re.search(rf" [tT] {name}$", Path("/proc/kallsyms").read_text(), re.M)])
    with Device() as device:
        before, waited, begun = memory(), waits(), time.monotonic()
        places = start_places(device, of)
        armed, during = time.monotonic(), waits()
        used = memory() - before
        check("nearly so many places stand", len(places) > PLACES * 9 // 10, len(places))
        send()
        counted, caught, missed, _ = hits(device, len(places))
        stopping = time.monotonic()
        device.stop()
        stopped, after = time.monotonic(), waits()
    entries = [count for count, (address, start) in zip(counted, places) if address == min(of[start])]
    check("many functions were executed", sum(count > 0 for count in entries) > 100, len(entries))
    same("nothing was missed", missed, 0)
    figure("places, functions", (len(places), len(of)))
    figure("of these executed; hits; caught", (sum(map(bool, counted)), sum(counted), sum(caught)))
    figure("until they stand: ms of the clock, ns a place", (round(1000 * (armed - begun)), round(1e9 * (armed - begun) / len(places))))
    figure("until they are gone: ms of the clock", round(1000 * (stopped - stopping)))
    figure("bytes a place", round(used / len(places)))
    figure("waits at the start", {name: during[name] - waited[name] for name in during})
    figure("waits at the end", {name: after[name] - during[name] for name in after})
    # Each further one takes the kernel 0.1 s more.
    same("RCU tasks is waited for once at the end", after["synchronize_rcu_tasks"] - during["synchronize_rcu_tasks"], 1)
    check("waits do not grow with places", all(after[name] - waited[name] <= 20 for name in after), (waited, during, after))
    (TRACING / "events/many/enable").write_text("0")
    EVENTS.write_text("")
    afterwards = texts(of)
    same("places where the text is not as before", [hex(at) for at in afterwards if afterwards[at] != before_any[at]], [])
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(), [])


if __name__ == "__main__":
    main(many)
