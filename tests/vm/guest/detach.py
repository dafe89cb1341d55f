# SPDX-License-Identifier: MIT OR Apache-2.0
"""The end of sessions while tasks sleep inside instrumented system calls, or functions.

usage: detach.py SLEEPERS SECONDS

SECONDS: a session has to end within this time.
"""

import re
import shutil
import signal
import time
from collections import Counter, defaultdict
from pathlib import Path

from lib import (PATIENCE, SLOWNESS, Device, add, background, check, figure, interrupt, is_loaded, main, module_file, report, run,
                 same, session, status, wait_for)

EACH = 20  # processes of each kind


def file_system():
    """Where one is mounted that can be frozen; nothing if this kernel has none."""
    end = run("modprobe", "-a", "loop", "ext4")
    if end.returncode:
        check("Debian's kernels have ext4", SLOWNESS > 1, end)
        figure("writers to a frozen file system", "left out: this kernel has no ext4")
        return []
    image, mount = Path("/tmp/image"), Path("/tmp/mount")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    mount.mkdir()
    for command in [("mkfs.ext4", "-q", image), ("mount", "-o", "loop", image, mount)]:
        end = run(*command)
        check(f"{command[0]} of an image", end.returncode == 0, end)
    return [mount]


def asleep(sleepers):
    """Starts them; returns the process and the pids that sleep."""
    process = background(*sleepers, stdin=-1)
    line = process.stdout.readline().split()
    if not line or line[0] != "asleep":
        raise RuntimeError(f"sleepers: {line} {process.communicate()}")
    return process, [int(pid) for pid in line[1:]]


def wake(name, process, pids, each=EACH):
    process.stdin.write("go\n")
    process.stdin.flush()
    out, err = process.communicate(timeout=PATIENCE * SLOWNESS)
    lines = out.splitlines()
    add("detaches with sleepers", 1)
    for line in lines[:-1]:
        kind, good = line.split()
        check(f"{name}: sleepers in {kind} wake with the right result", good == f"{each}/{each}", good)
    check(f"{name}: all sleepers end", process.returncode == 0 and lines[-1:] == ["done"],
          f"{process.returncode} {out} {err}")


def stacks(comm=None):
    """The kernel's stack of each thread, of that name: functions, the outermost first."""
    found = []
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            if comm in (None, (task / "comm").read_text().strip()):
                words = (task / "stack").read_text().split()
                found.append([word.partition("+")[0] for word in words if "+" in word][::-1])
        except OSError:
            pass
    return found


def of_system_calls():
    """Names that are one function: those of a system call have several, and stacks show one of them."""
    words = (line.split()[:3] for line in Path("/proc/kallsyms").read_text().splitlines())
    at = {name: address for address, _, name in words if name.startswith(("__x64_sys_", "__do_sys_", "__se_sys_"))}
    calls = {address: name for name, address in at.items() if name.startswith("__x64_sys_")}
    return {name: calls[address] for name, address in at.items() if address in calls}


def addresses_of(names):
    """The addresses of the functions of these names, each a list."""
    found = defaultdict(list)
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, kind, name = line.split()[:3]
        if name in names and kind in "tTwW":
            found[name].append(int(address, 16))
    return found


def can_be_targets(names):
    """Of these functions those that a session enters."""
    with Device() as device:
        targets = [(name, address) for name, all_ in addresses_of(names).items() for address in all_]
        device.start_of(0, [Device.function(address, name, Device.OPTIONAL) for name, address in targets])
        refused = {name for (name, _), why in zip(targets, device.refused) if why}
        device.stop()
    return {name for name, _ in targets} - refused


def outermost(comm):
    """How many threads of that name have which function as the outermost on their stack that can be a target.

    None: of those that are in none.
    """
    others = of_system_calls()
    all_ = [[others.get(name, name) for name in stack] for stack in stacks(comm)]
    targets = can_be_targets(set().union(*all_))
    return Counter(next((name for name in stack if name in targets), None) for stack in all_)


def unload(name):
    start = time.monotonic()
    end = run("jifl", "unload", "jifl")
    check(f"{name}: the module unloads", end.returncode == 0 and not is_loaded(), end)
    figure(f"{name}: unloading", f"{time.monotonic() - start:.2f} s")


def load(name):
    end = run("jifl", "load")
    check(f"{name}: the module loads", end.returncode == 0 and is_loaded(), end)


def killed(name, sleepers, seconds, *what, adopt=False):
    """The owner dies by SIGKILL; the module goes; then the sleepers wake.

    With adopt they sleep already when the session begins, which takes them over.
    """
    if adopt:
        process, pids = asleep(sleepers)
        owner = session(*what)
    else:
        owner = session(*what)
        process, pids = asleep(sleepers)
    with Device() as device:
        same(f"{name}: the session runs", device.sessions(), 1)
        start = time.monotonic()
        owner.kill()
        wait_for("the end of the session", lambda: not device.sessions())
        took = time.monotonic() - start
    owner.wait()
    figure(f"{name}: end after SIGKILL with {len(pids)} sleepers", f"{took:.2f} s")
    check(f"{name}: the session ends in time", took <= seconds, f"{took:.2f} s")
    same(f"{name}: nothing is left in the cache", status()["blocks"], 0)
    unload(name)
    wake(name, process, pids)
    load(name)


def interrupted(name, sleepers, seconds, *what):
    """The owner ends it itself and sees how many threads were inside."""
    before = status()["missed_by"].get("session-end", 0)
    owner = session(*what, "-f", "json")
    process, pids = asleep(sleepers)
    with Device() as device:
        start = time.monotonic()
        owner.send_signal(signal.SIGINT)
        wait_for("the end of the session", lambda: not device.sessions())
        took = time.monotonic() - start
    out, err = owner.communicate()
    check(f"{name}: the session ends in time", took <= seconds, f"{took:.2f} s")
    said = re.match(r"Detaching\.\.\. (\d+) threads draining", err)
    check(f"{name}: all sleepers were inside", said and int(said[1]) >= len(pids), f"{len(pids)}: {err}")
    figure(f"{name}: end after SIGINT", err.strip())
    data = report(out)
    check(f"{name}: calls in flight are missed, not lost", data["missed"] >= len(pids), data["missed"])
    at_the_end = sum(target["missed_by"].get("session-end", 0) for target in data["targets"])
    same(f"{name}: since it ended", status()["missed_by"].get("session-end", 0) - before, at_the_end)
    wake(name, process, pids)


TRACING = Path("/sys/kernel/tracing")
# In which they sleep; not each kernel has them all.
TRACED = ["vfs_read", "ksys_read", "pipe_read", "do_sys_poll", "do_futex", "futex_wait", "hrtimer_nanosleep", "do_wait",
          "kernel_wait4", "do_epoll_wait"]


def traced(name, sleepers, seconds):
    """Tracers have put their own return addresses onto the stacks, and keep those of the cache."""
    there = set((TRACING / "available_filter_functions").read_text().split())
    (TRACING / "set_ftrace_filter").write_text("\n".join(function for function in TRACED if function in there))
    (TRACING / "current_tracer").write_text("function_graph")
    (TRACING / "kprobe_events").write_text("r:detach/back ksys_read\n")
    (TRACING / "events/detach/back/enable").write_text("1")
    killed(name, sleepers, seconds, "insn", "sys:*")
    (TRACING / "events/detach/back/enable").write_text("0")
    (TRACING / "kprobe_events").write_text("")
    (TRACING / "current_tracer").write_text("nop")
    (TRACING / "set_ftrace_filter").write_text("")


def twice(name, sleepers):
    """They fell asleep in one session and wake under another."""
    first = session("insn", "sys:*")
    process, pids = asleep(sleepers)
    first.send_signal(signal.SIGKILL)
    first.wait()
    wait_for("the end of the session", lambda: not status()["sessions"])
    second = session("block", "sys:*")
    wake(name, process, pids)
    interrupt(second)


def in_functions(sleepers, seconds):
    """The same with functions as targets: those that each sleeper is in."""
    process, pids = asleep(sleepers)
    there = outermost("sleepers")
    wake("functions, natively", process, pids)
    figure("functions that sleepers are in", dict(there))
    check("each sleeper is in a function that can be a target", None not in there and there.total() > len(pids), there)
    targets = [f"fn:{name}" for name in there]
    interrupted("insn of functions", sleepers, seconds, "insn", *targets)
    killed("insn of functions, killed", sleepers, seconds, "insn", *targets)
    killed("block of functions, taken over, killed", sleepers, seconds, "block", *targets, adopt=True)
    killed("insn of functions alone, killed", sleepers, seconds, "insn", *targets, "--only")


def program(sleepers, seconds):
    seconds = float(seconds)
    sleepers = [sleepers, EACH, *file_system()]
    # Here at once when it is needed: where the clock counts instructions, waiting for the host
    # takes seconds of it.
    Path(shutil.which("jifl")).read_bytes()
    check("the module is there", is_loaded(), module_file())
    # First, as the module that is loaded later has no planted bug.
    traced("insn, traced, killed", sleepers, seconds)
    interrupted("insn", sleepers, seconds, "insn", "sys:*")
    killed("insn, killed", sleepers, seconds, "insn", "sys:*")
    killed("block, killed", sleepers, seconds, "block", "sys:*")
    killed("none, killed", sleepers, seconds, "none", "sys:read", "sys:futex", "sys:poll")
    twice("woken under another session", sleepers)
    killed("insn of one name, killed", sleepers, seconds, "insn", "sys:*", "-n", "sleepers")
    in_functions(sleepers, seconds)
    same("no session is left", status()["sessions"], [])


if __name__ == "__main__":
    main(program)
