# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine is suspended, and comes back, while calls and functions are instrumented.

Its root, on 9p, does not survive that, whoever suspends. So all that runs from then on is in memory.
Nor does QEMU come back from suspending to memory, and nothing wakes it from suspending to idle. So
both are cut off before their last step, by the kernel's own tests: tasks are frozen, devices are
suspended, and to memory other processors are taken away, and the rest is suspended, interrupts off.
"""

import os
import shutil
import sys
from pathlib import Path

from lib import (SLOWNESS, check, complaints, figure, interrupt, kernel_log, log_mark, main, report, run, same, session,
                 status)
from region import ALL, AT_REQUEST, FREEZE, START, THAW, Recording, flight, recorder
from surroundings import FUNCTIONS, PROGRAM, Load

MODULE = Path(os.environ["JIFL_ROOT"], "build/modules", os.uname().release, "jifl_counter.ko")
ROOT = Path("/tmp/root")
PROGRAMS = ["sh", "ls", "wc", "head", "sha256sum", "dmesg", "jifl"]
POWER = Path("/sys/power")
DELAY = Path("/sys/module/suspend/parameters/pm_test_delay")
SUSPENDING = ["fn:*suspend*", "fn:*resume*", "fn:dpm_*", "fn:pm_*", "fn:syscore_*", "fn:*s2idle*"]
TARGETS = {
    "calls": ["sys:*"],
    "functions": [*FUNCTIONS[:-1], *SUSPENDING, "--yes"],
    "functions alone": [*FUNCTIONS[:-1], *SUSPENDING, "--only", "--yes"],
}


def copy(file):
    """Copies a program, or a library, and the libraries that it needs."""
    copied = ROOT / file[1:]
    if copied.exists():
        return
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, copied)
    for word in run("ldd", file).stdout.split():
        if word.startswith("/"):
            copy(word)


def move_into_memory():
    """Begins this program anew, from a copy in memory: no file of the host is open from then on."""
    ROOT.mkdir()
    run("mount", "-t", "tmpfs", "none", ROOT)
    for name in (sys.executable, *PROGRAMS):
        copy(shutil.which(name))
    # What lib.py reads.
    copy(os.path.join(os.environ["JIFL_ROOT"], "include/uapi/jifl_refusals.h"))
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None):
            copy(os.path.abspath(module.__file__))
    for directory in ("proc", "sys", "dev"):
        (ROOT / directory).mkdir()
        run("mount", "--rbind", f"/{directory}", ROOT / directory)
    program = os.path.abspath(__file__)
    os.chroot(ROOT)
    os.chdir("/")
    os.execv(sys.executable, [sys.executable, "-B", "-S", program, "moved"])


def suspend(name, state, test):
    """The machine is suspended, up to that step, and comes back."""
    mark = log_mark()
    (POWER / "pm_test").write_text(test)
    (POWER / "state").write_text(state)
    same(f"{name}: suspended and back", [line for line in kernel_log(mark) if "PM: suspend e" in line],
         [f"PM: suspend entry ({'deep' if state == 'mem' else 's2idle'})", "PM: suspend exit"])


def suspends(name, targets, state, test):
    """A session, with processes that work, over a time in which the machine is suspended."""
    native = run(*PROGRAM).stdout
    owner = session("call" if "--only" in targets else "insn", *targets, "-f", "json")
    with Load():
        suspend(name, state, test)
        same(f"{name}: processors", os.cpu_count(), 2)
        same(f"{name}: results afterwards", run(*PROGRAM).stdout, native)
    out, _ = interrupt(owner)
    same(f"{name}: the session ends", owner.returncode, 0)
    data = report(out)
    calls = {target["function"] or target["syscall"]: target["calls"] for target in data["targets"]}
    check(f"{name}: calls were counted", sum(calls.values()), calls)
    figure(name, f"{sum(calls.values())} calls, missed {data['missed']}: {data['missed_by']}")
    return calls


def counts_of(device):
    """How many records there are, behind a hundred calls more."""
    for _ in range(100):
        os.getppid()
    return sum(Recording(device).counts)


def recording():
    """One that has stopped, and one that is to stop, stay so, also where the counter begins at 0 again."""
    for name, after in (("stopped", 0), ("to stop in an hour", 3_600_000_000_000)):
        with recorder() as device:
            flight(device, START, mask=ALL, count=1 << 12)
            check(f"{name}: it records", counts_of(device) >= 100)
            flight(device, FREEZE, after=after)
            before = counts_of(device)
            same(f"{name}: it has stopped before", counts_of(device) == before, not after)
            suspend(f"a recording {name}", "mem", "freezer")
            stopped = counts_of(device)
            Path("/proc/jifl_counter").write_text("back")
            same(f"{name}: it has stopped behind it", (counts_of(device), Recording(device).why), (stopped, AT_REQUEST))
            flight(device, THAW)
            check(f"{name}: it goes on when it is told to", counts_of(device) >= stopped + 100)
            flight(device, FREEZE)
            same(f"{name}: and stops", counts_of(device), counts_of(device))


def program(*moved):
    if not (POWER / "state").read_text().strip():
        check("Debian's kernels can suspend", SLOWNESS > 1)
        figure("suspending", "left out: this kernel is built without it")
        return
    if not moved:
        same("the counter can be set back", run("insmod", MODULE).returncode, 0)
        move_into_memory()
    mark = log_mark()
    DELAY.write_text("1")
    (POWER / "mem_sleep").write_text("deep")
    for kind, targets in TARGETS.items():
        calls = suspends(f"{kind}, to memory", targets, "mem", "core")
        if kind == "functions alone":
            same("the functions that suspend the machine were called",
                 [calls.get(name) for name in ("pm_suspend", "syscore_suspend", "syscore_resume")], [1, 1, 1])
        suspends(f"{kind}, to idle", targets, "freeze", "platform")
    recording()
    same("nothing is left in the cache", status()["blocks"], 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])
    same("the module goes", run("jifl", "unload", "jifl").returncode, 0)


main(program)
