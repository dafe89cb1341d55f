# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions of `jifl probe` begin and end, in every way, while tasks sleep in the probed functions.

usage: probe_churn.py SLEEPERS SECONDS SHORT SEED

Other tasks work in these functions meanwhile, and each of their results must be right. Sleepers fall
asleep in a copy, or before there is one; sessions begin and end around them; they wake beside another
session. That one has a place wherever a sleeper goes on, and counts sleepers alone: each is counted there.

Then the load has gone, and SHORT sessions follow each other, so that what each of them loses shows.
All text and all memory must be as before, and the module goes.
"""

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

from churn import WORKER, stop_load
from contexts import CALLS_ON, MODULE, call, end_callers
from detach import asleep, unload, wake
from lib import SLOWNESS, Device, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, run, same, session
from lib import settled, status, wait_for
from probe import Graphs
from usage import objects, vmalloc

INSPECT = Path(MODULE).with_name("jifl_inspect.ko")
TEXT = Path("/proc/jifl_text")
EACH = 1
ROUNDS, AFTER = 4, 10
PROGRAM = ["--record", "comm,tid", "--by", "comm", "--stack", "-f", "ndjson"]
# Entries, instructions, returns, ways of branches; of functions in which sleepers are, others work, and
# interrupts run; with an ftrace site and without one.
OTHERS = [["fn:vfs_*"], ["fn:vfs_read insn", "fn:vfs_write insn"], ["fn:ksys_*%return"], ["fn:do_wait*", "fn:do_epoll_*%return"],
          ["fn:hrtimer_* call"], ["fn:contexts_*", "fn:contexts_*%return"], ["fn:contexts_work insn", "fn:contexts_bare insn"],
          ["fn:contexts_sleep insn", *PROGRAM], ["fn:vfs_read", *PROGRAM], ["fn:rb_*"]]


def returns(pids):
    """By place where sleepers go on, as `fn:NAME+0x10`, how many of them."""
    found = Counter()
    for pid in pids:
        for line in Path(f"/proc/{pid}/stack").read_text().splitlines():
            found["fn:" + line.split()[1].partition("/")[0]] += 1
    return found


def can_be(place):
    end = run("jifl", "probe", place, "--for", "1ms")
    return end.returncode == 0


# --- ways to end --------------------------------------------------------------------------------------


def by_signal(owner, number):
    owner.send_signal(number)
    out = owner.communicate(timeout=300 * SLOWNESS)
    # It may have come before the command had asked for it to be caught.
    return owner.returncode in (0, -number), out


def ended(owner, way):
    """Whether the command ended as it should, and what it said."""
    if way == "detached":
        end = run("jifl", "detach")
        good, out = by_signal(owner, signal.SIGINT)
        return good or owner.returncode == 4 and end.returncode == 0, (end, out)
    return by_signal(owner, signal.SIGKILL if way == "killed" else signal.SIGINT)


def begun(chance, words):
    """A command whose session runs, or is about to."""
    owner = background("jifl", "probe", *words, "--yes", "-o", "/tmp/churn")
    if chance.random() < 0.5:
        wait_for(f"a session of {words}", lambda: owner.poll() is not None or status()["sessions"])
    time.sleep(chance.uniform(0, 0.8))
    return owner


def around(chance, name):
    """A session of whatever begins and ends while all go on with what they do."""
    words = chance.choice(OTHERS)
    way = chance.choice(["for a while", "killed", "killed", "interrupted", "detached"])
    if way == "for a while":
        end = run("jifl", "probe", *words, "--yes", "--for", f"{chance.randrange(1, 100)}ms", "-o", "/tmp/churn")
        good, what = end.returncode == 0, end
    else:
        good, what = ended(begun(chance, words), way)
    if not good:
        check(f"{name}: {way}, {words}", False, what)
    wait_for("the session's end", lambda: not status()["sessions"])
    return way


def cycle(chance, name, sleepers, known):
    """Sleepers, and the sessions around them."""
    ways = Counter()
    # The ones whose copy the sleepers fall asleep in; none: they do so natively.
    owner = session(*known, command="probe") if known else None
    process, pids = asleep(sleepers)
    goes_on = returns(pids)
    if not known:
        known.extend(place for place in goes_on if can_be(place))
        check("there are places where sleepers go on", len(known) >= 5, goes_on)
    if owner:
        way = chance.choice(["killed", "interrupted", "detached"])
        good, what = ended(owner, way)
        check(f"{name}: {way} while they sleep in copies", good, what)
        ways[way] += 1
    for _ in range(ROUNDS):
        ways[around(chance, name)] += 1
    last = session(*known, "-f", "json", "--if", 'comm == "sleepers"', command="probe")
    wake(name, process, pids, EACH)
    out, err = interrupt(last)
    same(f"{name}: the last session", last.returncode, 0)
    hits = {row["place"]: row["hits"] for row in json.loads(out)["places"]}
    few = {place: (hits.get(place), goes_on[place]) for place in known if hits.get(place, 0) < goes_on[place]}
    check(f"{name}: each sleeper is counted where it goes on", hits and not few, (few, err))
    return ways


def short(graphs, number):
    """Sessions with hardly any time in between, ended by the request, or by closing the file."""
    code = graphs.all["contexts_work"]["blocks"]
    begin = int(code[0]["address"], 16)
    places = [begin + int(place, 16) for place, _ in graphs.instructions("contexts_work")[2:6]]
    target = [Device.target(0, Device.FUNCTION, Device.ONLY, begin, b"contexts_work")]
    hit = [Device.op(65)]
    for index in range(number):
        with Device() as device:
            programs = [hit] if index % 2 else []
            device.start_of(Device.PROBE, target, splices=[Device.splice(at, action=index % 2) for at in places], programs=programs,
                            ring=4096 * (index % 2))
            if index % 10 == 0:
                call("task")
            if index % 3:
                device.stop()


def lost_by_each(graphs, number):
    """An object, or a page, that each session loses. Small objects show where there are many sessions."""
    short(graphs, AFTER)
    before = objects(), vmalloc()
    start = time.monotonic()
    short(graphs, number)
    figure("a short session takes", f"{(time.monotonic() - start) / number * 1000:.0f} ms")

    def grown():
        more = {name: (before[0].get(name, (0, 0))[0], now) for name, (now, unsure) in objects().items()
                if now >= before[0].get(name, (0, 0))[0] + max(number // 2, unsure + 1)}
        return more, {name: (before[1].get(name, 0), now) for name, now in vmalloc().items() if now > before[1].get(name, 0)}

    same(f"objects and pages that {number} sessions keep", settled(grown, lambda now: now == ({}, {}), 20), ({}, {}))


def churn(sleepers, seconds, number, seed):
    mark = log_mark()
    run("sysctl", "-qw", f"kernel.hung_task_timeout_secs={120 * SLOWNESS}")
    for module in (INSPECT, MODULE):
        same(f"{module} comes", run("insmod", module).returncode, 0)
    chance = random.Random(seed)
    graphs = Graphs("fn:contexts_work")
    # What the kernel keeps for good after first use.
    start, cycles, known, ways = time.monotonic(), 0, [], Counter()
    workers = {f"/tmp/stop-{kind}": background("sh", WORKER, kind, f"/tmp/stop-{kind}") for kind in ("fork", "pipe")}
    callers = [background("/usr/bin/python3", "-c", CALLS_ON)]
    cycle(chance, f"the first, seed {seed}", [sleepers, EACH], known)
    TEXT.write_text("copy")
    while not cycles or time.monotonic() - start < float(seconds):
        ways += cycle(chance, f"cycle {cycles}, seed {seed}", [sleepers, EACH], known)
        cycles += 1
    figure("cycles, places where sleepers go on", (cycles, len(known)))
    figure("ends of sessions", dict(ways))
    stop_load(workers)
    end_callers(callers)
    same("no session and no block is left", (status()["sessions"], status()["blocks"]), ([], 0))
    lost_by_each(graphs, int(number))
    text = settled(TEXT.read_text, lambda now: now.endswith("differing 0\n"))
    check("all text is as it was", text.startswith("parts ") and text.endswith("differing 0\n"), text)
    figure("text", text.strip().splitlines()[-1])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    unload("at the end")
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(churn)
