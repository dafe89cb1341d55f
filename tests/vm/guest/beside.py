# SPDX-License-Identifier: MIT OR Apache-2.0
"""jifl stat beside other tools that watch the same reads of one process, all at the same time.

usage: beside.py

A process reads from a pipe so many times, and is seen asleep in each read before a byte is written.
So it is known how many calls there were, and for how long they slept, at least and at most. Whoever
counts calls has to have their number. Whoever measures their time has to be between the two. How
far the tools are apart within that is printed.
"""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

from lib import background, check, complaints, figure, interrupt, kernel_log, log_mark, main, same, state_of, status, wait_for
from reader import now, on_each_processor
from times import between, stat

ROUNDS, WAIT = 12, 0.03
TRACING = Path("/sys/kernel/tracing")
FUNCTION = "ksys_read"
GROUP, EVENT = "beside", "seen"


class Worker:
    """A process that waits for a signal, and then reads: nothing else of it is a read while it is told to."""

    def __init__(self):
        theirs, self.pipe = os.pipe()
        self.done, tell = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        self.pid = os.fork()
        if self.pid == 0:
            # It ends with the test.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.close(self.pipe)
            while True:
                signal.sigwait({signal.SIGUSR1})
                before = self.of_scheduler()
                for _ in range(ROUNDS):
                    os.read(theirs, 1)
                after = self.of_scheduler()
                os.write(tell, json.dumps([later - sooner for sooner, later in zip(before, after)]).encode())
        self.waits("sigtimedwait")

    def of_scheduler(self):
        """In nanoseconds, by the scheduler itself: asleep, ran, waited. Without a read in the process itself: by its own words."""
        lines = dict(line.split(":", 1) for line in proc_file("sched").splitlines() if ":" in line)
        words = {name.strip(): value for name, value in lines.items()}
        slept = sum(round(float(words[f"{name}_runtime"]) * 1e6) for name in ("sum_sleep", "sum_block"))
        return [slept, *map(int, proc_file("schedstat").split()[:2])]

    def waits(self, where):
        wchan = Path(f"/proc/{self.pid}/wchan")
        wait_for(f"the process is in {where}", lambda: state_of(self.pid) == "S" and where in wchan.read_text())
        on_each_processor()

    def works(self):
        """All reads. The time that they slept, at least; that they took, at most; what the scheduler says of it."""
        least, began = 0, now()
        os.kill(self.pid, signal.SIGUSR1)
        for _ in range(ROUNDS):
            self.waits("pipe")
            seen = now()
            time.sleep(WAIT)
            least += now() - seen
            os.write(self.pipe, b"x")
        own = json.loads(os.read(self.done, 1000))
        self.waits("sigtimedwait")
        return least, now() - began, own

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def proc_file(name):
    """A file of this process, by pread: FUNCTION is not in it."""
    file = os.open(f"/proc/self/{name}", os.O_RDONLY)
    try:
        return os.pread(file, 1 << 16, 0).decode()
    finally:
        os.close(file)


class Kernel:
    """The kernel's own: a kprobe event, counted by a hist trigger."""

    def __init__(self, pid):
        self.pid = pid
        self.tell(f"p:{GROUP}/{EVENT} {FUNCTION}")
        self.event = TRACING / f"events/{GROUP}/{EVENT}"
        (self.event / "trigger").write_text("hist:keys=common_pid\n")

    @staticmethod
    def tell(line):
        # Others' events stay.
        events = os.open(TRACING / "kprobe_events", os.O_WRONLY)
        os.write(events, f"{line}\n".encode())
        os.close(events)

    def end(self):
        text = (self.event / "hist").read_text()
        found = re.search(rf"common_pid:\s*{self.pid} }}\s*hitcount:\s*(\d+)", text)
        (self.event / "trigger").write_text("!hist:keys=common_pid\n")
        self.tell(f"-:{GROUP}/{EVENT}")
        return {"calls": int(found[1]) if found else text}


class Perf:
    """perf stat, of the same event: it counts for the process alone."""

    def __init__(self, pid):
        self.process = background("perf", "stat", "-x,", "-e", f"{GROUP}:{EVENT},context-switches", "-p", str(pid), "sleep", "1000")
        self.ready = lambda: self.process.poll() is not None or "sleep" in children(self.process.pid)

    def end(self):
        for child in children(self.process.pid).values():
            os.kill(child, signal.SIGTERM)
        _, err = self.process.communicate()
        check("perf stat: its counts", f"{GROUP}:{EVENT}" in err, err)
        counts = {line.split(",")[2]: line.split(",")[0] for line in err.splitlines() if line.count(",") > 2}
        return {"calls": int(counts[f"{GROUP}:{EVENT}"]), "switches": int(counts["context-switches"])}


def children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in text.split()}


def beside():
    mark = log_mark()
    Path("/proc/sys/kernel/sched_schedstats").write_text("1")
    check("perf is installed: scripts/setup does it", shutil.which("perf"))
    worker = Worker()
    tools = {}
    for name, tool in (("hist trigger", Kernel), ("perf stat", Perf)):
        tools[name] = tool(worker.pid)
        wait_for(f"{name} is ready", getattr(tools[name], "ready", lambda: True), timeout=120)
    owner = stat("calls,wall,blocked,runnable,cpu,hist:wall", f"fn:{FUNCTION}", "-p", str(worker.pid))
    least, most, (slept, ran, waited) = worker.works()
    out, err = interrupt(owner)
    # The event goes when nobody counts it any more.
    told = {name: tool.end() for name, tool in reversed(tools.items())}
    worker.end()
    row, = json.loads(out)["functions"]
    told["scheduler"] = {"away": slept}
    told["jifl stat"] = {"calls": row["calls"], "wall": row["wall_ns"], "away": row["blocked_ns"] + row["runnable_ns"]}
    same("jifl stat: nothing is missed", (json.loads(out)["missed"], row["adopted"], row["inside"], row["strays"]), (0, 0, 0, 0))
    for name, one in told.items():
        if "calls" in one:
            same(f"{name}: calls", one["calls"], ROUNDS)
        for of in ("wall", "away"):
            if of in one:
                between(f"{name}: {of}", least, one[of], most)
    between("jifl stat: blocked", least, row["blocked_ns"], most)
    # Each sleep is a switch.
    check("perf stat: switches", told["perf stat"]["switches"] >= ROUNDS, told)
    # Its clock is that of the last event of the run queue, so how far it is behind is printed alone.
    figure("asleep or waiting, in ms: jifl stat, scheduler", f"{told['jifl stat']['away'] / 1e6:.3f}, {slept / 1e6:.3f} "
           f"(least {least / 1e6:.3f}, most {most / 1e6:.3f})")
    figure("the scheduler's, in ms: ran, waited; jifl stat's", f"{ran / 1e6:.3f}, {waited / 1e6:.3f}; "
           f"{row['cpu_ns'] / 1e6:.3f}, {row['runnable_ns'] / 1e6:.3f}")
    same("no session is left", status()["sessions"], [])
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(beside)
