# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel's hot code is laid anew: programs do what they did, and nothing is left of it.

usage: optimize.py
"""

import hashlib
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from lib import background, check, complaints, figure, kernel_log, log_mark, main, reload, run, same, status, wait_for

FILE = Path("/tmp/layout.jifl")
# Reads, writes, directories, pipes, processes, faults; what it writes depends on nothing else.
LOAD = """
set -e
for i in 1 2 3; do
  seq 1 3000 | sort -R --random-source=/dev/zero | sort -n | sha1sum
  ls -lR /etc/ssl /usr/share/zoneinfo/Europe | cut -c1-10 | sort | uniq -c
  dd if=/proc/version of=/dev/null bs=1 2>/dev/null
  grep -rl TZif /usr/share/zoneinfo/Asia | wc -l
  ( exit 3 ) || echo $?
done
"""


def load():
    return run("sh", "-c", LOAD, timeout=600).stdout


def optimizing(*options, target="sys:*"):
    return background("jifl", "optimize", target, "-f", "json", *options)


def layouts(process, signal_number=signal.SIGINT):
    """What it has done, and said, once it is told to end."""
    process.send_signal(signal_number)
    out, err = process.communicate(timeout=300)
    same("exit status", process.returncode, 0)
    return json.loads(out)["layouts"], err


def said(process, word):
    """Waits for a line that it says."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if word in line:
            return line
    raise RuntimeError("".join(lines))


class Busy:
    """The load again and again, in a thread. Each result has to be the first one."""

    def __init__(self, want):
        self.want, self.rounds, self.wrong, self.ended = want, 0, 0, False
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while not self.ended:
            self.wrong += load() != self.want
            self.rounds += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()


class Sleepers:
    """Processes that are inside of calls while code is laid: they read from empty pipes."""

    def __init__(self, number):
        self.pipes = []
        self.children = []
        for _ in range(number):
            there, here = os.pipe()
            child = subprocess.Popen(["cat"], stdin=there, stdout=subprocess.PIPE)
            os.close(there)
            self.pipes.append(here)
            self.children.append(child)

    def say(self, text):
        for pipe in self.pipes:
            os.write(pipe, text)

    def all_have(self, text):
        for pipe in self.pipes:
            os.close(pipe)
        return [child.communicate()[0] for child in self.children] == [text] * len(self.children)


def whole(layout):
    """Is each block that was measured laid, and found? Code that changed meanwhile is not."""
    blocks = layout["hot"]["blocks"] + layout["cold"]["blocks"]
    laid, found = layout["laid"], layout["found"]
    same("no room", laid["left"], 0)
    check("nearly all blocks are laid", laid["blocks"] >= 0.98 * blocks, f"{laid} of {blocks}")
    check("they are found", found["blocks"] >= 0.98 * blocks, f"{found['blocks']} of {blocks}")
    check("fewer branches are taken", found["taken"] < 0.8 * found["taken_natively"], str(found))
    check("in fewer lines", found["copies"]["lines"] < 0.8 * found["native"]["lines"], str(found))
    figure("hot blocks", layout["hot"]["blocks"])
    figure("lines, kernel and layout", (found["native"]["lines"], found["copies"]["lines"]))
    figure("taken branches, kernel and layout", (found["taken_natively"], found["taken"]))


def text_changes():
    """What the kernel changes of its own text: a static key, sites of the function tracer."""
    for value in ("1", "0"):
        Path("/proc/sys/kernel/sched_schedstats").write_text(value)
    tracer = Path("/sys/kernel/tracing/current_tracer")
    if not tracer.exists():
        run("mount", "-t", "tracefs", "nodev", "/sys/kernel/tracing")
    filters = tracer.with_name("set_ftrace_filter")
    filters.write_text("vfs_*")
    for name in ("function", "nop"):
        tracer.write_text(name)
    filters.write_text("")


def programs_do_the_same(want):
    """Measured, laid and ended while programs run, with sleepers inside all the time."""
    sleepers = Sleepers(20)
    with Busy(want) as busy:
        process = optimizing("--measure", "4s", "--save", FILE)
        wait_for("the session", lambda: status()["sessions"])
        sleepers.say(b"before\n")
        said(process, "jifl: laid")
        since = busy.rounds
        wait_for("rounds with the layout", lambda: busy.rounds > since + 1, timeout=300)
        before = status()["invalidated"]
        text_changes()
        check("text of copies has changed", status()["invalidated"] > before)
        since = busy.rounds
        wait_for("rounds after that", lambda: busy.rounds > since, timeout=300)
        sleepers.say(b"after\n")
        done, _ = layouts(process)
        since = busy.rounds
        wait_for("rounds without", lambda: busy.rounds > since, timeout=300)
    same("rounds with another result", busy.wrong, 0)
    check("sleepers read what was written", sleepers.all_have(b"before\nafter\n"))
    same("layouts", len(done), 1)
    whole(done[0])
    same("sessions", status()["sessions"], [])


def a_file_is_laid_at_once(want):
    """The layout of a file has the same blocks; CMD's output and status are CMD's."""
    end = run("jifl", "optimize", "sys:*", "--load", FILE, "--", "sh", "-c", LOAD + "exit 7", timeout=600)
    same("status", end.returncode, 7)
    check("output", end.stdout.startswith(want))
    check("what was done", "hot blocks" in end.stdout, end.stdout)
    end = run("jifl", "optimize", "sys:*", "--load", FILE, "-f", "json", "--for", "1s")
    layout = json.loads(end.stdout)["layouts"][0]
    check("blocks of the file", layout["laid"]["blocks"] > 500, str(layout["laid"]))


def what_changes_is_laid_anew():
    """With --watch: the same load again changes nothing, another one is laid."""
    def reads():
        with open("/proc/self/stat", "rb", buffering=0) as file:
            for _ in range(3000):
                os.pread(file.fileno(), 100, 0)

    def names():
        for _ in range(1500):
            os.stat("/usr/bin/python3")
            os.access("/nowhere/at/all", os.R_OK)

    process = optimizing("--measure", "1s", "--watch", "1s", "-p", str(os.getpid()))
    work, ended = [reads], []

    def work_on():
        while not ended:
            work[0]()

    thread = threading.Thread(target=work_on)
    thread.start()
    said(process, "jifl: laid")
    said(process, "has not changed")
    work[0] = names
    said(process, "has changed: laid")
    ended.append(True)
    thread.join()
    done, _ = layouts(process)
    check("laid more than once", len(done) > 1, str(len(done)))


def functions_are_targets():
    """One function with what it calls, and alone; ended from outside."""
    for options in ([], ["--only"]):
        process = optimizing("--measure", "1s", *options, target="fn:vfs_read")
        ended = []

        # Until it has measured: on a loaded machine it begins late.
        def reads():
            while not ended:
                Path("/proc/version").read_text()
                time.sleep(0.1)

        thread = threading.Thread(target=reads)
        thread.start()
        said(process, "jifl: laid")
        ended.append(True)
        thread.join()
        Path("/proc/version").read_text()
        end = run("jifl", "restore")
        check("restored", "ended 0 replacements and 1 layout in " in end.stderr, end)
        out, _ = process.communicate(timeout=120)
        layout = json.loads(out)["layouts"][0]
        check("blocks of it", layout["hot"]["blocks"] > 10, str(layout["hot"]))


def an_emptied_cache_is_laid_again():
    """A small cache is emptied when another session fills it. Then the layout comes back."""
    reload("cache_kb=2048", "side_kb=2048")
    process = optimizing("--measure", "1s", "--hot", "90%", target="sys:read")
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr))
    reader.start()
    wait_for("the session", lambda: status()["sessions"])

    def again():
        run("jifl", "count", "insn", "sys:*", "fn:vfs_*", "--", "sh", "-c", LOAD, timeout=600)
        run("sh", "-c", LOAD, timeout=600)
        return any("was emptied: laid" in line for line in lines)

    wait_for("the layout again", again, timeout=600)
    check("the cache was emptied", status()["flushes"] > 0)
    process.send_signal(signal.SIGINT)
    reader.join()
    done = json.loads(process.stdout.read())["layouts"]
    same("exit status", process.wait(), 0)
    check("laid twice at least", len(done) > 1, str(len(done)))
    check("the last is there", done[-1]["laid"]["blocks"] > 20, str(done[-1]["laid"]))


def what_cannot_be_is_one_line():
    bad = Path("/tmp/other.jifl")
    bad.write_bytes(b"no recording")
    for options, words in (
            (["sys:*", "--load", bad], "other.jifl"),
            (["sys:*", "--hot", "101%"], "share"),
            (["fn:no_such_function"], "no_such_function"),
            (["sys:*", "--warm", FILE], "--load")):
        end = run("jifl", "optimize", *map(str, options), "--for", "1s")
        check(f"{options}: refused", end.returncode in (1, 2) and words in end.stderr, end.stderr)
    end = run("jifl", "optimize", "sys:*", "--measure", "1m", "--for", "1s")
    check("too short", end.returncode == 0 and "nothing was laid" in end.stderr, end.stderr)


def optimize():
    mark = log_mark()
    want = load()
    check("a result", len(want) > 100)
    figure("its hash", hashlib.sha1(want.encode()).hexdigest()[:8])
    programs_do_the_same(want)
    a_file_is_laid_at_once(want)
    what_changes_is_laid_anew()
    functions_are_targets()
    what_cannot_be_is_one_line()
    an_emptied_cache_is_laid_again()
    same("complaints", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(optimize)
