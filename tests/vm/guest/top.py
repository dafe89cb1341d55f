# SPDX-License-Identifier: MIT OR Apache-2.0
"""jifl top on a terminal: what it shows, what keys do, how it ends.

usage: top.py

The terminal is one of tmux. Four processes are blocked in pipe_read all the time, so there are four
inside, however busy the machine is.
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from lib import PIPE_READ, check, complaints, kernel_log, log_mark, main, run, same, state_of, status, wait_for

HERE = Path("/run/top")
ENVIRONMENT = {**os.environ, "TMUX_TMPDIR": str(HERE), "LC_ALL": "C.UTF-8", "TERM": "screen"}
READERS = 4


class Screen:
    """`jifl top` in a terminal of 80 x 24, of a server of its own."""

    servers = 0

    def __init__(self, *words, host=""):
        Screen.servers += 1
        self.server = ["tmux", "-u", "-L", f"server-{Screen.servers}"]
        (HERE / "end").unlink(missing_ok=True)
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", f"jifl {host} top {' '.join(words)}; echo $? >end")

    def run(self, *words):
        return subprocess.run([*self.server, *words], env=ENVIRONMENT, cwd=HERE, capture_output=True, text=True, check=False)

    def tmux(self, *words):
        end = self.run(*words)
        check(f"tmux {words[0]}", end.returncode == 0, end)

    def lines(self):
        """What it shows; nothing when it has ended."""
        return self.run("capture-pane", "-p").stdout.splitlines()

    def shows(self, what, pattern):
        """Waits until a line matches; that match."""
        found = []

        def look():
            found[:] = [match for match in map(re.compile(pattern).search, self.lines()) if match]
            return found

        try:
            wait_for(what, look, timeout=120)
        except BaseException:
            check(what, False, "\n".join(self.lines()))
            raise
        check(what, True)
        return found[0]

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def ends(self, name, want=0):
        wait_for(f"{name}: the end", (HERE / "end").exists, timeout=120)
        wait_for(f"{name}: its status", lambda: (HERE / "end").read_text(), timeout=20)
        same(f"{name}: exit status", int((HERE / "end").read_text()), want)
        same(f"{name}: no session is left", status()["sessions"], [])


def readers():
    ends = []
    for _ in range(READERS):
        read, write = os.pipe()
        process = subprocess.Popen(["cat"], stdin=read, stdout=subprocess.DEVNULL)
        os.close(read)
        wait_for("the reader sleeps", lambda process=process: state_of(process.pid) == "S" and
                 "pipe" in Path(f"/proc/{process.pid}/wchan").read_text())
        ends.append((process, write))
    return ends


def keys_and_figures():
    screen = Screen(f"fn:{PIPE_READ}", "fn:vfs_read", "-n", "cat", "-i", "250ms")
    found = screen.shows("all that are inside", rf"^{PIPE_READ} +([\d.]+) +0 +[\d.]+ +([\d.]+) ")
    same("inside, and blocked", found.groups(), ("4.000", "4.000"))
    screen.shows("the title", rf"^jifl top fn:{PIPE_READ} fn:vfs_read  [\d.]+ s, each 0.250 s$")
    screen.shows("the line below", r"calls/s looked at; missed 0 +\? help$")
    screen.keys("-")
    screen.shows("a shorter interval", r"each 0.125 s")
    screen.keys("+", "+")
    screen.shows("a longer one", r"each 0.500 s")
    screen.keys("/", "v", "f", "s")
    screen.shows("the filter", r"/vfs")
    wait_for("others are left out", lambda: not any(line.startswith(PIPE_READ) for line in screen.lines()))
    screen.keys("Escape")
    screen.shows("all again", rf"^{PIPE_READ}")
    screen.keys("p")
    paused = screen.shows("paused", r"jifl top .*  ([\d.]+) s, each .*PAUSED, (\d+) back")
    time.sleep(1.2)
    later = screen.shows("still", r"jifl top .*  ([\d.]+) s, each .*PAUSED, ([1-9]\d*) back")
    same("the interval stays", later[1], paused[1])
    screen.keys("[")
    wait_for("an earlier one", lambda: screen.shows("the moment", r"jifl top .*  ([\d.]+) s, each")[1] != paused[1])
    screen.keys("p")
    wait_for("goes on", lambda: "PAUSED" not in screen.lines()[0])
    screen.keys("?")
    screen.shows("help", r"^Backspace, h   back")
    screen.keys("x")
    screen.keys("f")
    screen.shows("columns", r"^\[ \] CALLS ")
    screen.keys("j", "j", "j", "j", "j", "j", " ", "Escape")
    screen.keys("b")
    screen.shows("differences", r"DIFFERENCES")
    screen.shows("no more than before", rf"^{PIPE_READ} +-?0\.000 ")
    screen.keys("b")
    screen.tmux("resize-window", "-x", "39", "-y", "6")
    screen.shows("too small", r"^jifl top needs 40 x 6$")
    screen.tmux("resize-window", "-x", "120", "-y", "30")
    screen.shows("with curves", rf"^{PIPE_READ} .*[▁-█]{{4,}}$")
    screen.keys("c")
    name = screen.shows("a copy", r"^written to (jifl-top-\d+\.txt)")[1]
    check("the copy is the screen", PIPE_READ in (HERE / name).read_text(), (HERE / name).read_text())
    screen.keys("q")
    screen.ends("q")


def objects():
    """What a function's calls are about: who calls, or what is asked for."""
    screen = Screen("fn:vfs_read", "-n", "cat", "-i", "250ms")
    screen.shows("a function", r"^vfs_read +4\.000")
    screen.keys("o")
    screen.shows("what for", r"by \[caller\]:$")
    screen.keys("Enter")
    screen.shows("who calls", r"^jifl top vfs_read by caller")
    screen.shows("nobody knows it of calls from before", r"^\(others\) +4\.000")
    others = readers()
    screen.shows("it does of the next ones", r"^ksys_read\+0x\w+ +4\.000")
    screen.keys("BSpace")
    screen.shows("back", r"^vfs_read +8\.000")
    screen.keys("o", *"no->such", "Enter")
    screen.shows("one line", r"`no` is unknown")
    screen.keys("o", *"comm", "Enter")
    screen.shows("by the name", r"^jifl top vfs_read by comm")
    screen.keys("q")
    screen.ends("q among objects")
    for process, write in others:
        os.close(write)
        process.wait()


def down_and_up():
    """What a function calls; what was looked at goes on meanwhile."""
    screen = Screen("fn:ksys_read", "-n", "cat")
    screen.shows("a function", r"^ksys_read +4\.000")
    screen.keys("Enter")
    screen.shows("what it calls", r"^jifl top below ksys_read")
    screen.shows("its function", r"^vfs_read +4\.000")
    same("two sessions", len(status()["sessions"]), 2)
    screen.keys("Enter")
    screen.shows("deeper", r"^jifl top below vfs_read")
    screen.shows("nobody is in what it calls directly", r"^nobody was in any of these functions")
    screen.keys("BSpace")
    screen.shows("back", r"^jifl top below ksys_read")
    screen.keys("BSpace")
    screen.shows("all the way", r"^ksys_read +4\.000")
    screen.keys("C-c")
    screen.ends("Ctrl-C")


def search():
    """The bottleneck of the machine, beside what is looked at."""
    screen = Screen("fn:vfs_read", "-n", "cat", "-i", "250ms")
    screen.shows("a function", r"^vfs_read +4\.000")
    screen.keys("w")
    screen.shows("it begins", r"^(so far: |finding: )")
    screen.shows("the tree", r"^locks +(true|false) ")
    check("above the table", not any(line.startswith("vfs_read") for line in screen.lines()), screen.lines())
    screen.keys("Escape")
    screen.shows("what is looked at goes on", r"^vfs_read +4\.000")
    wait_for("the search ends", lambda: len(status()["sessions"]) == 1, timeout=120)
    screen.keys("w")
    screen.shows("another", r"^(so far: |finding: )")
    screen.keys("q")
    screen.ends("q while it searches")


def at_once():
    """Without a thought; ended by its time, by others, and by force."""
    screen = Screen("--for", "8s")
    screen.shows("where tasks are", rf"^{PIPE_READ} +([4-9])\.\d+")
    screen.ends("its time")
    screen = Screen(f"fn:{PIPE_READ}")
    screen.shows("running", rf"^{PIPE_READ}")
    same("detached", run("jifl", "detach").returncode, 0)
    screen.ends("detached", 4)
    screen = Screen(f"fn:{PIPE_READ}")
    screen.shows("running", rf"^{PIPE_READ}")
    pids = run("pgrep", "-x", "jifl").stdout.split()
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    screen.ends("killed", 128 + signal.SIGKILL)


def of_a_daemon():
    """The same of sessions that `jifl serve` runs, down to what a function calls."""
    daemon = subprocess.Popen(["jifl", "serve"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for("the daemon", lambda: os.path.exists("/run/jifl/jifl.sock"), timeout=120)
    screen = Screen("fn:ksys_read", "-n", "cat", "-i", "500ms", host="--host unix:")
    screen.shows("a daemon's function", r"^ksys_read +4\.000")
    screen.keys("Enter")
    screen.shows("what it calls there", r"^vfs_read +4\.000")
    same("two sessions there", len(status()["sessions"]), 2)
    screen.keys("w")
    screen.shows("a search there", r"^(so far: |finding: )")
    screen.shows("its tree", r"^locks +(true|false) ")
    screen.keys("BSpace")
    screen.shows("closed", r"^vfs_read +4\.000")
    screen.keys("BSpace")
    screen.shows("back there", r"^ksys_read +4\.000")
    wait_for("the end of what is below", lambda: len(status()["sessions"]) == 1)
    screen.keys("q")
    screen.ends("q of a daemon's")
    screen = Screen("fn:ksys_read", host="--host unix:")
    screen.shows("another", r"^ksys_read")
    same("its session is detached", run("jifl", "detach").returncode, 0)
    screen.ends("detached there", 4)
    daemon.terminate()
    same("the daemon ends", daemon.wait(timeout=120), 0)


def refused():
    for words, why in {("fn:vfs_read",): "needs a terminal", ("--", "ls"): "jifl stat ... -- CMD"}.items():
        end = run("jifl", "top", *words, stdin=subprocess.DEVNULL)
        check(f"refused: {' '.join(words)}", end.returncode == 2 and why in end.stderr and end.stderr.count("\n") == 1, end)
    Screen("fn:no_such_function", "2>why").ends("unknown", 2)
    check("unknown: why", "no such function" in (HERE / "why").read_text(), (HERE / "why").read_text())


def top():
    HERE.mkdir()
    mark = log_mark()
    them = readers()
    for part in (keys_and_figures, objects, down_and_up, search, at_once, of_a_daemon, refused):
        part()
    for process, write in them:
        os.close(write)
        process.wait()
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(top)
