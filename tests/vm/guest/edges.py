# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl cfg` of the running kernel shows what was executed, as `jifl prof --annotate` counted it.

It also keeps what test_edges.py looks at.

usage: edges.py DIRECTORY LOAD...

DIRECTORY is the host's. It gets a recording of each load, one of the first load with code, one of
`jifl trace`, and the directory `kernel`, which `jifl analyze --keep` makes. LOAD is a line of the shell.
"""

import json
from pathlib import Path

from lib import check, main, run, same

SHOWN = "vfs_read"


def annotated(recording, load):
    """What `jifl prof --annotate` counts, by the address of the instruction."""
    end = run("jifl", "prof", "sys:*", "--annotate", SHOWN, "--record", recording, "-f", "json", "-o", "/run/annotated", "--",
              "sh", "-c", load)
    check("annotated", end.returncode == 0, end)
    rows = json.loads(Path("/run/annotated").read_text())["annotated"][0]["lines"]
    return {row["address"]: row for row in rows}


def as_annotated(recording, load):
    """The running kernel's graph, with executions of the same session."""
    counted = annotated(recording, load)
    end = run("jifl", "cfg", f"fn:{SHOWN}", "--recording", recording, "-f", "json")
    check("shown", end.returncode == 0, end)
    graph = json.loads(end.stdout)["functions"][0]
    check("understood", graph["whole"] and graph["executions"] == "consistent", (graph["unexplained"], graph["executions"]))
    inside = {own["address"]: own for block in graph["blocks"] for own in block["instructions"]}
    executed = {address for address, row in counted.items() if row["executed"]}
    same("executed instructions that are in no block", executed - set(inside), set())
    # Names of targets are written otherwise.
    other = {address for address in executed if inside[address]["text"].split()[0] != counted[address]["text"].split()[0]}
    same("other instructions", other, set())
    wrong = [block["place"] for block in graph["blocks"]
             if block["executed"] not in (None, counted[block["address"]]["executed"] or 0)]
    same("blocks with other executions", wrong, [])
    ways = 0
    for edge in graph["edges"]:
        row = counted[graph["blocks"][edge["from"]]["instructions"][-1]["address"]]
        if edge["kind"] == "taken" and edge["counted"]:
            same(f"taken at {row['address']}", edge["executed"], row["taken"])
            ways += 1
    check("branches are compared", ways > 3, ways)


def of_its_own_session():
    """The running kernel's graph, with executions of a session that the same command has run."""
    end = run("jifl", "cfg", f"fn:{SHOWN}", "--count", "sys:read", "-f", "json", "-o", "/run/graph", "--", "sh", "-c",
              "dd if=/dev/zero of=/dev/null bs=1 count=500; exit 3")
    same("the command's exit status", end.returncode, 3)
    graph = json.loads(Path("/run/graph").read_text())["functions"][0]
    same("its counts agree", (graph["whole"], graph["executions"]), (True, "consistent"))
    entry = next(block for block in graph["blocks"] if block["entry"])
    # The shell and the linker read, too.
    check("its calls", 500 <= entry["executed"] < 600, entry["executed"])
    check("edges", sum(edge["executed"] or 0 for edge in graph["edges"]) > 500, graph["edges"])


def edges(directory, *loads):
    directory = Path(directory)
    for number, load in enumerate(loads):
        recording = directory / f"{number}.jifl"
        end = run("jifl", "record", "sys:*", "-o", recording, "--", "sh", "-c", load)
        check(f"load {number}: recorded", recording.exists(), end)
    end = run("jifl", "record", "--code", "sys:*", "-o", directory / "code.jifl", "--", "sh", "-c", loads[0])
    check("recorded with code", (directory / "code.jifl").exists(), end)
    as_annotated(directory / "annotated.jifl", loads[0])
    of_its_own_session()
    end = run("jifl", "trace", "-A", "sys:read", "--record", directory / "trace.jifl", "-o", "/run/trace", "--", "cat",
              "/proc/version")
    check("traced", end.returncode == 0, end)
    end = run("jifl", "analyze", "--recording", directory / "0.jifl", "-f", "json")
    check("the running kernel's edges", end.returncode == 0, end)
    (directory / "running.json").write_text(end.stdout)
    end = run("jifl", "analyze", "--keep", directory / "kernel")
    check("the kernel is kept", end.returncode == 0, end)


main(edges)
