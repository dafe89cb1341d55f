# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the examples of the pages (pages.py), one after the other, in one directory.

usage: examples.py FILE

FILE: a JSON list of commands. For each command the program prints a line `example JSON`: the
command, its output as on a terminal (output and error), its exit status and its seconds.
"""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from lib import (PATIENCE, SLOWNESS, Device, complaints, died, interrupt, is_loaded, main, run, same, session,
                 status, wait_for)

HERE = Path("/run/examples")
# Of a session: it has neither a CMD nor an end of its own, but Ctrl-C.
SECONDS = 2
# What the pages' sessions without a CMD look at: a server that reads, writes and fails, and what
# starts processes.
SERVER, SERVER_PID = "nginx", 1234    # as the pages have them
LOCKED = "/run/locked"
# The distribution's programs, which read no files of a language.
ENVIRONMENT = {**os.environ, "LC_ALL": "C", "PATH": f"/usr/bin:{os.environ['PATH']}"}


def serve():
    Path("/proc/self/comm").write_text(SERVER)
    while True:
        text = Path("/etc/hostname").read_text()
        Path("/dev/null").write_text(text)
        try:
            os.execv(LOCKED, [LOCKED])  # EACCES
        except OSError:
            time.sleep(0.05)


def start_processes():
    while True:
        if not os.fork():
            os._exit(0)
        os.wait()
        time.sleep(0.05)


def child(function):
    """A process that does this whenever it is let; its pid."""
    pid = os.fork()
    if not pid:
        # Whoever else ends meanwhile: a group with stopped processes may get SIGHUP then.
        os.setsid()
        os.kill(os.getpid(), signal.SIGSTOP)
        function()
    return pid


def start_machine_at_work():
    """Starts what the sessions are to see; the server's pid is the first."""
    Path(LOCKED).touch(mode=0o600)
    return [child(serve), child(start_processes)]


def tell(pids, number):
    for pid in pids:
        os.kill(pid, number)


def reload_module():
    if is_loaded():
        run("jifl", "unload", "jifl")
    same("the module is loaded anew", run("jifl", "load").returncode, 0)


def printed_by(command, interrupted=False):
    """(what it printed, exit status); interrupted: it is ended by Ctrl-C."""
    process = subprocess.Popen(["bash", "-c", f"exec {command}" if interrupted else command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               env=ENVIRONMENT)
    if interrupted:
        with Device() as device:
            wait_for("the session", lambda: device.sessions() or process.poll() is not None)
        time.sleep(SECONDS)
        process.send_signal(signal.SIGINT)
    try:
        printed = process.communicate(timeout=PATIENCE * SLOWNESS)[0]
        if process.returncode < 0 or process.returncode > 128:
            printed += "\n".join(died())
        return printed, process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0], f"none in {PATIENCE * SLOWNESS} s"


def example(command, pids):
    """Brings about what the command takes for granted, and runs it; pids: of what works."""
    command = command.replace("--for 10s", "--for 1s").replace(f"-p {SERVER_PID}", f"-p {pids[0]}")
    held = re.search(r"--session (\d+)", command)
    if held:
        # Sessions are numbered since the module was loaded.
        reload_module()
        held = [session("call", "sys:getppid") for _ in range(int(held[1]))]
        result = printed_by(command)
        for process in held:
            interrupt(process)
        return result
    if command == "jifl load":
        run("jifl", "unload", "jifl")
    if " -- " in command or not re.match(r"jifl (count|trace|why|cover|prof|branch|lock|mem|record|dump) ", command):
        return printed_by(command)
    tell(pids, signal.SIGCONT)
    result = printed_by(command, interrupted="--for" not in command)
    tell(pids, signal.SIGSTOP)
    return result


def program(file):
    pids = start_machine_at_work()
    HERE.mkdir()
    (HERE / "build").symlink_to(Path(os.environ["JIFL_ROOT"]) / "build")
    (HERE / "Makefile").write_text("all:\n\t@echo made\n")
    (HERE / "prog").write_text("#!/usr/bin/python3\nimport ctypes\nctypes.CDLL(None).syscall(321, 0, 0, 0)  # bpf\n")
    (HERE / "prog").chmod(0o755)
    commands = json.loads(Path(file).read_text())
    os.chdir(HERE)
    for command in commands:
        begin = time.monotonic()
        printed, code = example(command, pids)
        print("example", json.dumps([command, printed, code, round(time.monotonic() - begin, 1)]), flush=True)
    tell(pids, signal.SIGKILL)
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(), [])


main(program)
