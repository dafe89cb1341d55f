# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processes wait where a walk of their stack leaves frames out (modules/jifl_guess.c), while sessions
end, and begin.

usage: unwalked.py; or unwalked.py wait, by itself: waits in a write until a line comes, and says what
it returned
"""

import ctypes
import mmap
import os
import struct
import sys
from fcntl import ioctl
from pathlib import Path

from lib import background, check, complaints, interrupt, kernel_log, log_mark, main, report, run, same, session, status, wait_for

MODULE = Path(os.environ["JIFL_ROOT"], "build/modules", os.uname().release, "jifl_guess.ko")
FILE = "/proc/jifl_guess"
SAID = "a stack cannot be walked to its end"
# Of linux/userfaultfd.h.
USERFAULTFD, API, UFFDIO_API, UFFDIO_REGISTER, UFFDIO_ZEROPAGE = 323, 0xAA, 0xC018AA3F, 0xC020AA00, 0xC020AA04
MISSING = 1
PR_SET_THP_DISABLE = 41


def wait():
    """Writes what lies in a page that comes only then.

    Nobody else changes the process's memory then: the kernel mends no fault of code that it does not
    know while somebody does. So it has one thread, and another process gives the page.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    faults = libc.syscall(USERFAULTFD, os.O_CLOEXEC)
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ioctl(faults, UFFDIO_API, struct.pack("QQQ", API, 0, 0))
    ioctl(faults, UFFDIO_REGISTER, struct.pack("QQQQ", begin, mmap.PAGESIZE, MISSING, 0))
    file = os.open(FILE, os.O_WRONLY)
    giver = os.fork()
    if not giver:
        sys.stdin.readline()
        ioctl(faults, UFFDIO_ZEROPAGE, struct.pack("QQQq", begin, mmap.PAGESIZE, 0, 0))
        os._exit(0)
    print("waits", flush=True)
    print(os.write(file, page), flush=True)
    os.waitpid(giver, 0)


def waiting():
    """The process, when it waits."""
    process = background(sys.executable, "-B", __file__, "wait", stdin=-1)
    same("it begins", process.stdout.readline(), "waits\n")
    stack = Path(f"/proc/{process.pid}/stack")
    wait_for("the process waits", lambda: "handle_userfault" in stack.read_text())
    return process


def goes_on(what, process):
    out, err = process.communicate("go\n", timeout=60)
    same(f"{what}: the write returns", (process.returncode, out.split(), err), (0, ["1"], ""))


def cut(*targets):
    """The session that made the copies ends, and the copies are freed."""
    what = f"{' '.join(targets)}, asleep"
    owner = session("insn", *targets, "-f", "json")
    process = waiting()
    data = report(interrupt(owner)[0])
    check(f"{what}: the call did not end", data["missed"], data)
    same(f"{what}: nothing is left in the cache", status()["blocks"], 0)
    goes_on(what, process)


def left(target, wanted):
    """A session does not take over a process of which it does not see all frames."""
    process = waiting()
    owner = session("block", target, "-f", "json")
    data = report(interrupt(owner)[0])
    same(f"{target}: adopted, left", (data["adoption"]["tasks"], data["adoption"]["left"]), (0, wanted))
    goes_on(f"{target}: left", process)


def program():
    mark = log_mark()
    same("the module is loaded", run("insmod", MODULE).returncode, 0)
    goes_on("natively", waiting())
    cut("fn:guess_inner")
    cut("fn:guess_inner", "--only")
    cut("sys:write")
    left("fn:guess_write", {"stack": 1})
    # What the module is for: this frame is not found.
    left("fn:guess_inner", {})
    lines = complaints(kernel_log(mark))
    check("it is said that a stack was not walked", any(SAID in line for line in lines), lines)
    same("and nothing else", [line for line in lines if SAID not in line], [])
    same("no session is left", status()["sessions"], [])
    same("the module goes", run("rmmod", "jifl_guess").returncode, 0)


if sys.argv[1:] == ["wait"]:
    wait()
else:
    main(program)
