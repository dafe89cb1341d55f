# SPDX-License-Identifier: MIT OR Apache-2.0
"""The flight recorder: in a machine that lives, that dies, and that starts again."""

import json
import socket
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest

import harness

PANICKED = 123
# Memory that outlives a reset, by kernel: the parameter, and its name.
MEMORY = {"6.1": ("memmap=8M$0x30000000", "0x30000000:0x800000"), "6.12": ("reserve_mem=8M:4096:flight", "flight")}
PROGRAM = "exec /usr/bin/python3 -B " + str(harness.ROOT / "tests/vm/guest/flight_ends.py")


@pytest.mark.parametrize("kernel", harness.turn(2))
def test_flight(kernel, show):
    harness.build_test_module(kernel)
    harness.guest("flight", harness.compile_program("calls32"), kernel=kernel, smp=2, timeout=900, show=show)


def tell_monitor(monitor, command, times=1):
    """Has QEMU do something to the machine, as an operator does whose machine answers no more."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(monitor))
        lines = client.makefile("rw")
        for each in ["qmp_capabilities"] + times * [command]:
            lines.write(json.dumps({"execute": each}) + "\n")
            lines.flush()
            while "return" not in json.loads(lines.readline()):
                pass
            time.sleep(0.1)


@contextmanager
def telling(monitor, command, ready, again=0):
    """Meanwhile: tells that when the file is there; with `again` so often, time after time.

    Before, the machine may be where it knows no NMI yet.
    """
    over = threading.Event()

    def tell():
        while not over.wait(0.2):
            if not ready.exists():
                continue
            try:
                tell_monitor(monitor, command, again or 1)
            except (OSError, ValueError):   # the machine has ended
                return
            if not again:
                return

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_storm(kernel, show, tmp_path):
    """All events under load on all processors, and NMIs whose own messages are recorded."""
    monitor, ready = tmp_path / "monitor", tmp_path / "ready"
    with telling(monitor, "inject-nmi", ready, again=50):
        harness.guest("flight_storm", harness.rounds(kernel, 10, 120), ready, kernel=kernel, smp=2, timeout=700, show=show,
                      options=["--monitor", monitor, "--rw", tmp_path])


def check_last_moment(lines, show, name, whole=True):
    """Of each processor, up to the end: no system call of its process is missing, and none is there twice.

    The process numbers its calls. So the numbers are the second witness. whole: the lines are of all that was kept.
    """
    records = [json.loads(line) for line in lines.splitlines()]
    places, ends = {}, {}
    for one in records:
        if one["event"] == "sys_enter" and one["arguments"]["call"] == "pwrite64":
            places.setdefault(one["cpu"], []).append(int(str(one["arguments"]["d"]), 0))
            ends[one["cpu"]] = one["time_ns"]
    # Of a short time, a processor that the host kept waiting may have none.
    assert sorted(places) == [0, 1] if whole else places, {cpu: len(of_cpu) for cpu, of_cpu in places.items()}
    for cpu, of_cpu in places.items():
        assert len(of_cpu) > 100 or not whole, (cpu, len(of_cpu))
        assert of_cpu == list(range(of_cpu[0], of_cpu[0] + len(of_cpu))), (cpu, of_cpu[:10])
    latest = records[-1]["time_ns"]
    show(f"{name}: {len(records)} records; calls, and ms before the last record: "
         f"{ {cpu: (len(places[cpu]), (latest - ends[cpu]) / 1e6) for cpu in places} }")
    return records


# How the machine dies, and the beginning of what its log says of that.
DEATHS = [("c", "sysrq: Trigger a crash"), ("irq-null", "BUG: kernel NULL pointer dereference"),
          ("overflow", "BUG: TASK stack guard page was hit"), ("hang", "INFO: task python3:"),
          ("inject-nmi", "Kernel panic - not syncing: NMI: Not con")]
FROM_OUTSIDE = ("inject-nmi", "system_reset")


@contextmanager
def ending(how, directory):
    """What the program is told, and what `jifl vm` is. If the machine is to be ended from outside, it is."""
    if how not in FROM_OUTSIDE:
        yield how, []
        return
    ready, monitor = directory / "ready", directory / "monitor"
    with telling(monitor, how, ready):
        yield ready, ["--monitor", monitor, "--rw", directory]


@pytest.mark.parametrize("kernel", harness.turn(1))
@pytest.mark.parametrize("how, said", harness.share(DEATHS, 1))
def test_crash(kernel, how, said, show, tmp_path):
    """A panic: all is found in the memory that is left, without the module and without symbols."""
    core = tmp_path / "core"
    with ending(how, tmp_path) as (word, options):
        run = harness.vm(f"{PROGRAM} {word}", kernel=kernel, memory="512M", smp=2, timeout=400, check=False,
                         options=["--dump", core, "--module", harness.build_trouble(kernel), *options])
    assert run.status == PANICKED, run.shown()
    found = subprocess.run([harness.JIFL, "flight", "extract", core, "-f", "ndjson"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    records = check_last_moment(found.stdout, show, f"{kernel}, {how}")
    texts = [one["arguments"]["text"] for one in records if one["event"] == "log"]
    assert any(text.startswith(said[:39]) for text in texts), texts
    core.unlink()


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_crash_kernel(kernel, show):
    """kdump: the crash kernel finds the last moment in /proc/vmcore."""
    image = harness.ROOT / f"build/kernels/boot/vmlinuz-{harness.release_of('6.12' if kernel in harness.FINDERS else kernel)}"
    run = harness.vm(f"{PROGRAM} c {image} {harness.compile_program('crash_run')}", kernel=kernel, memory="1G", smp=2, timeout=700,
                     check=False, append="crashkernel=256M")
    assert run.status == PANICKED and "crash kernel: status 0" in run.console, run.shown()
    lines = "\n".join(line for line in run.console.splitlines() if line.startswith("{"))
    check_last_moment(lines, show, f"{kernel}, kdump", whole=False)


# How the machine is reset. Only the first one is told of in the log.
RESETS = ["b", "triple", "system_reset"]


@pytest.mark.parametrize("kernel", harness.turn(0))
@pytest.mark.parametrize("how", harness.share(RESETS, 1))
def test_restart(kernel, how, show, tmp_path):
    """A reset: memory that a parameter has set aside has all that was recorded, for the next boot."""
    append, name = MEMORY[kernel if kernel in MEMORY else "6.12"]
    with ending(how, tmp_path) as (word, options):
        run = harness.vm(f"{PROGRAM} {word} {name}", kernel=kernel, memory="1G", smp=2, timeout=700, check=False, append=append,
                         options=["--restarts", "--module", harness.build_trouble(kernel), *options])
    assert run.status == 0, run.shown()
    lines = "\n".join(line for line in run.stdout.splitlines() if line.startswith("{"))
    records = check_last_moment(lines, show, f"{kernel}, {how}")
    texts = [one["arguments"]["text"] for one in records if one["event"] == "log"]
    assert (how == "b") == any("sysrq: Resetting" in text for text in texts), texts
    if how == "triple":
        check_last_call(records, "write", len(how))


def check_last_call(records, call, length):
    """The cause of a death without a word is the last call of its processor, which did not end."""
    last = {one["cpu"]: one for one in records if one["event"] in ("sys_enter", "sys_exit")}
    ends = [(one["event"], one["arguments"]["call"], int(str(one["arguments"].get("c", 0)), 0)) for one in last.values()]
    assert ("sys_enter", call, length) in ends, ends


# Kernels in which calls can be redirected at both ends of system calls. Since 6.16 tracepoints have to do.
REDIRECTED = ("6.1", "6.12", *harness.FINDERS)
# What is recorded, or traced by the kernel itself, of each system call.
WAYS = {"both": "jifl flight mask -e sys_enter,sys_exit", "calls": "jifl flight mask -e sys_enter",
        "results": "jifl flight mask -e sys_exit"}
EVENTS = "/sys/kernel/tracing/events/raw_syscalls"
MOST = 50
# A place of one's own with a number, which inserted code records.
PLACE = "jifl flight start --keep -e warn && jifl flight add fn:vfs_read --record count"
MOST_OF_PLACE = 75


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_a_record_costs_few_instructions(kernel, show):
    """In a machine whose clock counts instructions: a call and its result, with what leads to their records."""
    reads = harness.compile_program("reads", "-O2", "-static")
    own = [f"{way} && {reads}" for way in WAYS.values()]
    run = harness.vm(" && ".join([str(reads), "jifl flight start --keep -e sys 2>/dev/null", *own, "jifl flight stop", str(reads),
                                  f"({PLACE}) >/dev/null 2>&1", str(reads), "jifl flight stop", str(reads),
                                  f"echo 1 >{EVENTS}/enable", str(reads), f"echo 0 >{EVENTS}/sys_exit/enable", str(reads)]),
                     kernel=kernel, icount=True, timeout=200)
    native, *took, after, place, then, events, event = map(int, run.stdout.split())
    added = dict(zip(WAYS, (each - native for each in took)))
    show(f"the flight recorder adds to a system call, in instructions: {added}; the kernel's events {events - native}, "
         f"sys_enter {event - native}; a place {place - native}")
    assert (after, then) == (native, native)
    assert 0 < place - native <= MOST_OF_PLACE
    assert 0 < added["calls"] < added["both"] and 0 < added["results"] < added["both"], added
    if kernel in REDIRECTED:
        assert added["calls"] <= MOST and added["results"] <= MOST and added["both"] <= 2 * MOST, added
