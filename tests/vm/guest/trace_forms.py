# SPDX-License-Identifier: MIT OR Apache-2.0
"""The forms of `jifl trace` that viewers open. Their content is decoded here, without the viewers'
libraries.
"""

import json
import os
import pty
import re
import subprocess
from collections import Counter, namedtuple
from decimal import Decimal
from pathlib import Path

from lib import background, check, run, same

# What is there of a call or function; times in nanoseconds; duration None where there is no end.
Event = namedtuple("Event", "name category process thread begin duration details")

PYTHON = ["/usr/bin/python3", "-S", "-E"]
# Its timers are relative, so they begin inside the call.
SLEEPS = """
import os, signal
os.sched_setaffinity(0, {0})
for _ in range(20):
    signal.sigtimedwait([signal.SIGUSR1], 0.01)
    os.stat("/etc/passwd")
"""
SLEEPER = "schedule_hrtimeout_range_clock"
LIVES = """
import os, threading, time
def work():
    open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("worker")
    while True:
        os.getppid()
        time.sleep(0.01)
print(threading.main_thread().native_id, flush=True)
threading.Thread(target=work).start()
"""


# --- Chrome's ---------------------------------------------------------------------------


def chrome(text):
    """Events, names of threads and processes, and what else it has."""
    whole = json.loads(text, parse_float=Decimal)
    events, names = [], {}
    for event in whole["traceEvents"]:
        if event["ph"] == "M":
            names[event["name"], event["tid"]] = event["pid"], event["args"]["name"]
            continue
        assert event["ph"] == "X" or (event["ph"] == "i" and event["s"] == "t" and "dur" not in event), event
        duration = int(event["dur"] * 1000) if event["ph"] == "X" else None
        events.append(Event(event["name"], event["cat"], event["pid"], event["tid"], int(event["ts"] * 1000), duration,
                            event.get("args", {})))
    return events, names, whole.get("otherData")


# --- Perfetto's -------------------------------------------------------------------------

# Fields of its messages, by their numbers: name, and what is in it. A list: of the field there may
# be several.
ANNOTATION = {1: ("name_iid", int), 2: ("bool", bool), 3: ("uint", int), 4: ("int", "signed"), 6: ("string", str)}
ANNOTATION.update({11: ("dict", [ANNOTATION]), 12: ("array", [ANNOTATION])})
INTERNED = {1: ("iid", int), 2: ("name", str)}
PACKET = {
    8: ("timestamp", int), 10: ("sequence", int), 13: ("flags", int),
    6: ("clocks", {1: ("clock", [{1: ("id", int), 2: ("time", int)}]), 2: ("primary", int)}),
    59: ("defaults", {58: ("clock", int)}),
    60: ("track", {1: ("uuid", int), 2: ("name", str), 3: ("process", {1: ("pid", int), 6: ("name", str)}),
                   4: ("thread", {1: ("pid", int), 2: ("tid", int), 5: ("name", str)})}),
    12: ("interned", {1: ("categories", [INTERNED]), 2: ("events", [INTERNED]), 3: ("annotations", [INTERNED])}),
    11: ("event", {3: ("categories", "packed"), 4: ("details", [ANNOTATION]), 9: ("type", int), 10: ("name_iid", int),
                   11: ("track", int)}),
}
MONOTONIC = 3
BEGIN, END, INSTANT = 1, 2, 3


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def message(data, fields):
    """A message as a dict; a field that is not among those that are known fails."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        name, kind = fields[tag >> 3]
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        else:
            assert tag & 7 == 0 and kind in (int, bool, "signed"), (name, tag & 7)
        if isinstance(kind, list):
            found.setdefault(name, []).append(message(value, kind[0]))
        elif isinstance(kind, dict):
            found[name] = message(value, kind)
        elif kind is str:
            found[name] = value.decode()
        elif kind == "packed":
            found[name] = [varint(value, 0)[0]]
        elif kind == "signed":
            found[name] = value - (1 << 64) if value >> 63 else value
        else:
            found[name] = kind(value)
    return found


def value_of(annotation, names):
    (kind,) = [kind for kind in ("bool", "uint", "int", "string", "dict", "array") if kind in annotation] or ["dict"]
    value = annotation.get(kind, [])
    if kind == "array":
        return [value_of(one, names) for one in value]
    return details_of(value, names) if kind == "dict" else value


def details_of(annotations, names):
    return {names[annotation["name_iid"]]: value_of(annotation, names) for annotation in annotations}


def perfetto(data):
    """Events and names of threads and processes, as of chrome; None, as it has nothing else."""
    packets = message(data, {1: ("packet", [PACKET])})["packet"]
    same("times are of CLOCK_MONOTONIC, and what others were is known",
         (packets[0]["clocks"]["primary"], {clock["id"] for clock in packets[0]["clocks"]["clock"]},
          packets[1]["defaults"]["clock"], packets[1]["flags"]), (MONOTONIC, {1, 3, 6}, MONOTONIC, 1))
    same("in one sequence", {packet["sequence"] for packet in packets}, {1})
    tracks, names, events, open_, last = {}, {}, [], {}, {}
    interned = {"categories": {}, "events": {}, "annotations": {}}
    for packet in packets[2:]:
        for kind, new in packet.get("interned", {}).items():
            interned[kind].update((one["iid"], one["name"]) for one in new)
        if (track := packet.get("track")) and "name" in track:
            # A processor's.
            tracks[track["uuid"]] = {"pid": 0, "tid": int(track["name"].removeprefix("CPU "))}
            continue
        if track:
            owner, kind = (track["thread"], "thread") if "thread" in track else (track["process"], "process")
            tracks[track["uuid"]] = owner
            if "name" in owner:
                names[f"{kind}_name", owner.get("tid", owner["pid"])] = owner["pid"], owner["name"]
            continue
        event, time = packet["event"], packet["timestamp"]
        stack = open_.setdefault(event["track"], [])
        assert time >= last.get(event["track"], 0), (packet, last)
        last[event["track"]] = time
        if event["type"] == END:
            place = stack.pop()
            events[place] = events[place]._replace(duration=time - events[place].begin)
            continue
        if event["type"] == BEGIN:
            stack.append(len(events))
        thread = tracks[event["track"]]
        events.append(Event(interned["events"][event["name_iid"]], interned["categories"][event["categories"][0]],
                            thread["pid"], thread["tid"], time, None, details_of(event.get("details", []), interned["annotations"])))
    check("each slice that begins ends", not any(open_.values()), open_)
    return events, names, None


# --- what is in both ---------------------------------------------------------------------


DECODED = {"chrome": chrome, "perfetto": perfetto}


def overlapping(events):
    """Those that are neither beside nor within what began before them on their thread."""
    open_, found = {}, []
    for event in events:
        ends = open_.setdefault(event.thread, [])
        while ends and ends[-1] <= event.begin:
            ends.pop()
        end = event.begin + (event.duration or 0)
        if ends and end > ends[-1]:
            found.append(event)
        if event.duration is not None:
            ends.append(end)
    return found


def viewed(form):
    Path("/run/sleeps.py").write_text(SLEEPS)
    end = run("jifl", "trace", "-A", "-f", form, "-o", "/run/viewed", "sys:rt_sigtimedwait", "sys:newfstatat", "--", *PYTHON,
              "/run/sleeps.py")
    said = re.fullmatch(r"(\d+) calls, (\d+) functions entered; records lost 0, calls missed 0(?:; threads waited .*)?", end.stderr.strip())
    check(f"{form}: a trace is written", end.returncode == 0 and said, end)
    events, names, other = DECODED[form](Path("/run/viewed").read_bytes())
    counted = Counter(event.category for event in events)
    same(f"{form}: every call and function is there", counted, {"syscall": int(said[1]), "function": int(said[2])})
    same(f"{form}: they nest", overlapping(events), [])
    timed = sum(event.duration is not None for event in events)
    check(f"{form}: nearly all have an end", timed > 0.9 * len(events) > 1000, (timed, len(events)))
    sleeps = [event.duration for event in events if event.name == SLEEPER]
    check(f"{form}: sleeping takes 10 ms", len(sleeps) == 20 and 9_900_000 < min(sleeps), sleeps)
    last = [event.details for event in events if event.name == "vfs_fstatat"][-20:]
    got = [(details["result"], details["arguments"]["dfd"], details["arguments"]["stat"][:4]) for details in last]
    same(f"{form}: with what they get and return", got, 20 * [(0, -100, "0xff")])
    failed = [event.details for event in events if event.name == "sys:rt_sigtimedwait"]
    same(f"{form}: and errors by name", failed, 20 * [{"result": -11, "error": "EAGAIN"}])
    same(f"{form}: who is gone has no name", (names, {event.process == event.thread for event in events}), ({}, {True}))
    if form == "chrome":
        same("chrome: losses are in it, too", other, {"clock": "CLOCK_MONOTONIC", "calls": int(said[1]),
                                                      "functions": int(said[2]), "records_lost": 0, "calls_missed": 0})


def named():
    """Threads that still live have their names."""
    program = background(*PYTHON, "-c", LIVES)
    pid = int(program.stdout.readline())
    for form, decode in DECODED.items():
        end = run("jifl", "trace", "sys:getppid", "-p", pid, "-f", form, "-o", "/run/viewed", "--for", "2s")
        events, names, _ = decode(Path("/run/viewed").read_bytes())
        threads = {(event.process, event.thread) for event in events}
        check(f"{form}: one thread's calls", end.returncode == 0 and len(threads) == 1, (end, threads))
        (process, thread), = threads
        check(f"{form}: of the process", process == pid != thread, (process, thread, pid))
        found = {key: name for key, (_, name) in names.items()}
        wanted = {("thread_name", thread): "worker",
                  ("process_name", thread if form == "chrome" else pid): "python3"}
        same(f"{form}: threads and processes have names", found, wanted)
    program.kill()
    program.wait()


def refused():
    """Nothing binary is written to a terminal, nor is a session started for it."""
    own, other = pty.openpty()
    end = subprocess.run(["jifl", "trace", "sys:getppid", "-f", "perfetto", "--for", "60s"], stdin=subprocess.DEVNULL,
                         stdout=other, stderr=subprocess.PIPE, text=True, timeout=30)
    check("a binary trace is not for a terminal", end.returncode == 2 and end.stderr.count("\n") == 1 and
          "-o FILE" in end.stderr, end)
    os.close(own)
    os.close(other)


def full():
    """What has no room ends as a whole."""
    Path("/run/small").mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=200k", "none", "/run/small")
    path = Path("/run/small/trace")
    for form in ("chrome", "ndjson"):
        end = run("jifl", "trace", "sys:*", "-d", "-f", form, "-o", path, "--", *PYTHON, "-c", "import os")
        check(f"{form}: a full disk is said in one line", end.returncode == 1 and end.stderr ==
              f"jifl: {path}: No space left on device (os error 28)\n", end)
        data = path.read_bytes()
        if form == "chrome":
            events, _, other = chrome(data)
            check("chrome: what there is is a whole", len(events) > 500 and other is None, len(events))
        else:
            # A single call may be too large.
            check("ndjson: of whole lines", all(json.loads(line) for line in data.splitlines()) and data[-1:] in (b"", b"\n"),
                  data[-100:])
        path.unlink()
    run("umount", "/run/small")


def folded_time():
    end = run("jifl", "trace", "-d", "-f", "folded", "-o", "/run/stacks", "sys:rt_sigtimedwait", "--", *PYTHON, "/run/sleeps.py")
    lines = [line.rsplit(" ", 1) for line in Path("/run/stacks").read_text().splitlines()]
    sleeping = sum(int(time) for stack, time in lines if ";schedule" in stack)
    everything = sum(int(time) for _, time in lines)
    check("stacks have their own nanoseconds", end.returncode == 0 and 0.19e9 < sleeping < everything < 20e9,
          (end, sleeping, everything))
    check("calls as well", any(stack == "sys:rt_sigtimedwait" for stack, _ in lines), lines[:2])


def forms():
    for form in DECODED:
        viewed(form)
    named()
    refused()
    full()
    folded_time()
