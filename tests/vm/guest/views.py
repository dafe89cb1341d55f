# SPDX-License-Identifier: MIT OR Apache-2.0
"""Annotated functions, flame graphs, pages and branches by call show the counts that `-f json` has.

usage: views.py [VMLINUX]

VMLINUX: the running kernel's, with debug information. Without it there are no source lines.
"""

import fcntl
import html
import json
import os
import pty
import re
import struct
import subprocess
import termios
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from lib import check, figure, main, run, same, status

TIMES = 500
CMD = ["--", "/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={TIMES}", "status=none"]


def jifl(*arguments):
    """The object that a command prints."""
    end = run("jifl", *arguments)
    check(f"jifl {arguments[0]} {arguments[1]} ends well", end.returncode == 0, end)
    return json.loads(end.stdout), end.stderr


def annotate(vmlinux):
    """Of the same session: the text's and the object's. Of another, same program: the blocks'."""
    named, stderr = jifl("prof", "sys:read", "--annotate", "vfs_read", "-f", "json", *vmlinux, *CMD)
    check("what is missing is said once", stderr.count("no source lines of the kernel") == (0 if vmlinux else 1), stderr)
    function = named["annotated"][0]
    lines = {int(line["address"], 16): line for line in function["lines"]}
    same("the function begins as often as it is called", function["lines"][0]["executed"], function["calls"])
    check("it was called as often as the program reads", function["calls"] >= TIMES, function["calls"])
    prof = flames(vmlinux)
    mine = next(f for f in prof["functions"] if f["function"] == "vfs_read")
    start = int(mine["address"], 16)
    same("both programs call it equally often", (function["address"], function["calls"]), (mine["address"], mine["calls"]))
    blocks = [(int(b["address"], 16), b) for b in prof["blocks"] if b["name"].split("+")[0] == "vfs_read"]
    expected = {at: sum(b["executed"] for begin, b in blocks if begin <= at < begin + b["bytes"]) for at in lines}
    wrong = [(hex(at - start), line["executed"], expected[at]) for at, line in lines.items()
             if (line["executed"] or 0) != expected[at]]
    same("instructions were executed as often as their blocks", wrong, [])
    beyond = {}
    for begin, block in blocks:
        own = [at for at in lines if begin <= at < begin + block["bytes"]]
        if block["insns"] != len(own):
            beyond[lines[max(own)]["text"]] = block["insns"] > len(own)
    same("blocks have their instructions, and those of thunks", {text: more for text, more in beyond.items()
         if not (more and "_thunk" in text)}, {})
    check("shares are of all", abs(sum(line["share"] for line in lines.values()) - 1) < 1e-6, function)
    branches, _ = jifl("branch", "sys:read", "-f", "json", *CMD)
    there = {int(b["address"], 16): b for b in branches["branches"] if b["site"].split("+")[0] == "vfs_read"}
    same("branches are taken as `jifl branch` says", {at: line["taken"] for at, line in lines.items() if line["executed"]
         and line["taken"] is not None}, {at: b["taken"] for at, b in there.items()})
    check("they are conditional branches", there and all(lines[at]["text"].startswith("j") for at in there), there)
    end = run("jifl", "prof", "sys:read", "--annotate", "vfs_read", *vmlinux, *CMD)
    shown = re.findall(r"^ *([\d,]+|-) +(?:([\d.]+)%)? *\+(0x\w+)  (.*)$", end.stdout, re.M)
    same("the text has the same instructions", [(int(offset, 16), text.split("  ; ")[0]) for _, _, offset, text in shown],
         [(line["offset"], line["text"]) for line in function["lines"]])
    same("executed as often", [int(n.replace(",", "")) if n != "-" else None for n, *_ in shown],
         [line["executed"] for line in function["lines"]])
    check("the hottest come first", "\nhottest: +0x" in end.stdout, end.stdout[:300])
    if vmlinux:
        check("all lines are known", all(line["line"] for line in function["lines"]), function["lines"][:3])
        check("they are of the function, and of what is inlined", "fs/read_write.c:" in end.stdout
              and any(line["inlined"] for line in function["lines"]), end.stdout[:2000])
    end = run("jifl", "prof", "sys:read", "--annotate", "vfs_raed", *CMD)
    check("a wrong name is answered with the nearest", end.returncode == 1 and end.stderr.endswith(
        "; the nearest name is vfs_read\n"), end)
    figure("instructions annotated, executed", f"{len(lines)}, {function['instructions']}")


def flames(vmlinux):
    """Stacks and their graph are those of the object, which is returned."""
    inlined = ["--inlined", *vmlinux] if vmlinux else []
    prof, _ = jifl("prof", "sys:read", "-f", "json", "--folded", "/run/folded", "--svg", "/run/svg", *inlined, *CMD)
    stacks = [line.rsplit(" ", 1) for line in Path("/run/folded").read_text().splitlines()]
    same("folded: all instructions", sum(int(count) for _, count in stacks), prof["instructions"])
    root = ElementTree.parse("/run/svg").getroot()
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    check("the graph stands on all instructions", f"all ({prof['instructions']:,} instructions, 100%)" in titles,
          titles[-3:])
    boxes = [re.fullmatch(r"(.*) \(([\d,]+) instructions, .*\)", title) for title in titles]
    shown = dict(box.groups() for box in boxes if box)
    large = [f for f in prof["functions"] if f["instructions"] > prof["instructions"] / 100]
    same("its boxes are the functions", {f["function"]: f"{f['instructions']:,}" for f in large if " [" not in f["function"]
         and not vmlinux}, {f["function"]: shown.get(f["function"]) for f in large if " [" not in f["function"]
         and not vmlinux})
    if vmlinux:
        check("inlined functions have boxes", any(stack.count(";") > 1 for stack, _ in stacks), stacks[:5])
    return prof


def pages(vmlinux):
    """All that cover writes is of one session."""
    cover, stderr = jifl("cover", "sys:read", "sys:write", "--edges", "-f", "json", "--html", "/run/html", "--lcov", "/run/lcov",
                         *vmlinux, *CMD)
    same("missing lines are said once", stderr.count("no source lines of the kernel"), 0 if vmlinux else 1)
    index = Path("/run/html/index.html").read_text()
    rows = re.findall(r'<tr class="\w+"><td>(?:<a href="[^"]*">)?([^<]*)(?:</a>)?' + r"<td>([^<\n]*)" * 6 + "$", index, re.M)
    shown = {html.unescape(row[0]): row[1:] for row in rows}
    wanted = {f["function"]: (f"{f['calls']:,}", f"{f['instructions']:,}", f"{f['blocks_executed']}/{f['blocks']}",
                              f"{f['edges_executed']}/{f['edges']}", f"{f['bytes_executed']}/{f['size']}",
                              f"{f['bytes_executed'] / f['size'] * 100:.1f}%") for f in cover["functions"]}
    same("the page has the functions and numbers of the object", shown, wanted)
    check("edges are edges", all(f["edges"] % 2 == 0 and f["edges_executed"] <= f["edges"] for f in cover["functions"])
          and any(0 < f["edges_executed"] < f["edges"] for f in cover["functions"]), cover["functions"])
    check("pages ask for nothing from elsewhere", not re.search(r"https?:|<script|<link", index))
    lcov = Path("/run/lcov").read_text()
    if not vmlinux:
        same("lcov: no lines", re.findall(r"^(?:DA|BRDA):", lcov, re.M), [])
        return
    lines = {}
    for record in lcov.split("end_of_record\n"):
        name = re.search("^SF:(.*)", record, re.M)
        lines |= {name[1]: dict(re.findall(r"^DA:(\d+),(\d+)", record, re.M))} if name else {}
    page = Path("/run/html/fs--read_write.c.html").read_text()
    shown = dict(re.findall(r'<span id="L(\d+)" class="\w+"> *\d+ +([\d,]+)  ', page))
    same("a page has the lines of lcov", {line: n.replace(",", "") for line, n in shown.items()}, lines["fs/read_write.c"])
    check("there are branches of lines", "\nBRDA:" in lcov)
    figure("source files, lines", f"{len(lines)}, {sum(map(len, lines.values()))}")


def per_call():
    """What both calls share, and what they are told apart by there."""
    found, _ = jifl("branch", "--per-call", "sys:read", "sys:write", "-f", "json", *CMD)
    same("both targets were called", [target["target"] for target in found["targets"] if target["calls"] >= TIMES],
         ["sys:read", "sys:write"])
    check("branches are found", found["branches"])
    for branch in found["branches"]:
        sides = {call["target"]: call for call in branch["calls"]}
        right = {name: side["right"] for name, side in sides.items()}
        share = {name: side["taken"] / side["executed"] for name, side in sides.items()}
        if not check("one is right where the other is wrong", sorted(right.values()) == [False, True]
                     and sorted(share.values())[0] <= 0.1 and sorted(share.values())[1] >= 0.9, branch):
            break
    alone, _ = jifl("branch", "sys:read", "-f", "json", *CMD)
    counts = {(b["address"], b["target_address"]): (b["executed"], b["taken"]) for b in alone["branches"]}
    mine = {(b["address"], b["target_address"]): (call["executed"], call["taken"]) for b in found["branches"]
            for call in b["calls"] if call["target"] == "sys:read"}
    same("counts are those of a session for one target", {key: counts.get(key) for key in mine}, mine)
    same("no session is left", status()["sessions"], [])
    end = run("jifl", "branch", "--per-call", "sys:read", "sys:write", *CMD)
    check("the text has them", end.returncode == 0 and " wrong" in end.stdout and " right" in end.stdout
          and "# sys:read: missed 0; blocks without a counter 0\n" in end.stdout, end)
    end = run("jifl", "branch", "--hints", "sys:read", "-f", "json", *CMD)
    hints = json.loads(end.stdout)["branches"]
    check("hints are sorted by cost", hints and all(a["cost"] >= b["cost"] for a, b in zip(hints, hints[1:])), end)
    check("a branch that is taken has the prefix for it", all(b["hint"] == "3e" for b in hints
          if b["verdict"] == "falls through rarely") and "3e" in [b["hint"] for b in hints], hints)
    figure("branches that differ between read and write", len(found["branches"]))


def on_terminal(columns, *arguments):
    """What a command writes to a terminal of so many columns."""
    own, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(["jifl", *arguments], stdin=subprocess.DEVNULL, stdout=other, stderr=subprocess.PIPE)
    os.close(other)
    data = b""
    while True:
        try:
            part = os.read(own, 65536)
        except OSError:
            break
        data += part
    process.communicate()
    os.close(own)
    return data.decode().replace("\r\n", "\n")


def terminals():
    for arguments in (["prof", "sys:read", "--annotate", "__x64_sys_read"], ["cover", "--edges", "sys:read"],
                      ["branch", "--hints", "sys:read"], ["count", "insn", "sys:read"],
                      ["count", "insn", "sys:read", "--by", "comm,pid,cpu"], ["count", "hist:retval", "sys:read"],
                      ["count", "branch", "--by", "func", "sys:read"], ["lock", "sys:read"]):
        text = on_terminal(40, *arguments, "--", "/bin/true")
        long = [line for line in re.sub(r"\x1b\[\d*m", "", text).splitlines() if len(line) > 40]
        check(f"{arguments}: no line is wider than the terminal", text and not long, long[:3])
        check(f"{arguments}: what was missed is said", re.search(r"missed[\n #]+0", text), text[-300:])
        if "--annotate" in arguments:
            check("hot instructions are red", "\x1b[31m" in text, text[:500])
    closed = run("sh", "-c", "jifl prof sys:read --annotate vfs_read -- /bin/true | head -1")
    check("a closed pipe is no error", "panic" not in closed.stderr and closed.stdout.count("\n") == 1, closed)
    check("there is no colour in a pipe", "\x1b" not in closed.stdout, closed.stdout)


def full_disk():
    """What cannot be written beside the report does not cost the report."""
    for command, option in [("cover", "--drcov"), ("cover", "--lcov"), ("prof", "--folded"), ("prof", "--svg")]:
        end = run("jifl", command, "sys:read", option, "/dev/full", "--", "/bin/true")
        check(f"{option}: the report is there, and the error", end.returncode == 1 and end.stdout.startswith("FUNCTION")
              and "/dev/full: No space left" in end.stderr, end)


def refusals():
    end = run("jifl", "cover", "sys:read", "--lcov", "/run/x", "--vmlinux", "/bin/true", "--", "/bin/true")
    check("what is no vmlinux is refused in one line", end.returncode == 1 and end.stderr.count("\n") == 1
          and "no debug information in it" in end.stderr, end)
    end = run("jifl", "branch", "--per-call", "sys:read", "--", "/bin/true")
    check("one target cannot be compared", end.returncode == 2 and "2 targets" in end.stderr, end)


def program(vmlinux=None):
    vmlinux = ["--vmlinux", vmlinux] if vmlinux else []
    annotate(vmlinux)
    pages(vmlinux)
    per_call()
    terminals()
    full_disk()
    refusals()


main(program)
