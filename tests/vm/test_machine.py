# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl vm` itself: what it returns, and how it ends when the guest does not end well."""

import os
import signal
import subprocess
import time

import pytest

from harness import JIFL, KERNELS, ROOT, build_module, built_for, vm

BARE = {"module": False, "check": False}


@pytest.mark.parametrize("kernel, options",
                         [(kernel, []) for kernel in KERNELS] + [(KERNELS[-1], ["--kaslr"])])
def test_output_and_status_are_the_commands(kernel, options):
    # With two, QEMU may die at boot and is started again, which stderr says.
    run = vm('uname -r; pwd; echo to-stderr >&2; (exit 7)', kernel, smp=1, options=options, **BARE)
    assert run.status == 7, run.shown()
    assert run.stdout.splitlines()[0].startswith(kernel + "."), run.shown()
    assert run.stdout.splitlines()[1] == str(ROOT)
    assert run.stderr == "to-stderr\n"


def test_streams_are_whole():
    """Input reaches the command, and a lot of output arrives before the status does."""
    lines = "".join(f"{number}\n" for number in range(300_000))
    done = subprocess.run([JIFL, "vm", "--no-module", "--", "sh", "-c", "wc -l; seq 200000; exit 123"],
                          input=lines, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 123
    assert "itself ended with status 123" in done.stderr
    assert done.stdout == "300000\n" + "".join(f"{n}\n" for n in range(1, 200_001))


def test_writes_stay_inside_but_where_allowed(tmp_path):
    outside = ROOT / "build/written-in-a-guest"
    run = vm(f"echo kept > {tmp_path}/file && echo gone > {outside} && cat {outside}",
             module=False, rw=tmp_path)
    assert run.stdout == "gone\n"
    assert (tmp_path / "file").read_text() == "kept\n"
    assert not outside.exists()


def test_panic():
    # What it printed has to come here first.
    run = vm("echo before; sleep 5; echo c > /proc/sysrq-trigger; sleep 60", **BARE)
    assert run.status == 123, run.shown()
    assert run.stdout == "before\n"
    assert "the guest panicked" in run.stderr and "sysrq triggered crash" in run.stderr
    assert "Kernel panic" in run.console


def test_breakpoint_that_only_the_emulator_has():
    """A kernel's log shows it by its dumps; the machine is run again, once."""
    log = ["CPU: 0 PID: 93 Comm: bash", "RIP: 0010:asm_exc_int3+0x0/0x40", "Code: 00 00 <0f> 01 ca",
           "RIP: 0010:__schedule+0x1bd/0xa00", "Code: 00 {} <1f> 44 00 00"]
    script = "; ".join(f"echo '<3>{line}' > /dev/kmsg" for line in log)
    run = vm(script.format("cc"), **BARE)
    assert run.status == 0, run.shown()
    with pytest.warns(UserWarning, match="the emulator failed"):
        run = vm(f"{script.format('0f')}; sleep 1000", **BARE)
    assert run.status == 121, run.shown()
    assert "breakpoint at __schedule+0x1bd/0xa00" in run.stderr, run.shown()


@pytest.mark.parametrize("kernel", KERNELS)
def test_breakpoint_that_only_the_emulator_has_is_dropped(kernel):
    """The module goes on until QEMU fails; then only the host can end the loop that a CPU is in."""
    module = built_for(build_module("modules/stale.c"), kernel) / "stale.ko"
    with pytest.warns(UserWarning, match="breakpoint at 0x[0-9a-f]+ that the kernel had removed"):
        run = vm("for i in 1 2; do taskset -c 0 sh -c 'echo 1000000 > /proc/jifl_stale' || exit; done; nproc",
                 kernel, smp=2, options=["--module", module], **BARE)
    assert run.status == 0 and run.ended, run.shown()
    assert run.stdout == "2\n", run.shown()


def test_hang():
    began = time.monotonic()
    run = vm("sleep 1000", timeout=2, **BARE)
    assert run.status == 124, run.shown()
    assert "stopped after 2 s" in run.stderr
    assert time.monotonic() - began < 240


def test_failed_boot():
    run = vm("true", options=["--module", "Makefile"], **BARE)
    assert run.status == 125, run.shown()
    assert "inserting" in run.stderr and "Makefile" in run.stderr


def test_warning_fails_a_strict_run():
    """A forged line does: the console is all that is looked at."""
    run = vm("echo '<4>WARNING: CPU: 0 PID: 1 at forged' > /dev/kmsg", options=["--strict"], **BARE)
    assert run.status == 122, run.shown()
    assert "not clean" in run.stderr and "forged" in run.stderr


def test_nothing_is_left_of_a_killed_run():
    marker = "left-behind-marker"
    with subprocess.Popen([JIFL, "vm", "--no-module", "--append", marker, "--", "sleep", "600"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as command:
        deadline = time.monotonic() + 60
        while not machines(marker) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert machines(marker)
        command.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while machines(marker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not machines(marker)


def test_emulator_that_aborts_at_boot_is_started_again():
    """SIGABRT is what an assertion in QEMU ends it with."""
    marker = "aborted-at-boot-marker"
    with subprocess.Popen([JIFL, "vm", "--no-module", "--smp", "1", "--append", marker, "--", "echo", "up"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as command:
        deadline = time.monotonic() + 60
        while not machines(marker) and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid in machines(marker):
            os.kill(pid, signal.SIGABRT)
        stdout, stderr = command.communicate(timeout=300)
    assert command.returncode == 0, stderr
    assert stdout == "up\n"
    assert stderr.count("starting again") == 1, stderr


def machines(marker):
    """Processes of QEMU with the marker on their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(b"qemu-system") and any(marker.encode() in word for word in words):
            found.append(int(pid))
    return found


@pytest.mark.parametrize("arguments, status, hint", [
    (["--kernel", "5.10", "--", "true"], 3, "make setup"),
    (["--kernel", "/proc/version", "--", "true"], 3, "no Linux kernel"),
    (["--icount", "--smp", "2", "--no-module", "--", "true"], 2, "one CPU"),
    (["--no-module"], 2, "CMD"),
])
def test_what_cannot_be_is_said_in_one_line(arguments, status, hint):
    done = subprocess.run([JIFL, "vm", *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status
    assert hint in done.stderr
