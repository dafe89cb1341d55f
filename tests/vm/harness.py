# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs commands in throwaway machines, for the tests beside this file.

A run counts as passed only with its exit status, its end marker and a console
without warnings: that is what vm(..., check=True) asks for.
"""

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JIFL = ROOT / "build/bin/jifl"
PROGRAMS = ROOT / "build/tests/vm"
KERNELS = os.environ.get("JIFL_TEST_KERNELS", "6.1 6.12").split()

END_MARKER = "end-of-test-run"

# What the kernel log of a good run never holds.
TROUBLE = re.compile(
    r"WARNING:|BUG[: ]|Oops|general protection fault|Call Trace|INFO: task .* blocked|"
    r"rcu.*stall|soft lockup|hard LOCKUP|unregister_netdevice|Kernel panic|"
    r"stack-protector|scheduling while atomic|list_(add|del) corruption")


@dataclass
class Run:
    """What a command in a machine left behind."""
    status: int
    stdout: str
    stderr: str
    console: str

    def trouble(self):
        """Lines of the kernel log that must not be there."""
        return [line for line in self.console.splitlines() if TROUBLE.search(line)]


def vm(script, kernel="6.1", smp=2, memory="2G", icount=False, module=True, append="",
       timeout=300, check=True, rw=None, options=()):
    """Runs the shell script in a machine.

    With check, asserts exit status 0, the end marker and a clean kernel log.
    """
    with tempfile.NamedTemporaryFile(suffix=".console") as console:
        command = [JIFL, "vm", "--kernel", kernel, "--memory", memory, "--timeout", str(timeout),
                   "--console", console.name]
        command += ["--icount"] if icount else ["--smp", str(smp)]
        command += [] if module else ["--no-module"]
        command += ["--append", append] if append else []
        command += ["--rw", str(rw)] if rw else []
        command += list(options)
        command += ["--", "sh", "-c", f"{script}\nstatus=$?; echo {END_MARKER} >&2; exit $status"]
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", cwd=ROOT,
                              timeout=timeout + 120)
        log = Path(console.name).read_text(errors="replace")
    marked = END_MARKER in done.stderr
    run = Run(done.returncode, done.stdout, done.stderr.replace(END_MARKER + "\n", ""), log)
    if check:
        what = f"--- stdout\n{run.stdout[-4000:]}\n--- stderr\n{run.stderr[-4000:]}\n--- console\n{log[-6000:]}"
        assert run.status == 0, f"exit status {run.status}\n{what}"
        assert marked, f"no end marker\n{what}"
        assert not run.trouble(), f"kernel log: {run.trouble()[:5]}\n{what}"
    return run


def report(text):
    """The JSON object that `jifl count -f json` printed, by system call name."""
    data = json.loads(text)
    data["by_name"] = {target["syscall"]: target for target in data["targets"]}
    return data


def compile_program(name, *flags):
    """Builds tests/vm/NAME.c statically into build/tests/vm; returns its path."""
    source = Path(__file__).parent / f"{name}.c"
    binary = PROGRAMS / name
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", "-static", "-Wall", "-o", binary, source, *flags], check=True)
    return binary
