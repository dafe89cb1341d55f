# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl search` on machines of which it is known what is slow: the module jifl_slow
(modules/jifl_slow.c), and programs that do one thing.

usage: search.py [NAME...]    some of the bottlenecks, by their names, or healthy; without: all

For each the finding has to name the hypothesis, the function and the call site. The inserted code
has to cost less than the budget.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from lib import check, figure, main, run, same, wait_for

MODULE = Path(os.environ["JIFL_ROOT"], "build/modules", os.uname().release, "jifl_slow.ko")
SLOW = Path("/proc/jifl_slow")
# The host may do much else meanwhile: the search has more time than a user would give it.
PATIENCE = "300s"


@contextmanager
def programs(*lines):
    """Programs that run meanwhile."""
    all_of_them = [subprocess.Popen([str(word) for word in line], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, start_new_session=True) for line in lines]
    try:
        time.sleep(2)
        yield all_of_them
    finally:
        for one in all_of_them:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def reading(name, number=1):
    """So many programs that read a file of the module all the time."""
    return programs(*[["dd", f"if={SLOW / name}", "of=/dev/null", "bs=1"]] * number)


def python(text, number=1):
    return programs(*[[sys.executable, "-c", text]] * number)


@contextmanager
def setting(name, value):
    (SLOW / name).write_text(str(value))
    try:
        time.sleep(2)
        yield
    finally:
        (SLOW / name).write_text("0")


def forking():
    return programs(["sh", "-c", "while :; do /bin/true; done"])


def faulting():
    return python("import mmap\nwhile True:\n m = mmap.mmap(-1, 16 << 20)\n m.write(b'x' * (16 << 20))\n m.close()\n")


def full_socket(pause):
    """One program writes as fast as it can to another that reads a little now and then."""
    return python("import socket, os, time\n"
                  "a, b = socket.socketpair()\n"
                  "if os.fork():\n"
                  " while True: a.sendall(b'x' * 65536)\n"
                  f"while True:\n b.recv(1024)\n time.sleep({pause})\n")


def retrying():
    return python("import ctypes, os\n"
                  f"fd = os.open('{SLOW / 'again'}', os.O_RDONLY)\n"
                  "libc, space = ctypes.CDLL(None), ctypes.create_string_buffer(1)\n"
                  "while True: libc.read(fd, space, 1)\n")


def hot_directory():
    folder = tempfile.mkdtemp(dir="/dev/shm")
    for number in range(20_000):
        os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY))
    # The position is set back, so that nothing but reading the directory is done again and again.
    return python("import ctypes, os\n"
                  f"fd = os.open({folder!r}, os.O_RDONLY)\n"
                  "libc, space = ctypes.CDLL(None), ctypes.create_string_buffer(1 << 20)\n"
                  "while True:\n"
                  " os.lseek(fd, 0, 0)\n"
                  " while libc.syscall(217, fd, space, len(space)) > 0: pass\n")


@contextmanager
def device():
    """A block device that takes 5 ms for each request."""
    end = run("modprobe", "null_blk", "memory_backed=1", "irqmode=2", "completion_nsec=5000000", "gb=1", "nr_devices=1")
    same("the block device comes", end.returncode, 0)
    try:
        wait_for("the device", Path("/dev/nullb0").exists)
        yield "/dev/nullb0"
    finally:
        run("modprobe", "-r", "null_blk")


@contextmanager
def slow_disk():
    with device() as path, programs(*[["sh", "-c", f"while :; do dd if={path} of=/dev/null bs=4k iflag=direct; done"]] * 2):
        yield


@contextmanager
def syncing():
    with device() as path, tempfile.TemporaryDirectory() as mount:
        run("modprobe", "-a", "ext4")
        for command in (("mkfs.ext4", "-q", "-E", "lazy_itable_init=1", path, "64M"), ("mount", path, mount)):
            end = run(*command)
            same(f"{command[0]}: exit status", (end.returncode, end.stderr), (0, ""))
        try:
            with python(f"import os\nfd = os.open('{mount}/journal.db', os.O_CREAT | os.O_WRONLY)\n"
                        "while True: os.pwrite(fd, b'x' * 512, 0); os.fsync(fd)\n"):
                yield
        finally:
            run("umount", mount)


# By name: what makes it; the hypothesis; the function; the call site; what its calls are about.
BOTTLENECKS = {
    "lock": (lambda: reading("lock", 4), "locks", r"slow_update_table \[jifl_slow\]", r"slow_update_table\+0x", "slow_mutex"),
    "reads": (lambda: programs(["dd", "if=/dev/zero", "of=/dev/null", "bs=1"]), "calls", "vfs_(read|write)", r"ksys_(read|write)\+0x", ""),
    "retries": (retrying, "retries", "vfs_read", "", "EAGAIN"),
    "walk": (lambda: reading("walk"), "cpu", r"slow_find_item \[jifl_slow\]", r"slow_read_walk\+0x", "walk"),
    "driver": (lambda: reading("spin"), "cpu", r"slow_poll_register \[jifl_slow\]", r"slow_read_spin\+0x", "spin"),
    "thread": (lambda: setting("thread", 1), "kthread", r"slow_scan_memory \[jifl_slow\]", r"slow_scan_all\+0x", ""),
    "interrupts": (lambda: setting("timer", 500), "interrupts", r"slow_handle_interrupt \[jifl_slow\]",
                   r"slow_timer_fires\+0x", ""),
    "forks": (forking, "forks", ".", r"\+0x", ""),
    "faults": (faulting, "faults", ".", r"\+0x", ""),
    # The writer sleeps for some 0.3 s, and for longer than any measurement.
    "socket": (lambda: full_socket(0.01), "network", "unix_stream_sendmsg|sock_alloc_send", r"unix_stream_sendmsg\+0x", ""),
    "peer": (lambda: full_socket(0.3), "network", "unix_stream_sendmsg|sock_alloc_send", r"unix_stream_sendmsg\+0x", ""),
    "disk": (slow_disk, "disk", "blkdev|iomap|direct", r"\+0x", "nullb0"),
    "fsync": (syncing, "sync", "fsync|jbd2|ext4|write_and_wait", r"\+0x", ""),
    "directory": (hot_directory, "cpu", "dcache_readdir|readdir|scan_positives|next_positive|filldir64", r"\+0x", ""),
}


def search(name, *arguments):
    """What a search says, as an object; its exit status is 0."""
    began = time.monotonic()
    end = run("jifl", "search", "--for", PATIENCE, "-f", "json", *arguments)
    took = time.monotonic() - began
    # A host that is busy with other machines may not give it the time for all of it.
    if not check(f"{name}: exit status", end.returncode in (0, 4), (end.returncode, end.stderr)):
        return None
    found = json.loads(end.stdout)
    figure(f"{name}: {found['sentence'][:300]}; cost {100 * found['cost']:.2f} %; {took:.1f} s", "")
    check(f"{name}: within the budget", found["cost"] <= found["budget"], found)
    return found


def bottleneck(name):
    """A planted one is named."""
    makes, hypothesis, function, site, about = BOTTLENECKS[name]
    with makes():
        found = search(name)
    if found is None:
        return
    finding = found["finding"] or {}
    said = json.dumps(found)
    same(f"{name}: the hypothesis", finding.get("hypothesis"), hypothesis)
    check(f"{name}: the function", re.search(function, finding.get("function") or ""), said)
    check(f"{name}: the call site", re.search(site, finding.get("site") or ""), said)
    check(f"{name}: what its calls are about", about in said, said)


def healthy():
    """A machine that does a little, and waits for nothing but time and requests."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()

    def answer():
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(100))

    threading.Thread(target=answer, daemon=True).start()
    port = server.getsockname()[1]
    client = ("import socket, time\n"
              "while True:\n"
              f" with socket.create_connection(('127.0.0.1', {port})) as s: s.sendall(b'x'); s.recv(100)\n"
              " open('/etc/hostname').read()\n time.sleep(0.3)\n")
    with python(client):
        found = search("healthy")
    if found:
        same("healthy: no finding", found["finding"], None)
        check("healthy: it says so", found["sentence"].startswith("no bottleneck: "), found["sentence"])
        verdicts = {test["name"]: test["verdict"] for test in found["tests"]}
        check("healthy: nothing is true", "true" not in verdicts.values(), found)
        check("healthy: waiting was looked at", verdicts["locks"] == verdicts["disk"] == "false", found)


def of_a_command():
    """About a command: others do not count, and its exit status is given on."""
    report = Path("/tmp/of_a_command.json")
    # The report is written when the search is over, and the command runs on until it sees that.
    command = (f"dd if={SLOW / 'walk'} of=/dev/null bs=1 2> /dev/null & "
               f"while [ ! -s {report} ]; do sleep 0.3; done; kill $!; exit 7")
    with reading("lock", 4):
        end = run("jifl", "search", "--for", PATIENCE, "-f", "json", "-o", report, "--", "sh", "-c", command)
    same("a command: its exit status", end.returncode, 7)
    found = json.loads(report.read_text())
    same("a command: the hypothesis", (found["finding"] or {}).get("hypothesis"), "cpu")
    verdicts = {test["name"]: (test["verdict"], test["why"]) for test in found["tests"]}
    same("a command: others wait for locks", verdicts["locks"][0], "false")
    same("a command: interrupts", verdicts["interrupts"], ("not tested", "interrupts are of no process"))


def refusals():
    """One line, and the way out."""
    for arguments, status, words in (
            (["--threshold", "lock=1"], 2, "one of cpu, kthread"),
            (["--threshold", "locks=0"], 2, "give NAME=NUMBER"),
            (["--budget", "0"], 2, "above 0 and at most 100"),
            (["-p", "99999999"], 1, "no process 99999999"),
            (["--", "/no/such"], 127, "/no/such"),
    ):
        end = run("jifl", "search", *arguments)
        same(f"refused {arguments}: exit status", end.returncode, status)
        check(f"refused {arguments}: one line", words in end.stderr and end.stderr.count("\n") == 1, end.stderr)
    end = run("jifl", "search", "--for", "300ms")
    same("no time: exit status", end.returncode, 4)
    check("no time: it says so", "not tested" in end.stdout and "the time was up" in end.stdout, end.stdout)


def text():
    """What people read has the tree, the finding and the cost."""
    with reading("lock", 4):
        end = run("jifl", "search", "--for", PATIENCE)
    for pattern in (r"^cpu +(true|false) ", r"^locks +true .* tasks, threshold 0\.30$", r"^  slow_update_table \[jifl_slow\] +true ",
                    r"\| at slow_update_table\+0x", r"^finding: locks: .* ruled out: ", r"^# cost: \d\.\d\d % .* budget 2\.00 %"):
        check(f"text: {pattern}", re.search(pattern, end.stdout, re.M), end.stdout)


@main
def search_all(*names):
    same("jifl_slow is loaded", run("insmod", MODULE).returncode, 0)
    others = {"healthy": healthy, "command": of_a_command, "refusals": refusals, "text": text}
    for name in names or (*others, *BOTTLENECKS):
        others.get(name, lambda name=name: bottleneck(name))()
    sessions = json.loads(run("jifl", "status", "-f", "json").stdout)["sessions"]
    same("no session is left", sessions, [])
    same("jifl_slow goes", run("rmmod", "jifl_slow").returncode, 0)
