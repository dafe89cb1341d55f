# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl analyze --watch` tells what changes in the kernel's text, and nothing of what tracers patch in."""

import json
import threading
from pathlib import Path

from lib import PATIENCE, background, check, figure, interrupt, main, run, same, wait_for

SCHEDSTATS = Path("/proc/sys/kernel/sched_schedstats")
TRACING = Path("/sys/kernel/tracing")
# It has no dependencies, and is small.
MODULE = "dummy"


class Watch:
    """The command, and what it has told so far."""

    def __init__(self):
        self.process = background("jifl", "analyze", "--watch", "-i", "100ms", "-f", "json")
        self.first = self.process.stderr.readline()
        self.changes = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.changes.append(json.loads(line))

    def wait(self, what, change, module):
        def told():
            return any(one["change"] == change and one["module"] == module for one in self.changes)
        wait_for(what, told, PATIENCE)


def words(changes):
    """Of each place, what was said of it, one after the other, without what stands while it is written."""
    places = {}
    for one in changes:
        for place in one.get("places", []):
            if place["what"] != "breakpoint":
                places.setdefault((one["function"], place["offset"]), []).append(place["what"])
    return places


def text_watch():
    run("mount", "-t", "tracefs", "nodev", TRACING)
    same("statistics are off", SCHEDSTATS.read_text(), "0\n")
    watch = Watch()
    check("it begins", "what changes in them is told" in watch.first, watch.first)
    SCHEDSTATS.write_text("1")
    (TRACING / "set_ftrace_filter").write_text("vfs_read\nvfs_write\n")
    (TRACING / "current_tracer").write_text("function")
    same("the module is loaded", run("modprobe", MODULE).returncode, 0)
    watch.wait("the module's functions", "came", MODULE)
    # Their jump labels turn back; these looks are behind the one that saw the module.
    SCHEDSTATS.write_text("0")
    (TRACING / "current_tracer").write_text("nop")
    same("the module is gone", run("rmmod", MODULE).returncode, 0)
    watch.wait("the module's functions are gone", "went", MODULE)
    _, stderr = interrupt(watch.process)
    watch.reader.join(PATIENCE)
    same("it ends", watch.process.returncode, 0)
    check("it says what a look took", "a look took" in stderr, stderr)
    places = words(watch.changes)
    turned = {place: said for place, said in places.items()
              if said == ["jump label jumps", "jump label does not jump"]}
    figure("jump labels that turned", f"{len(turned)}, in {len({name for name, _ in turned})} functions")
    check("jump labels turn, and turn back", len(turned) >= 10, places)
    check("those of the scheduler do", any("enqueue" in name for name, _ in turned), sorted(turned))
    traced = [one for one in watch.changes if one.get("function") in ("vfs_read", "vfs_write")]
    same("tracers change nothing", traced, [])
    for change in "came", "went":
        number = [one["functions"] for one in watch.changes if one["change"] == change and one["module"] == MODULE]
        check(f"all functions of the module {change} at once", len(number) == 1 and number[0] > 5, number)
    timed = run("jifl", "analyze", "--watch", "-i", "100ms", "--for", "500ms", f"mod:{MODULE}")
    check("it ends by the time", timed.returncode == 0 and timed.stdout == "" and "0 changes" in timed.stderr, timed)
    unread = run("sh", "-c", "jifl analyze --watch -i 100ms | true")
    check("it ends with its reader", unread.returncode == 0 and "a look took" in unread.stderr, unread)
    unknown = run("jifl", "analyze", "--watch", "fn:no_such_function")
    same("a function that is not there is refused", unknown.returncode, 2)
    refused = run("jifl", "analyze", "--watch", "-f", "csv")
    check("a table is refused", refused.returncode == 2 and "-f text or json" in refused.stderr, refused)


main(text_watch)
