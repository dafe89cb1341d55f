# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small build, without instrumentation and with it, on a machine with the properties that the
matrix gives.

usage: matrix.py PREEMPT MITIGATION
"""

import shutil
import time
from pathlib import Path

from lib import check, figure, is_loaded, main, report, run, same, status

WORK = Path("/tmp/matrix")
MAKEFILE = """\
all: sum parts
%.o: %.c
\t@echo compiling $<; printf 'int %s(void) { return %d; }\\n' $* $(words $^) | cksum > $@
sum: one.o two.o three.o
\t@cat $^ | tee $@; ls -l $@ | cut -d' ' -f 1,5
parts: sum
\t@for i in 1 2 3 4 5 6; do (seq $$i 500 | sort -rn | tail -n $$i) & wait; done > $@; tar -cf - parts sum | wc -c
\t@sh -c 'kill -USR1 $$$$'; echo status $$?
"""

# What /proc says of the mitigation, by its name in cells.py. One word that no
# other value has is enough.
SHOWN = {
    "off": ("spectre_v2", "Vulnerable"),
    "retpoline": ("spectre_v2", "Retpolines"),
    "stuffing": ("retbleed", "Stuffing"),
    "unret": ("retbleed", "untrained return thunk"),
}


def the_machine_is_as_said(preempt, mitigation):
    modes = Path("/sys/kernel/debug/sched/preempt").read_text()
    check(f"the kernel is one of preempt={preempt}", f"({preempt})" in modes, modes)
    if mitigation in SHOWN:
        name, word = SHOWN[mitigation]
        said = Path(f"/sys/devices/system/cpu/vulnerabilities/{name}").read_text()
        check(f"{name} is mitigated as said", word in said, said)
        figure(name, said.strip())


def build(*before):
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    for part in ("one", "two", "three"):
        (WORK / f"{part}.c").write_text(f"int {part};\n" * 100)
    (WORK / "Makefile").write_text(MAKEFILE)
    start = time.monotonic()
    end = run(*before, "make", "-j3", "-O", cwd=WORK)
    return end, time.monotonic() - start


def functions():
    """Of calls whatever the mitigation makes of them; not through what stands between."""
    end = run("jifl", "trace", "sys:getppid", "--", "sh", "-c", ":")
    entered = [line.strip() for line in end.stdout.splitlines() if line.startswith("  ")]
    check("functions are entered where they begin", "__task_pid_nr_ns" in entered and
          not any("__pfx_" in name for name in entered), end)


def program(preempt, mitigation):
    the_machine_is_as_said(preempt, mitigation)
    native, native_time = build()
    check("the build works natively", native.returncode == 0 and len(native.stdout) > 100, native)
    counted, counted_time = build("jifl", "count", "insn", "sys:*", "-f", "json", "-o", "/tmp/report.json", "--")
    figure("build", f"{native_time:.1f} s, instrumented {counted_time:.1f} s")
    same("exit status", counted.returncode, native.returncode)
    same("standard error", counted.stderr, native.stderr)
    same("output", sorted(counted.stdout.splitlines()), sorted(native.stdout.splitlines()))
    data = report(Path("/tmp/report.json").read_text())
    for call in ("execve", "openat", "read", "write", "mmap", "wait4", "exit_group"):
        target = data["by_name"].get(call, {"calls": 0})
        check(f"{call} was counted", target["calls"] and 0 < target["min"] <= target["max"], target)
    functions()
    same("no session and no block is left", (status()["sessions"], status()["blocks"]), ([], 0))
    figure("native exits", data["native_exits"])
    end = run("jifl", "unload", "jifl")
    check("the module unloads", end.returncode == 0 and not is_loaded(), end)


main(program)
