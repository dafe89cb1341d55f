# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records, makes numbered system calls on each processor, and ends the machine.

usage: flight_ends.py HOW [MEMORY]
       flight_ends.py HOW CRASH_KERNEL INIT

HOW is a letter of sysrq: c crashes, b resets; or a command for the module trouble; or the path of a
file that is made when the machine may be ended from outside. With MEMORY, what another boot has left
there is shown as ndjson instead, and forgotten, if there is anything. With CRASH_KERNEL, a bzImage,
that one is started by the panic, and its INIT shows what it finds.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import crash_kernel

# What the crash kernel's console can take in some seconds.
EXTRACT = b"flight extract /proc/vmcore -f ndjson -e sys_enter,log --last 100ms"

WRITER = """
import ctypes, os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
pwrite = ctypes.CDLL(None).pwrite64
file = os.open("/dev/null", os.O_WRONLY)
place = 0
print("begun", flush=True)
while True:
    pwrite(file, b"", ctypes.c_size_t(0), ctypes.c_long(place))
    place += 1
"""


def last(memory):
    """Shows what another boot has left. Whether there was anything."""
    end = subprocess.run(["jifl", "flight", "last", "--memory", memory, "-f", "ndjson"], capture_output=True, text=True, check=False)
    if end.returncode:
        print(end.stderr, file=sys.stderr)
        return False
    print(end.stdout, end="")
    print(end.stderr, end="", file=sys.stderr)
    again = ["jifl", "flight", "start", "--keep", "--memory", memory]
    refused = subprocess.run(again, capture_output=True, text=True, check=False)
    assert refused.returncode and "another boot" in refused.stderr, refused
    subprocess.run(["jifl", "flight", "last", "--memory", memory, "--forget"], check=True)
    subprocess.run(again, check=True)
    subprocess.run(["jifl", "flight", "stop"], check=True)
    return True


def panic_at_more():
    """Has the kernel panic where it would go on: at tasks that hang for a second, and NMIs that nobody knows."""
    for name in ("hung_task_timeout_secs", "hung_task_panic", "unknown_nmi_panic"):
        Path("/proc/sys/kernel", name).write_text("1")


def end(how):
    """Ends the machine, or waits for that."""
    panic_at_more()
    if "/" not in how:
        Path("/proc/sysrq-trigger" if len(how) == 1 else "/proc/trouble").write_text(how)
        return
    Path(how).touch()
    while True:
        signal.pause()


def main(how, *more):
    memory = more[0] if len(more) == 1 else None
    if memory and last(memory):
        return
    if len(more) == 2:
        image, init = more
        crash_kernel.load(image, {b"init": init, b"program": shutil.which("jifl")}, EXTRACT)
    subprocess.run(["jifl", "flight", "start", "--keep", "--size", "1M", *(["--memory", memory] if memory else [])], check=True)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(cpu)], stdout=subprocess.PIPE) for cpu in range(os.cpu_count())]
    for writer in writers:
        assert writer.stdout.readline(), "a writer did not begin"
    time.sleep(2)
    end(how)


if __name__ == "__main__":
    main(*sys.argv[1:])
