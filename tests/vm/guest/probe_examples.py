# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plugins that come with JIFL and have probes: each does what its head says.

usage: probe_examples.py
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from lib import background, check, complaints, kernel_log, log_mark, main, module_file, run, same, state_of, status, wait_for
from probe import Graphs

MODULES = Path(module_file()).parent
READS = {0: 3, 1: 5, 100: 7, 4096: 2}


def good(name, *words):
    end = run("jifl", *words)
    return check(name, end.returncode == 0 and not end.stderr, end)


def load(name):
    good(f"{name} is loaded", "load", MODULES / f"{name}.ko")


def start(name, **parameters):
    for parameter, value in parameters.items():
        Path(f"/sys/module/{name}/parameters/{parameter}").write_text(str(value))
    mark = log_mark()
    good(f"{name} starts", "start", name)
    return mark


def stop(name, mark):
    """What it says in the log."""
    good(f"{name} stops", "stop", name)
    return [line.removeprefix(f"{name}: ") for line in kernel_log(mark) if line.startswith(f"{name}: ")]


def read(name):
    end = run("jifl", "read", name)
    check(f"{name} is read", end.returncode == 0, end)
    return end.stdout.splitlines()


def djprobe():
    load("djprobe")
    mark = start("djprobe", function="vfs_read")
    for _ in range(10):
        Path("/proc/version").read_bytes()
    stop("djprobe", mark)
    lines = read("djprobe")
    own = [line for line in lines if re.match(rf"\d+ {os.getpid()} vfs_read\+0x\w+/0x\w+ di [0-9a-f]{{16}}$", line)]
    check("calls of this process", len(own) >= 10, lines[:5])
    good("djprobe goes", "unload", "djprobe")


def watchpid():
    load("watchpid")
    mark = start("watchpid", pid=os.getpid())
    file = os.open("/proc/version", os.O_RDONLY)
    for size, times in READS.items():
        for _ in range(times):
            os.pread(file, size, 0)
    directory = os.open("/proc", os.O_RDONLY)
    for _ in range(4):
        try:
            os.read(directory, 4096)
        except IsADirectoryError:
            pass
    said = stop("watchpid", mark)
    os.close(file)
    os.close(directory)
    check("reads that fail", "4 of its reads failed" in said, said)
    counts = {int(low): int(times) for low, times in re.findall(r"from (\d+) bytes on: (\d+) reads", "\n".join(said))}
    same("reads by size", {low: counts.get(low) for low in (0, 1, 64, 4096)}, {0: 3, 1: 5, 64: 7, 4096: counts.get(4096)})
    check("those of 4096 bytes", counts.get(4096, 0) >= 2, counts)
    good("watchpid goes", "unload", "watchpid")


def coverage():
    load("coverage")
    graphs = Graphs("fn:do_getpgid")
    blocks = [block["place"] for block in graphs.all["do_getpgid"]["blocks"] if block["place"].startswith("+")]
    for place in blocks:
        Path("/sys/module/coverage/parameters/place").write_text(f"do_getpgid{place}")
    mark = start("coverage")
    for _ in range(100):
        os.getpgid(os.getpid())
    kprobes = Path("/sys/kernel/debug/kprobes/list")
    reached = read("coverage")
    check("places are reached, each once", 2 <= len(reached) == len(set(reached)), reached)
    wait_for("their breakpoints go", lambda: kprobes.read_text().count("do_getpgid+") == len(blocks) - len(reached))
    same("nothing is reached twice", read("coverage"), [])
    try:
        os.getpgid(9999999)
    except ProcessLookupError:
        pass
    later = read("coverage")
    check("another way is reached later", later and not set(later) & set(reached), later)
    said = stop("coverage", mark)
    same("the sum", said[-1], f"{len(reached) + len(later)} of {len(blocks)} places were reached")
    same("those that were not reached", len(said) - 1, len(blocks) - len(reached) - len(later))
    good("coverage goes", "unload", "coverage")


def audit():
    load("audit")
    mark = start("audit")
    same("a program runs", run("cat", "/proc/version").returncode, 0)
    pid = subprocess.Popen(["sh", "-c", "exec setpriv --reuid 65534 true"]).pid
    os.waitpid(pid, 0)
    run("insmod", MODULES / "jifl_known.ko")
    run("rmmod", "jifl_known")
    stop("audit", mark)
    lines = [line.split(" ", 1)[1] for line in read("audit")]
    for name, wanted in (("an open", r"\d+ 0 cat opens /proc/version"), ("a program", r"\d+ 0 \S+ executes /\S*bin/cat"),
                         ("credentials", rf"{pid} 0 setpriv becomes 65534"), ("a module", r"\d+ 0 insmod loads jifl_known")):
        check(f"{name} is recorded", any(re.fullmatch(wanted, line) for line in lines), lines[-40:])
    good("audit goes", "unload", "audit")


def breakpoint_stops():
    load("breakpoint")
    caller = background("sh", "-c", "read line; while :; do cat /proc/version >/dev/null; : < /proc/version; done", stdin=subprocess.PIPE)
    mark = start("breakpoint", function="do_filp_open", pid=caller.pid, stop=1, limit=60)
    caller.stdin.write("\n")
    caller.stdin.flush()
    wait_for("the task is stopped", lambda: state_of(caller.pid) == "T")
    lines = read("breakpoint")
    check("registers and callers", lines and re.match(
        rf"\d+ {caller.pid} do_filp_open\+0x\w+/0x\w+ ax \w+ bx .* <do_filp_open\+.* <do_sys_open", lines[0]), lines[:2])
    time.sleep(0.2)
    same("it stays so", state_of(caller.pid), "T")
    stop("breakpoint", mark)
    wait_for("it goes on", lambda: state_of(caller.pid) != "T")
    mark = start("breakpoint", limit=1)
    wait_for("it is stopped again", lambda: state_of(caller.pid) == "T")
    wait_for("it goes on by itself", lambda: state_of(caller.pid) != "T")
    os.kill(caller.pid, signal.SIGKILL)
    caller.communicate()
    stop("breakpoint", mark)
    good("breakpoint goes", "unload", "breakpoint")


def program():
    mark = log_mark()
    djprobe()
    watchpid()
    coverage()
    audit()
    breakpoint_stops()
    same("nothing is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(program)
