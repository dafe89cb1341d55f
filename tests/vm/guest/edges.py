# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executions of edges that follow from those of blocks are those that were counted; and `jifl cfg` of the running kernel shows
what was executed, as `jifl prof --annotate` counted it.

usage: edges.py DIRECTORY LOAD...

DIRECTORY is the host's. It gets a recording of each load, and the directory `kernel`, which `jifl analyze --keep` makes.
LOAD is a line of the shell.
"""

import json
from pathlib import Path

from lib import check, figure, main, run, same

# Functions that each load executes, of different shapes.
SHOWN = ["vfs_read", "path_openat", "link_path_walk.part.0.constprop.0", "do_filp_open", "__fget_light"]


def derived(name, recording, *source):
    """The table of a recording: none of what follows may be wrong."""
    end = run("jifl", "analyze", "--recording", recording, "-f", "json", *source)
    check(f"{name}: analyzed", end.returncode == 0, end)
    row = json.loads(end.stdout)["modules"][-1]
    same(f"{name}: wrong edges", row["wrong"], 0)
    check(f"{name}: much is compared", row["compared"] > 2000, row)
    check(f"{name}: most of the counted edges follow", row["compared"] * 10 > row["counted"] * 9, row)
    # Threads sleep in functions when the session ends; code runs natively, and faults.
    check(f"{name}: few functions contradict themselves", row["contradictory"] * 20 <= row["functions"], row)
    share = 100 * row["derived"] / row["edges"]
    figure(f"edges, {name}", f"{row['edges']} of {row['functions']} functions, {row['contradictory']} more contradict themselves; "
           f"{share:.1f} % follow; {row['compared']} of {row['counted']} counted ones compared, {row['wrong']} wrong; "
           f"{row['fewest_counters']} counters for {row['counters']}")


def as_annotated(directory, load):
    """`jifl cfg` and `jifl prof --annotate` of the same session."""
    for name in SHOWN[:2]:
        recording = directory / f"{name}.jifl"
        end = run("jifl", "prof", "sys:*", "--annotate", name, "--record", recording, "-f", "json", "-o", "/run/annotated", "--",
                  "sh", "-c", load)
        check(f"{name}: annotated", end.returncode == 0, end)
        rows = json.loads(Path("/run/annotated").read_text())["annotated"][0]["lines"]
        counted = {row["address"]: row for row in rows}
        end = run("jifl", "cfg", f"fn:{name}", "--recording", recording, "-f", "json")
        check(f"{name}: shown", end.returncode == 0, end)
        graph = json.loads(end.stdout)["functions"][0]
        check(f"{name}: understood", graph["whole"] and not graph["unexplained"], graph["unexplained"])
        inside = {own["address"]: own for block in graph["blocks"] for own in block["instructions"]}
        missing = [row for row in rows if row["executed"] and row["address"] not in inside]
        same(f"{name}: executed instructions that are in no block", missing, [])
        texts = {(own["text"], counted[at]["text"]) for at, own in inside.items()
                 if at in counted and own["text"].split()[0] != counted[at]["text"].split()[0]}
        same(f"{name}: other instructions", texts, set())
        for block in graph["blocks"]:
            row = counted.get(block["address"])
            if row and block["executed"] is not None and block["executed"] != (row["executed"] or 0):
                check(f"{name}: executions of {block['place']}", False, (block["executed"], row))
        ways = 0
        for edge in graph["edges"]:
            row = counted.get(graph["blocks"][edge["from"]]["instructions"][-1]["address"])
            if edge["kind"] == "taken" and edge["counted"] and row:
                same(f"{name}: taken at {row['address']}", edge["executed"], row["taken"])
                ways += 1
        check(f"{name}: branches are compared", ways > 3, ways)


def forms(recording):
    """All forms of a graph, and what is refused."""
    for name in SHOWN[:4]:
        end = run("jifl", "cfg", f"fn:{name}", "--recording", recording)
        check(f"cfg of {name}", end.returncode == 0 and "-> returns" in end.stdout, end)
        end = run("jifl", "cfg", f"fn:{name}", "-f", "dot")
        check(f"dot of {name}", end.returncode == 0 and end.stdout.startswith("digraph"), end)
    end = run("jifl", "cfg", "fn:vfs_raed")
    check("a name that is not there", end.returncode == 2 and "fn:vfs_read" in end.stderr and end.stderr.count("\n") == 1, end)
    end = run("jifl", "cfg", "fn:vfs_read", "--recording", "/bin/true")
    check("no recording", end.returncode == 1 and end.stderr.count("\n") == 1, end)


def paths():
    """Calls that the code names, and those that were seen."""
    end = run("jifl", "path", "fn:ksys_read", "fn:vfs_read")
    check("a direct path", end.returncode == 0 and "vfs_read  called at ksys_read" in end.stdout, end)
    end = run("jifl", "trace", "sys:read", "--record", "/run/trace.jifl", "-o", "/run/trace", "--", "cat", "/proc/version")
    check("traced", end.returncode == 0, end)
    words = ["path", "fn:vfs_read", "fn:version_proc_show"]
    end = run("jifl", *words)
    check("no path", end.returncode == 0 and end.stdout.startswith("no path from vfs_read to version_proc_show"), end)
    end = run("jifl", *words, "--recording", "/run/trace.jifl")
    check("a path that was seen", end.returncode == 0 and "* indirectly by " in end.stdout, end)
    figure("path", end.stdout.replace("\n", "; "))


def edges(directory, *loads):
    directory = Path(directory)
    for number, load in enumerate(loads):
        recording = directory / f"{number}.jifl"
        end = run("jifl", "record", "sys:*", "-o", recording, "--", "sh", "-c", load)
        check(f"load {number}: recorded", recording.exists(), end)
        derived(f"load {number}", recording)
    as_annotated(directory, loads[0])
    forms(directory / "0.jifl")
    paths()
    end = run("jifl", "analyze", "--keep", directory / "kernel")
    check("the kernel is kept", end.returncode == 0, end)


main(edges)
