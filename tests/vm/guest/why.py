# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `jifl why` says about calls whose cause is known, from the source of kernels 6.1 and 6.12.

usage: why.py [VMLINUX]

VMLINUX: the running kernel's, with debug information. Without it there are no source lines.

The calls are those of a program that first takes a name of its own. The name tells them from the
calls that the program's interpreter makes.
"""

import ctypes
import errno
import json
import os
import re
import resource
import sys
from collections import namedtuple
from pathlib import Path

from lib import DD, check, figure, main, module_file, run, same

HERE = "/run/why"
NAME = "failing"
AT_FDCWD = -100
NUMBERS = {"read": 0, "write": 1, "close": 3, "lseek": 8, "mmap": 9, "ioctl": 16, "dup": 32, "getpid": 39, "kill": 62, "rmdir": 84,
           "setuid": 105, "lookup_dcookie": 212, "openat": 257, "dup3": 292, "pipe2": 293, "renameat2": 316}
# Calls that `often` makes. A ring holds the records of all, however late they are taken.
OFTEN = 2000
NEW = os.uname().release.split(".")[:2] != ["6", "1"]
# Functions have other names there, and flags of directory entries other bits.
SEVEN = os.uname().release.startswith("7.")
# Where file descriptors are looked up, and calls are made of what they are.
READ, OPEN = "fs/read_write.c", "fs/namei.c"

# error: that the call returns; function: in which it was decided; asks: the deciding instructions,
# where they tell the cause; file, inlined: where that is, and the inlined function, with debug
# information; fixup: of an exception, the name of where the kernel's fixup sets the error; empty:
# that is not known.
Case = namedtuple("Case", "call error function asks file inlined fixup")


def case(call, error, function, asks="", file=None, inlined=None, fixup=None):
    return Case(call, error, function, asks, file, inlined, fixup)


def cases(r, w, file, known):
    """Each call fails for one reason.

    r, w: ends of a pipe; file: a file of tmpfs, known: that of modules/jifl_known.c, open.
    """
    step, link, kinds, directory = ("step_into_slowpath", "pick_link", "380000", "100000") if SEVEN else \
        ("step_into", "step_into", "700000", "200000")
    pid = "kill_pid_info_type" if NEW else "kill_pid_info"
    return [
        # A descriptor that is not open.
        case(("close", 99), "EBADF", "__x64_sys_close" if NEW else "close_fd", file="fs/open.c" if NEW else "fs/file.c"),
        case(("read", 99, 0, 1), "EBADF", "ksys_read", file=READ),
        # Names: the directory is not there, is none; the file is there, is a directory; too long;
        # round in a circle.
        case(("openat", AT_FDCWD, b"/run/why/missing/x", 0, 0), "ENOENT", step, rf"and \$0x{kinds},.*", OPEN, "traverse_mounts"),
        case(("openat", AT_FDCWD, b"/run/why/file/x", 0, 0), "ENOTDIR", "link_path_walk.*", rf"cmp \$0x{directory},.*", OPEN),
        case(("openat", AT_FDCWD, b"/run/why/file", os.O_CREAT | os.O_EXCL, 0o600), "EEXIST", "path_openat", file=OPEN,
             inlined="do_open"),
        case(("openat", AT_FDCWD, b"/run/why/dir", os.O_WRONLY, 0), "EISDIR", "may_open", r"test \$0x2,.*", OPEN),
        case(("openat", AT_FDCWD, b"/run/why/" + b"x" * 300, 0, 0), "ENAMETOOLONG", "simple_lookup", r"cmpl \$0xff,.*", "fs/libfs.c"),
        case(("openat", AT_FDCWD, b"/run/why/loop", 0, 0), "ELOOP", link, r"cmp \$0x27,.*", OPEN, "reserve_stack"),
        case(("rmdir", b"/run/why/full"), "ENOTEMPTY", "shmem_rmdir", file="mm/shmem.c"),
        # Flags: O_TMPFILE without a way to write, an unknown one, one file for two, a seek and a
        # rename with unknown ones.
        case(("openat", AT_FDCWD, b"/run/why/file", os.O_TMPFILE, 0o600), "EINVAL", "build_open_flags", r"test \$0x2,.*", "fs/open.c"),
        case(("pipe2", 0, 1), "EINVAL", "do_pipe2", "test .*", "fs/pipe.c", "__do_pipe_flags"),
        case(("dup3", 1, 1, 0), "EINVAL", "ksys_dup3", "cmp %.*,%.*", "fs/file.c"),
        case(("lseek", file, 0, 99), "EINVAL", "ksys_lseek", r"cmp \$0x4,.*", READ),
        case(("renameat2", AT_FDCWD, b"/a", AT_FDCWD, b"/b", 99), "EINVAL", "filename_renameat2" if SEVEN else "do_renameat2", r"cmp \$0x7,.*", OPEN),
        # Pointers: a read of a name, and of a number, that faults; one that the kernel does not
        # even try to write.
        case(("openat", AT_FDCWD, 1, 0, 0), "EFAULT", "strncpy_from_user", fixup=""),
        case(("ioctl", r, 0x5421, 8), "EFAULT", "__get_user_4", fixup="__get_user_handle_exception" if NEW else "bad_get_user"),
        case(("write", w, -4096, 1), "EFAULT", "vfs_write"),
        # Reads that fault in a module, which has them in a table of its own.
        case(("write", known, 8, 4), "EFAULT", "known_int", fixup="known_int"),
        case(("write", known, 8, 1), "EFAULT", "known_byte", fixup="known_byte"),
        # What is not done with such a file, or at once.
        case(("read", r, 0, 1), "EAGAIN", "anon_pipe_read" if SEVEN else "pipe_read", file="fs/pipe.c"),
        case(("lseek", r, 0, 0), "ESPIPE", "ksys_lseek", "testb .*", READ, "vfs_llseek"),
        case(("ioctl", r, 0x5401, 0), "ENOTTY", "__x64_sys_ioctl", r"cmp \$0xfffffdfd,.*", "fs/ioctl.c", "vfs_ioctl"),
        # No such process; no such call.
        case(("kill", 999999, 0), "ESRCH", pid, file="kernel/signal.c"),
        *([] if NEW else [case(("lookup_dcookie", 0, 0, 0), "ENOSYS", "")]),
        # More than there are addresses.
        case(("mmap", 0, 1 << 60, 0, 0x22, -1, 0), "ENOMEM", "__get_unmapped_area" if NEW else "get_unmapped_area", "cmp .*", "mm/mmap.c"),
    ]


def limited():
    """Under the limits that `fail` sets."""
    return [
        case(("dup", 1), "EMFILE", "alloc_fd", "cmp .*", "fs/file.c"),
        case(("mmap", 0, 1 << 30, 3, 0x22, -1, 0), "ENOMEM", "__mmap_region" if NEW else "mmap_region", "test %al,%al", "mm/mmap.c"),
    ]


def forbidden():
    """As nobody."""
    return [
        case(("openat", AT_FDCWD, b"/run/why/secret", 0, 0), "EACCES", "generic_permission", file=OPEN),
        case(("kill", 1, 9), "EPERM", "check_kill_permission", r"cmp \$0x12,.*", "kernel/signal.c"),
        case(("setuid", 0), "EPERM", "__sys_setuid", "cmp .*", "kernel/sys.c"),
    ]


def make(cases):
    """Makes the calls, and sees that they fail as they should."""
    libc = ctypes.CDLL(None, use_errno=True)
    for one in cases:
        name, *arguments = one.call
        ctypes.set_errno(0)
        libc.syscall(NUMBERS[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
        got = errno.errorcode.get(ctypes.get_errno())
        if got != one.error:
            sys.exit(f"{one.call} ended with {got}, not {one.error}")


def fail():
    """The program that is looked at."""
    r, w = os.pipe()
    os.set_blocking(r, False)
    file = os.open(f"{HERE}/file", os.O_RDWR)
    known = os.open("/proc/jifl_known", os.O_WRONLY)
    Path("/proc/self/comm").write_text(NAME)
    make(cases(r, w, file, known))
    full = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (known + 1, full[1]))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 29, -1))
    make(limited())
    resource.setrlimit(resource.RLIMIT_NOFILE, full)
    os.setresuid(65534, 65534, 65534)
    make(forbidden())


def program(what):
    return ["--", sys.executable, "-B", __file__, what]


def why(*arguments, command=("fail",), targets=None):
    targets = targets or [f"sys:{name}" for name in NUMBERS]
    return run("jifl", "why", *arguments, *targets, *program(*command))


def decided(group):
    """The function, and what it asked."""
    if group["decided"] is None:
        return group["origin"]["at"]["name"] if group["origin"]["kind"] == "fault" else "", ""
    branch = group["branches"][group["decided"]]
    return branch["at"]["name"], branch["compare"]


def causes(lines):
    """Each call's function, and with debug information its file."""
    end = why("-n", NAME, "--all", "-f", "ndjson", *lines)
    check("jifl why ends well", end.returncode == 0, end)
    groups = [json.loads(line) for line in end.stdout.splitlines()]
    expected = cases(0, 0, 0, 0) + limited() + forbidden()
    same("calls that failed", [(g["syscall"], g["errno"]) for g in groups], [(one.call[0], one.error) for one in expected])
    for one, group in zip(expected, groups):
        name, asks = decided(group)
        what = f"{one.call[0]} {one.error}"
        check(f"{what}: {one.function or 'nobody'} decided", re.fullmatch(one.function, name.split("+")[0].split(" ")[0])
              and re.fullmatch(one.asks or ".*", asks or ""), (name, asks, group["chain"], group["origin"]))
        check(f"{what}: the call leads there", group["chain"][0]["function"].startswith("__x64_sys_")
              and (not name or any(link["function"].split(" ")[0] == name.split("+")[0] for link in group["chain"])), group["chain"])
        check(f"{what}: branches are whole", all(b["taken"] is not None or b["text"].startswith(("cmov", "sbb", "set"))
              for b in group["branches"]), group["branches"])
        if one.fixup is not None:
            fixup = re.search(r"; the kernel's fixup set it, at (\w+)", group["origin"]["note"])
            same(f"{what}: where the fixup sets it", fixup[1] if fixup else "", one.fixup)
        if lines and group["decided"] is not None and one.file:
            at = group["branches"][group["decided"]]["at"]
            same(f"{what}: its file", at["file"], one.file)
            check(f"{what}: its line", at["line"] and (not one.inlined or at["inlined"][0] == one.inlined), at)
    byte = next(g["origin"] for g in groups if g["origin"]["at"]["name"].startswith("known_byte"))
    offsets = [int(offset, 16) for offset in re.findall(r"known_byte\+0x(\w+)", byte["at"]["name"] + byte["note"])]
    same("known_byte's fixup goes on where the instruction ends", [offset - offsets[0] for offset in offsets], [0, 2])
    check("what was not lost is said", re.search(r"^\d+ calls, \d+ failed; records lost 0, calls missed 0(?:; threads waited .*)?$", end.stderr, re.M), end.stderr)
    check("what is missing is said once", end.stderr.count("no source lines of the kernel") == (0 if lines else 1), end.stderr)
    figure("calls that failed, branches that they executed", f"{len(groups)}, {sum(len(g['branches']) for g in groups)}")
    return expected


def texts(lines, expected):
    """For people: alike ones once."""
    end = why("-n", NAME, *lines)
    heads = re.findall(r"^(\w+) = -(\w+) \(.*\)(?:, (\d+) times)?$", end.stdout, re.M)
    same("each is there", [head[:2] for head in heads], [(one.call[0], one.error) for one in expected])
    always = sum(not one.function for one in expected)
    faults = sum(one.fixup is not None for one in expected)
    same("each has a branch that decided", end.stdout.count("<-- decided here"), len(expected) - always - faults)
    same("some an exception", end.stdout.count("exception; "), faults)
    same("one is returned always", end.stdout.count("it is returned always"), always)
    end = why("-n", NAME, "-x", "EBADF", "sys:close", "--path", targets=["sys:read"])
    same("-x leaves out others, and the path is whole", re.findall(r"^\w+ = -\w+", end.stdout, re.M), ["close = -EBADF", "read = -EBADF"])
    check("it has all functions", "_raw_spin_lock" in end.stdout, end.stdout)
    end = why("-n", NAME, "-x", "1", targets=["sys:kill"])
    same("errors have numbers, too", re.findall(r"^\w+ = -\w+", end.stdout, re.M), ["kill = -EPERM"])


def alike():
    """Many calls that fail alike are one; none that fails is none."""
    end = why("-n", NAME, command=("often",), targets=["sys:close"])
    same("alike ones are counted", re.findall(r"^close = .*$", end.stdout, re.M), [f"close = -EBADF (Bad file descriptor), {OFTEN} times"])
    end = why("-n", NAME, command=("often",), targets=["sys:getpid"])
    same("no call failed", (end.returncode, end.stdout), (0, ""))
    check("which is said", re.search(r"^\d+ calls, none failed; ", end.stderr, re.M), end.stderr)
    # One call that succeeds comes first; what it executes depends on what is cached.
    end = why("-n", NAME, "--limit", "20000", command=("often",), targets=["sys:close"])
    shown = re.search(r"(\d+) failed; records lost 0, calls missed 0; (\d+) calls are not looked at, of which records came "
                      r"beyond --limit; (\d+) records beyond --limit are not kept", end.stderr)
    check("what there was no room for is said", shown and 0 < int(shown[1]) < OFTEN and int(shown[1]) + int(shown[2]) == OFTEN
          and int(shown[3]) > 5000, end.stderr)
    end = run("jifl", "why", "--no-wait", "sys:read", "sys:write", "--", *DD)
    shown = re.search(r"^(\d+) calls, none failed; records lost (\d+), calls missed 0(?:; (\d+) calls are not looked at, of which records "
                      r"were lost: .*)?$", end.stderr, re.M)
    check("calls of which records were lost are counted", shown and int(shown[1]) > int(shown[3] or 0)
          and (int(shown[2]) > 0) == (shown[3] is not None), end.stderr)
    end = why("-x", "ENONT")
    same("an unknown error", (end.returncode, end.stderr.count("\n"), "ENOENT" in end.stderr), (2, 1, True))


def null():
    """NULL is followed back as an error is, in functions that return pointers."""
    absent = "import contextlib, os\nwith contextlib.suppress(OSError):\n    os.getpgid(9999999)"
    end = run("jifl", "why", "-x", "null", "-f", "ndjson", "fn:find_task_by_vpid", "--", sys.executable, "-c", absent)
    group = json.loads(end.stdout.splitlines()[-1])
    same("NULL: of the function", (end.returncode, group["function"], group["errno"], group["number"]),
         (0, "find_task_by_vpid", "NULL", 0))
    check("NULL: a branch decided", decided(group)[0], group)
    check("NULL: it is said", re.search(r"^\d+ calls, \d+ returned NULL; ", end.stderr, re.M), end.stderr)
    for target, hint in (("fn:vfs_read", "it returns no pointer"), ("sys:read", "give functions only")):
        end = run("jifl", "why", "-x", "NULL", target, "--for", "100ms")
        check(f"NULL: {target} is refused", (end.returncode, end.stderr.count("\n")) == (2, 1) and hint in end.stderr, end)


def often():
    Path("/proc/self/comm").write_text(NAME)
    libc = ctypes.CDLL(None)
    for _ in range(OFTEN):
        libc.syscall(NUMBERS["close"], 99)
    for _ in range(10):
        libc.syscall(NUMBERS["getpid"])


def tests(vmlinux=None):
    os.makedirs(f"{HERE}/dir")
    os.makedirs(f"{HERE}/full/x")
    for name in ("file", "secret"):
        Path(f"{HERE}/{name}").write_text("x")
    os.chmod(f"{HERE}/secret", 0o600)
    os.symlink("loop", f"{HERE}/loop")
    lines = ["--vmlinux", vmlinux] if vmlinux else []
    same("jifl_known is loaded", run("insmod", Path(module_file()).parent / "jifl_known.ko").returncode, 0)
    texts(lines, causes(lines))
    same("jifl_known is unloaded", run("rmmod", "jifl_known").returncode, 0)
    alike()
    null()


if sys.argv[1:] == ["fail"]:
    fail()
elif sys.argv[1:] == ["often"]:
    often()
else:
    main(tests)
