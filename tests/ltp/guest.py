# SPDX-License-Identifier: MIT OR Apache-2.0
"""In the throwaway machine: runs test programs one after another, natively or counted.

usage: guest.py JOB

JOB is a file of JSON that tests/ltp/run writes. Each test program runs in a directory of its own on
an ext4 file system. With "counted" it runs under `jifl count block 'sys:*'`. Prints JSON, one
object a line: the name when a test begins, its results when it has ended.
"""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRATCH = Path("/scratch")
OUTPUT = Path("/run/ltp-output")
REPORT = Path("/run/ltp-report")
# Of one test's output and log.
SHOWN_BYTES = 20000
SHOWN_LINES = 300
# A session of a killed program ends in this time.
PATIENCE = 120


def make_scratch():
    """Mounts the file system that the tests write to."""
    subprocess.run(["modprobe", "-a", "loop", "ext4"], check=True)
    SCRATCH.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1700M", "image", SCRATCH], check=True)
    image = SCRATCH / "image"
    with image.open("wb") as file:
        file.truncate(1600 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop,discard", image, SCRATCH], check=True)
    SCRATCH.chmod(0o755)


class Log:
    """The kernel's log from now on."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        """What came since the last time."""
        found = []
        while True:
            try:
                record = os.read(self.fd, 8192).decode(errors="replace")
            except BlockingIOError:
                return found[:SHOWN_LINES]
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                found.append("(lines of the log were lost)")
                continue
            found.append(record.partition(";")[2].partition("\n")[0])


def processes():
    """Process ids of all that is not the kernel's own."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if parent != "2":
            found.add(int(name))
    return found


def kill(pids):
    """Kills them."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def kill_new(before, spared):
    """Kills processes that were not there before, and those that come meanwhile, but for one."""
    for _ in range(20):
        left = processes() - before - {spared}
        if not left:
            return
        kill(left)
        time.sleep(0.1)


def calls_of(report):
    """Calls that `jifl count` counted, and missed."""
    try:
        targets = json.loads(report.read_text())["targets"]
    except (OSError, ValueError, KeyError):
        return None, None
    return sum(target["calls"] for target in targets), sum(target["missed"] for target in targets)


def run_test(test, job, log):
    """Runs one test; returns its results."""
    before = processes()
    scratch = Path(tempfile.mkdtemp(dir=SCRATCH))
    scratch.chmod(0o777)
    command = ["/bin/sh", "-c", test["command"]]
    REPORT.unlink(missing_ok=True)
    if job["counted"]:
        command = [job["jifl"], "count", "block", "sys:*", "-f", "json", "-o", str(REPORT), "--", *command]
    environment = {**os.environ, **job["environment"], "PATH": f"{job['path']}:{os.environ['PATH']}:/usr/sbin:/sbin",
                   "TMPDIR": str(scratch)}
    start = time.monotonic()
    with OUTPUT.open("wb") as output:
        process = subprocess.Popen(command, cwd=test["directory"] or scratch, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    status = None
    try:
        status = process.wait(job["limit"])
    except subprocess.TimeoutExpired:
        kill_new(before, process.pid)
        if not job["counted"]:
            process.kill()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = "hangs"
            process.kill()
    seconds = time.monotonic() - start
    kill_new(before, None)
    calls, missed = calls_of(REPORT)
    output = OUTPUT.read_text(errors="replace")
    clean(scratch)
    if isinstance(status, int) and status < 0:
        status = 128 - status
    return {"status": "limit" if status is None else status, "seconds": seconds, "calls": calls, "missed": missed,
            "output": output[-SHOWN_BYTES:], "log": log.lines()}


def clean(scratch):
    """Removes what a test left, below its mounts."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in reversed(mounts):
        if mount.startswith(f"{scratch}/"):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    shutil.rmtree(scratch, ignore_errors=True)


def say(**what):
    print(json.dumps(what), flush=True)


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    job["jifl"] = shutil.which("jifl")
    make_scratch()
    log = Log()
    start = time.monotonic()
    for test in job["tests"]:
        if time.monotonic() - start > job["budget"]:
            break
        say(begins=test["name"])
        Path("/dev/kmsg").write_text(f"<6>test {test['name']} begins\n")
        say(name=test["name"], **run_test(test, job, log))
    say(ended=True)


main()
