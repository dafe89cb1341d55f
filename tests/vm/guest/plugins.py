# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plugin API: the example, every kind of instrumentation, every kind of mistake.

usage: plugins.py PLUGINS CALLS FAULTS

PLUGINS: a directory with RELEASE/NAME.ko of plugins/*.c.
"""

import os
import re
import sys
from pathlib import Path

from lib import (check, complaints, figure, interrupt, is_loaded, kernel_log, log_mark, main, module_file, report, run,
                 same, session, status, wait_for)

CALLS = 1000


def good(name, *words):
    end = run("jifl", *words)
    return check(name, end.returncode == 0 and not end.stderr, end)


def refused(name, said, *words, status=1):
    """One line that says why, and the exit status for it."""
    end = run("jifl", *words)
    check(name, end.returncode == status and said in end.stderr and end.stderr.count("\n") == 1, end)


def plugins():
    return {plugin["name"]: plugin["started"] for plugin in status()["plugins"]}


def counted(kind, target, *words):
    end = run("jifl", "count", kind, target, "-f", "json", "-o", "/tmp/report", "--", *words)
    data = report(Path("/tmp/report").read_text())
    check(f"counting {kind} {target}", end.returncode == 0 and data["missed"] == 0, (end, data))
    return data["by_name"][target.removeprefix("sys:")]


# --- the example ---------------------------------------------------------------------


def icount():
    program = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do (true); done"]
    refused("starting what is not loaded", "no plugin icount", "start", "icount")
    good("icount is loaded", "load", Path(module_file()).with_name("icount.ko"))
    same("status lists it", plugins(), {"icount": False})
    totals = []
    # Only the program's shell makes clones: they cost what they do, and both count the same ones.
    counter = session("insn", "sys:clone", "-f", "json")
    for _ in range(2):
        good("icount starts", "start", "icount")
        same("status shows that", plugins(), {"icount": True})
        sessions = status()["sessions"]
        check("and its session, beside another", len(sessions) == 2 and sessions[1]["kind"] == "plugin" and
              sessions[1]["name"] == "icount" and sessions[1]["targets"] == 1, sessions)
        refused("it does not start twice", "started already", "start", "icount")
        refused("it is not unloaded meanwhile", "in use", "unload", "icount")
        refused("nor is jifl", "in use", "unload", "jifl")
        same("the program runs", run(*program).returncode, 0)
        adders = [routine for routine in status()["routines"] if routine["name"] == "add_count [icount]"]
        check("its analysis function is inlined", len(adders) == 1 and adders[0]["inlined"] > 100 and
              not adders[0]["called"], adders)
        good("icount stops", "stop", "icount")
        refused("it does not stop twice", "stopped already", "stop", "icount")
        said = [line for line in kernel_log() if line.startswith("icount: ")]
        totals.append(int(re.fullmatch(r"icount: (\d+) instructions", said[-1])[1]))
    data = report(interrupt(counter)[0])
    same("no session is left", status()["sessions"], [])
    clone = data["by_name"]["clone"]
    figure("icount", f"{totals} instructions; jifl count: {clone['instructions']} in {clone['calls']} calls")
    same("no call was missed, and these were made", (data["missed"], clone["calls"]), (0, 20))
    same("its totals are what was counted beside it", sum(totals), clone["instructions"])
    good("icount starts again", "start", "icount")
    end = run("jifl", "detach")
    check("detach stops it", end.returncode == 0 and plugins() == {"icount": False}, (end, plugins()))
    good("icount is unloaded", "unload", "icount")
    same("it is gone", plugins(), {})


# --- every kind of instrumentation ------------------------------------------------------


def exercise(directory, calls, faults):
    good("exercise is loaded", "load", directory / "exercise.ko")
    small = ["sh", "-c", "ls /usr/include | sort | head -50 | md5sum; (cat /proc/version); wc -c /usr/bin/env"]
    one = ["cat", "/proc/version"]
    programs = {"N": [small, one, [faults, "misc"]], "Y": [one]}
    native = {words[0]: run(*words, cwd="/tmp") for words in programs["N"]}
    for every in programs:
        Path("/sys/module/exercise/parameters/every").write_text(every)
        good("exercise starts", "start", "exercise")
        same("so many sessions", len(status()["sessions"]), 7)
        same("calls are made", run(calls, CALLS).returncode, 0)
        for words in programs[every]:
            got, want = run(*words, cwd="/tmp"), native[words[0]]
            check(f"{words[0]} gives what it gives natively, every={every}",
                  (got.returncode, got.stdout, got.stderr) == (want.returncode, want.stdout, want.stderr),
                  [pair for pair in zip(got.stdout.splitlines(), want.stdout.splitlines())
                   if pair[0] != pair[1]][:3] or got)
        now = status()
        figure(f"exercise, every={every}", f"{now['blocks']} blocks, {now['code_used']} bytes, "
               f"native exits {now['native_exits']}, {now['flushes']} flushes")
        good("exercise stops", "stop", "exercise")
        same("jifl has stopped what it left running", status()["sessions"], [])
    said = [line for line in kernel_log() if line.startswith("exercise: ")]
    first, last = ({name: int(value) for name, value in re.findall(r"(\w+) (\d+)", line)} for line in said)
    figure("exercise", first)
    insn, block = (counted(kind, "sys:getresuid", calls, CALLS) for kind in ("insn", "block"))
    same("entries", first["entries"], CALLS)
    same("exits", first["exits"], first["entries"])
    same("instructions", first["instructions"], insn["min"] * first["entries"])
    same("blocks", first["blocks"], block["min"] * first["entries"])
    check("routines", first["entries"] <= first["routines"] < first["blocks"], first)
    check("calls before instructions", first["blocks"] < first["befores"] <= first["instructions"], first)
    check("calls after instructions", 0 < first["afters"] < first["befores"], first)
    check("calls that change registers", 1000 < first["clobbers"] < last["clobbers"], (first, last))
    for name in ("wrong", "bad_handles", "refused"):
        same(f"nothing is {name}", last[name], 0)
    good("exercise is unloaded", "unload", "exercise")


# --- histograms and conditions ----------------------------------------------------------

# Of each size so many reads of descriptor 777; and what is sent from file to file.
READS = {0: 3, 1: 5, 2: 7, 3: 1, 4096: 11, 12345: 2, 1 << 20: 4}
SENDS = {0: 2, 1: 3, 700: 4, 4096: 5, 100000: 6}

KNOWN_CALLS = f"""
import ctypes, os
data = os.open('/tmp/data', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.write(data, bytes(200000))
os.dup2(data, 777)
for size, times in {READS}.items():
    for _ in range(times):
        os.read(777, size)
os.read(data, 12345)
# The kernel takes the low half of a descriptor.
ctypes.CDLL(None).syscall(0, ctypes.c_long(777 | 1 << 32), ctypes.create_string_buffer(9), ctypes.c_long(9))
to = os.open('/tmp/sent', os.O_WRONLY | os.O_CREAT)
for size, times in {SENDS}.items():
    for _ in range(times):
        assert os.sendfile(to, data, 0, size) == size
for _ in range(8):
    try:
        os.sendfile(to, 999, 0, 5)
    except OSError as error:
        assert error.errno == 9
print(data)
"""


def histogram(sizes, buckets=65):
    """Of sizes and how often each was: how often each bucket is."""
    counts = {}
    for size, times in sizes.items():
        bucket = min(size.bit_length(), buckets - 1)
        counts[bucket] = counts.get(bucket, 0) + times
    return counts


def address_of(name):
    lines = Path("/proc/kallsyms").read_text().splitlines()
    return next(line.split()[0] for line in lines if line.endswith(f" {name}"))


def forms(directory):
    good("forms is loaded", "load", directory / "forms.ko")
    Path("/sys/module/forms/parameters/routine").write_text("0x" + address_of("vfs_read"))
    mark = log_mark()
    good("forms starts", "start", "forms")
    end = run(sys.executable, "-c", KNOWN_CALLS)
    check("the program works", end.returncode == 0, end)
    dump = run("jifl", "dump", "--limit", 50, "--session", status()["sessions"][-1]["id"])
    check("a dump names histograms and conditions", "; histogram" in dump.stdout and "; if %rax is 0x0" in dump.stdout,
          dump.stdout[:3000] or dump)
    good("forms stops", "stop", "forms")
    lines = [line.removeprefix("forms: ").split() for line in kernel_log(mark) if line.startswith("forms: ")]
    got = {name: {int(bucket): int(count) for bucket, count in (pair.split(":") for pair in pairs)}
           for name, *pairs in lines if name != "counts"}
    words = next(words for name, *words in lines if name == "counts")
    counts = {name: int(value) for name, value in zip(words[::2], words[1::2])}
    figure("forms", {**counts, **got})
    data = int(end.stdout)
    same("sizes of reads of one descriptor", got["read_sizes"], histogram({**READS, 9: 1}))
    same("its reads", counts["reads"], sum(READS.values()) + 1)
    same("compared with all of the argument", counts["reads_of_64"], sum(READS.values()))
    same("reads of one size, in the routine", got["odd_sizes"], {14: READS[12345] + 1})
    same("those counted by a call", counts["odd"], READS[12345] + 1)
    same("what was to be sent, in fewer buckets", got["asked"], histogram({**SENDS, 5: 8}, 16))
    same("what was sent; errors in the last bucket", got["sent"], {**histogram(SENDS), 23: 8})
    same("which were known by the result", counts["failures"], 8)
    same("descriptors", got["sources"], histogram({data: sum(SENDS.values()), 999: 8}))
    check("a register at every instruction", counts["places"] > 10000, counts)
    same("as many values", sum(got["registers"].values()), counts["places"])
    same("those that are 0", got["registers"][0], counts["zeroes"])
    same("nothing was refused", counts["refused"], 0)
    good("forms is unloaded", "unload", "forms")


# --- every kind of mistake ---------------------------------------------------------------


def mistakes(name, mark, least, in_callbacks):
    """Checks each step that the plugin says since the mark, and that the log tells of each mistake.

    least: so many steps there are at least. in_callbacks: so many lines are of mistakes in
    callbacks, of which each start has one.
    """
    lines = kernel_log(mark)
    steps = [re.fullmatch(rf"{name}: (in a callback: )?(.*): (-?\d+) (good|BAD.*)", line) for line in lines]
    steps = [step for step in steps if step]
    for inside, what, error, verdict in {step.groups() for step in steps}:
        check(f"{inside or ''}{what}", verdict == "good", f"{error} {verdict}")
    check("all steps were made", len({step[2] for step in steps}) > least, len(steps))
    made = [step for step in steps if step[3].startswith("-") and not step[1]]
    told = [line for line in lines if line.startswith(f"jifl: plugin {name}: ") and "no room" not in line]
    # One line for each, and one for all that happened in callbacks after one start.
    same("each mistake is one line of the log", len(told), len(made) + in_callbacks)
    check("which says what it is", all(re.fullmatch(rf"jifl: plugin {name}: \w+: .+", line) for line in told), told)
    figure(name, f"{len(steps)} steps, {len(told)} lines of the log")
    return lines


def misuse(directory, calls):
    mark = log_mark()
    good("misuse is loaded", "load", directory / "misuse.ko")
    wanted = []
    for _ in range(2):
        good("misuse starts", "start", "misuse")
        same("its sessions", len(status()["sessions"]), 3)
        target = counted("insn", "sys:getresuid", calls, CALLS)
        wanted.append(target["instructions"])
        same("they stay", len(status()["sessions"]), 3)
        good("misuse stops", "stop", "misuse")
    good("misuse is unloaded", "unload", "misuse")
    lines = mistakes("misuse", mark, 70, 2)
    totals = [int(line.rpartition(" ")[2]) for line in lines if line.startswith("misuse: total")]
    same("the good session counted as if nothing had been", totals, wanted)


def strangers(directory):
    mark = log_mark()
    good("strangers is loaded", "load", directory / "strangers.ko")
    for _ in range(2):
        good("strangers starts", "start", "strangers")
        same("its session", len(status()["sessions"]), 1)
        good("strangers stops", "stop", "strangers")
    good("strangers is unloaded", "unload", "strangers")
    # "missed of null" gives 0, and is a mistake of which the log has a line.
    mistakes("strangers", mark, 50, 2 + 2)


# --- plugins that should not be ------------------------------------------------------------


def hostile_at(what, words):
    """What the plugin counted while the command ran; and the log's lines since."""
    mark = log_mark()
    Path("/sys/module/hostile/parameters/what").write_text(what)
    good(f"hostile starts: {what}", "start", "hostile")
    end = run(*words)
    if what == "forever":
        wait_for("the session's end", lambda: not status()["sessions"])
        refused("nothing stops twice", "started already", "start", "hostile")
    good(f"hostile stops: {what}", "stop", "hostile")
    same(f"no session is left: {what}", status()["sessions"], [])
    lines = kernel_log(mark)
    said = [line for line in lines if line.startswith("hostile: ")]
    counts = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", said[0])}
    figure(f"hostile {what}", said)
    return end, counts, complaints(lines)


def hostile(directory):
    Path("/proc/sys/kernel/panic_on_oops").write_text("0")
    good("hostile is loaded", "load", directory / "hostile.ko")
    listing = ["/bin/cat", "/proc/version"]
    want = run(*listing).stdout
    end, counts, lines = hostile_at("insert", listing)
    same("inserting until there is no room: the program works", end.stdout, want)
    check("inserts that fit are made, others refused",
          counts["calls"] > counts["inserted"] > 1000 and counts["refused"] > 500, counts)
    same("which is no mistake", lines, [])
    end, counts, lines = hostile_at("forever", listing)
    same("inserting for ever: the program works", end.stdout, want)
    same("one line says that it was ended", [line.partition(": a callback")[0] for line in lines],
         ["jifl: plugin hostile"])
    check("for one block only", counts["inserted"] <= 192, counts)
    end, counts, lines = hostile_at("write", listing)
    check("an analysis function may call what writes files", end.stdout == want and counts["calls"] > 2 and
          not counts["wrong"] and not lines, (end, counts, lines))
    end, counts, lines = hostile_at("slow", listing)
    check("a slow one makes slow", end.stdout == want and counts["calls"] > 2 and not lines, (end, counts, lines))
    end, counts, lines = hostile_at("walk", listing)
    check("stacks are whole where analysis functions are called", end.stdout == want and counts["calls"] > 10000 and
          not counts["wrong"] and not lines, (end, counts, lines, kernel_log()[-14:]))
    end, counts, lines = hostile_at("fault", [sys.executable, "-c", "import os; os.getppid()"])
    check("one that faults ends the process", end.returncode == -9 and counts["calls"] == 1, (end, counts))
    log = "\n".join(kernel_log()[-80:])
    check("the log names it, and the call it was in", re.search(r"RIP: 0010:fault\+\S+ \[hostile\]", log) and
          re.search(r"^ do_syscall_64\+", log, re.MULTILINE), log)
    good("hostile is unloaded", "unload", "hostile")


def loading(directory):
    good("a plugin is loaded", "load", directory / "exercise.ko")
    refused("a second time", "loaded already", "load", directory / "exercise.ko")
    refused("jifl stays while it is there", "in use", "unload", "jifl")
    good("it is unloaded", "unload", "exercise")
    refused("it is not there any more", "no such module", "unload", "exercise")
    owner = session("insn", "sys:read", "-n", "nobody")
    good("it is loaded during a session", "load", directory / "exercise.ko")
    good("it starts on calls that the session has", "start", "exercise")
    same("and both run", len(status()["sessions"]), 8)
    good("it stops", "stop", "exercise")
    same("and only the other session runs", len(status()["sessions"]), 1)
    interrupt(owner)
    good("it is unloaded", "unload", "exercise")
    good("jifl is unloaded", "unload", "jifl")
    same("it is gone", is_loaded(), False)
    refused("no plugin without jifl", "`jifl load` first", "load", directory / "exercise.ko")
    refused("a file that is no module", "not a module for this kernel", "load", "/bin/true")
    refused("a file that is not there", "make modules", "load", "/no/such.ko")
    good("jifl is loaded", "load")


def program(directory, calls, faults):
    directory = Path(directory) / os.uname().release
    icount()
    exercise(directory, calls, faults)
    forms(directory)
    misuse(directory, calls)
    strangers(directory)
    loading(directory)
    hostile(directory)


main(program)
