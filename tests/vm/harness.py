# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs commands in throwaway machines, for the tests beside this file.

A run has passed only with its exit status, its end marker and a console without warnings: vm(...,
check=True) demands all three.
"""

import fcntl
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cells
import turns

ROOT = Path(__file__).resolve().parents[2]
JIFL = ROOT / "build/bin/jifl"
PROGRAMS = ROOT / "build/tests/vm"
# JIFL_TEST_CELL=NAME: all on this machine of the matrix (cells.py).
CELL = cells.named(os.environ["JIFL_TEST_CELL"]) if "JIFL_TEST_CELL" in os.environ else None
# JIFL_TEST_TIMES=1: guests say what their checks took.
TIMES = "export JIFL_TEST_TIMES=1; " if "JIFL_TEST_TIMES" in os.environ else ""
# The series that scripts/fetch-newest has fetched, the newest first; empty where it has not run.
FETCHED = ROOT / "build/kernels/.newest"
NEWEST = FETCHED.read_text(encoding="utf-8").split() if FETCHED.exists() else []
# "debug" and "race" are those that `make debug-kernel` and `make race-kernel` build.
KERNELS = [CELL.kernel] if CELL else os.environ.get("JIFL_TEST_KERNELS", "6.1 6.12").split()
ARE_ASKED_FOR = CELL is not None or "JIFL_TEST_KERNELS" in os.environ
# For tests of exact numbers: the newest kernel, too, where it is there.
AND_NEWEST = KERNELS if ARE_ASKED_FOR else KERNELS + NEWEST[:1]
# JIFL_SOAK=seconds: tests go on for about so long, and on all kernels.
SOAK = int(os.environ.get("JIFL_SOAK", "0"))
SOAK_PATIENCE = 3
# JIFL_TEST_APPEND=WORDS: more parameters of the kernel, as jifl.sites=0.
APPEND = os.environ.get("JIFL_TEST_APPEND", "")
# JIFL_PLANT=NAME: with a planted bug of host/kernel/plant.h, which the tests must catch.
PLANT = os.environ.get("JIFL_PLANT")
# Of a planted bug the first check that fails says enough.
FIRST = "export JIFL_TEST_FIRST=1; " if PLANT else ""
FINDERS = {name: ROOT / f"build/{name}-kernel" for name in ("debug", "race")}
# Their checks make each instruction that touches memory several, and blocks larger.
FINDERS_SLOWNESS = 6

BEGIN_MARKER, END_MARKER = "begin-of-test-run", "end-of-test-run"
# `jifl vm`'s status when QEMU failed, not the guest (docs/vm.md).
EMULATOR_FAILED = 121
# Of its line on stderr when QEMU failed and could go on.
EMULATOR_HEALED = "its translation was dropped"

# What the kernel log of a good run never holds.
TROUBLE = re.compile(
    r"WARNING:|BUG[: ]|Oops|general protection fault|Call Trace|INFO: task .* blocked|"
    r"rcu.*stall|soft lockup|hard LOCKUP|unregister_netdevice|Kernel panic|"
    r"stack-protector|scheduling while atomic|list_(add|del) corruption")

# A data race as KCSAN tells of it: its title has the functions.
RACE = re.compile(r"^[^\n]*={60,}\n(?P<title>[^\n]*BUG: KCSAN: [^\n]*)\n.*?^[^\n]*={60,}\n", re.M | re.S)

# What a healthy kernel says at boot of the CPU that QEMU shows it.
OF_THE_CPU = re.compile(r"(Speculative Return Stack Overflow|RETBleed|Spectre V2 ): WARNING:")


def turn(number):
    """The kernels for a test that is too long for each: one, all in the soak."""
    return KERNELS if SOAK else [KERNELS[number % len(KERNELS)]]


def rounds(kernel, usual, soak):
    """How often a test does the same: more often in the soak, where the kernel is no slow one."""
    return soak if SOAK and kernel not in FINDERS else usual


def share(cells, number):
    """So many of a test's cells, the machines that it runs on: others with another commit; all in
    the soak, and where the user has said on which kernels.
    """
    if SOAK or ARE_ASKED_FOR:
        return cells
    # A test that takes turns runs where lot() % TURNS is one number: that leaves the rest to draw.
    first = lot() // turns.TURNS * number
    return [cells[(first + index) % len(cells)] for index in range(min(number, len(cells)))]


@functools.cache
def lot():
    """A number that the commit draws: the same for each run with it. 0 where it is not known.

    It is not the number of commits: a clone need not have them all.
    """
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0


@dataclass
class Run:
    """What a command in a machine left behind."""
    status: int
    stdout: str
    stderr: str
    console: str
    ended: bool     # the end marker was there

    def trouble(self):
        """Lines of the kernel log that must not be there.

        The kernel's own data races are not held against us.
        """
        console = RACE.sub(lambda race: race[0] if "jifl" in race["title"] else "", self.console)
        return [line for line in console.splitlines() if TROUBLE.search(OF_THE_CPU.sub("", line))]

    def shown(self):
        """All of it, for a failed assertion."""
        return (f"--- stdout\n{self.stdout[-6000:]}\n--- stderr\n{self.stderr[-4000:]}\n"
                f"--- console\n{self.console[-6000:]}")

    def assert_good(self, trouble=False):
        assert self.status == 0, f"exit status {self.status}\n{self.shown()}"
        assert self.ended, f"no end marker\n{self.shown()}"
        assert trouble or not self.trouble(), f"kernel log: {self.trouble()[:5]}\n{self.shown()}"


def vm(script, kernel=None, smp=None, memory="2G", icount=False, module=True, append="",
       timeout=600, check=True, rw=None, options=()):
    """Runs the shell script in a machine.

    With check, asserts exit status 0, the end marker and a clean kernel log.
    """
    kernel = kernel or KERNELS[0]
    slowness = FINDERS_SLOWNESS if kernel in FINDERS else 1
    if SOAK:
        # There is more to do, beside other work. The time is that of a machine that hangs.
        timeout *= SOAK_PATIENCE
    append = f"{append} {APPEND}".strip()
    if kernel in FINDERS:
        append = f"{append} jifl.cache_kb=32768 jifl.side_kb=32768"
    if kernel == "debug":
        append = f"{append} kasan_multi_shot"   # each report, not the first alone
    if CELL:
        machine = CELL.machine()
        smp = smp or machine["smp"]
        append = f"{machine['append']} {append}"
        options = [*machine["options"], *options]
    command = [JIFL, "vm", "--kernel", FINDERS[kernel] / "vmlinuz" if kernel in FINDERS else kernel, "--memory", memory,
               "--timeout", str(timeout * slowness), "--boot-timeout", str(180 * slowness)]
    command += ["--icount"] if icount else ["--smp", str(smp or 2)]
    command += [] if module and not PLANT else ["--no-module"]
    if module and PLANT:
        command += ["--module", build_test_module(kernel)]
        append += f" jifl.plant={PLANT}"
    command += ["--append", append] if append else []
    command += ["--rw", str(rw)] if rw else []
    command += list(options)
    command += ["--", "sh", "-c", f"echo {BEGIN_MARKER} >&2; {TIMES}{FIRST}"
                f"export JIFL_TEST_SLOWNESS={slowness}\n{script}\nstatus=$?; echo {END_MARKER} >&2; exit $status"]
    patience = (timeout + 180) * slowness + 60
    run = in_machine(command, patience)
    # With the end marker it is the command's own status.
    if run.status == EMULATOR_FAILED and not run.ended:
        warnings.warn(f"run again, since the emulator failed: {run.stderr}")
        run = in_machine(command, patience)
    if check:
        run.assert_good()
    return run


# Of this process's machines: seconds until the command began; what checks took, as guest/lib.py
# prints it. conftest.py reads and empties both.
BOOTS, CHECKS = [], []


def in_machine(command, patience):
    """Runs a command of `jifl vm`, which ends within so many seconds."""
    with tempfile.NamedTemporaryFile(suffix=".console") as console:
        words = [*command[:2], "--console", console.name, *command[2:]]
        start, written = time.monotonic(), []
        with subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", cwd=ROOT) as process:
            errors, process.stderr = process.stderr, None
            reader = threading.Thread(target=read_errors, args=(errors, start, written))
            reader.start()
            try:
                output = process.communicate(timeout=patience)[0]
            except BaseException:
                process.kill()
                raise
            finally:
                reader.join()
        log = Path(console.name).read_text(errors="replace")
    for line in filter(lambda line: EMULATOR_HEALED in line, written):
        warnings.warn(f"the emulator failed and was healed: {line.strip()}")
    written = "".join(line for line in written if EMULATOR_HEALED not in line)
    return Run(process.returncode, output, written.replace(END_MARKER + "\n", ""), log, END_MARKER in written)


def read_errors(file, start, written):
    """Keeps the lines but the marker, whose time says how long the boot took."""
    with file:
        for line in file:
            if line == BEGIN_MARKER + "\n":
                BOOTS.append(time.monotonic() - start)
            else:
                written.append(line)


def guest(program, *arguments, show=None, trouble=False, alone=False, **options):
    """Runs guest/PROGRAM.py in a machine and asserts that all its checks passed.

    show, if given, is called with each figure that it printed. With trouble, the kernel
    log is the program's own affair. With alone, no shell waits for the program, which says its end
    itself. Returns the Run.
    """
    words = ["/usr/bin/python3", "-B", f"tests/vm/guest/{program}.py", *arguments]
    script = shlex.join(str(word) for word in words)
    run = vm(f"JIFL_TEST_END={END_MARKER} exec {script}" if alone else script, check=False, **options)
    lines = run.stdout.splitlines()
    failed = [line for line in lines if line.startswith("FAILED ")]
    assert not failed, "\n".join([*failed, run.shown()])
    run.assert_good(trouble)
    assert any(line.startswith("ok ") for line in lines) and "end of checks" in lines, run.shown()
    for line in lines:
        if show and line.startswith("figure "):
            show(line.removeprefix("figure "))
    keep_sums(lines)
    CHECKS.extend(line.removeprefix("took ") for line in lines if line.startswith("took "))
    return run


def keep_sums(lines):
    """Hands what the program summed up to whoever adds up several runs (tests/soak)."""
    if "JIFL_TEST_SUMS" in os.environ:
        with open(os.environ["JIFL_TEST_SUMS"], "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines if line.startswith("sum "))


def report(text):
    """The JSON object that `jifl count -f json` printed, by names of system calls and functions."""
    data = json.loads(text)
    data["by_name"] = {target["syscall"] or target["function"]: target for target in data["targets"]}
    return data


@contextmanager
def building():
    """One at a time: tests run in several processes."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    with open(PROGRAMS / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compile_program(name, *flags):
    """Builds tests/vm/NAME.c, or what is in tests/vm/NAME/, into build/tests/vm; returns its path.

    The program is static: it runs in every machine.
    """
    here = Path(__file__).parent
    sources = sorted((here / name).glob("*.c")) or [here / f"{name}.c"]
    binary = PROGRAMS / name
    made_from = [*sources, *(here / name).glob("*.h"), *(ROOT / "include/uapi").iterdir()]
    with building():
        if binary.exists() and binary.stat().st_mtime >= max(path.stat().st_mtime for path in made_from):
            return binary
        subprocess.run(["gcc", "-O2", "-static", "-Wall", "-o", binary, *sources, *flags], check=True)
    return binary


def release_of(kernel):
    """The release of a kernel that `make setup` unpacked: 6.1 is 6.1.0-56-amd64.

    Also of those that find defects.
    """
    if kernel in FINDERS:
        return (FINDERS[kernel] / "release").read_text().strip()
    images = sorted((ROOT / "build/kernels/boot").glob(f"vmlinuz-{kernel}.*"))
    return images[-1].name.removeprefix("vmlinuz-")


def build_test_module(kernel):
    """jifl.ko with planted bugs and failing allocations on request; returns its path."""
    release = release_of(kernel)
    with building():
        subprocess.run([ROOT / "scripts/build-modules", "--test", release], check=True, capture_output=True)
    return ROOT / f"build/modules-test/{release}/jifl.ko"


def build_module(source, name=None, settings=""):
    """Builds tests/vm/SOURCE (DIRECTORY/NAME.c) as a module for every kernel there is.

    It may have another name. settings: lines for plugins/plugin.mk. Returns the directory with
    RELEASE/NAME.ko.
    """
    source = Path(__file__).parent / source
    built = ROOT / "build/tests/modules"
    with building():
        for kernel in (ROOT / "build/modules").glob("*/jifl.ko"):
            build_module_for(kernel.parent.name, source, built, name or source.stem, settings)
    return built


def build_trouble(kernel):
    """The module trouble for a kernel. Its functions can be entered, as those of the kernel."""
    return built_for(build_module("modules/trouble.c", settings="REPLACEMENT := y\n"), kernel) / "trouble.ko"


def build_module_for(release, source, built, name, settings):
    """The same for one kernel."""
    tree = built / release / "tree" / name
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "Makefile").write_text(f"PLUGIN := {name}\n{settings}include {ROOT}/plugins/plugin.mk\n")
    link = tree / f"{name}.c"
    link.unlink(missing_ok=True)
    link.symlink_to(source)
    done = subprocess.run(["make", "-s", "-C", tree, f"RELEASE={release}"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.copy2(tree / f"{name}.ko", built / release)


def built_for(directory, kernel):
    """The one for this kernel of the directories that build_module filled."""
    return directory / release_of(kernel)
