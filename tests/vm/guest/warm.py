# SPDX-License-Identifier: MIT OR Apache-2.0
"""Blocks of a recording are translated before a session's calls come to them (`--warm`).

The machine's clock counts instructions.

usage: warm.py FIRST_CALL
"""

import json
import re
import tempfile
import zlib
from pathlib import Path

from lib import check, figure, main, run, same

HERE = Path(tempfile.mkdtemp(prefix="warm"))
# A first call may come to what no recording has: targets of indirect branches, native code.
NEARLY = 500
# A first call in a session without --warm costs at least so many times that of a warmed one.
MUCH = 20


def jifl(*words):
    return run("jifl", *words, cwd=HERE)


def count(name, program, *options, kind="block"):
    """The report of a session, and what the three calls cost."""
    end = jifl("count", kind, f"sys:{name}", "-f", "json", "-o", "count.json", *options, "--", program, name)
    same(f"{name} {' '.join(options)}: status", end.returncode, 0)
    return json.loads((HERE / "count.json").read_text()), [int(word) for word in end.stdout.split()], end.stderr


def body(name):
    """The JSON object of a recording."""
    return json.loads(zlib.decompress((HERE / name).read_bytes()[20:-12]))


def write(name, data):
    """A recording with this object."""
    packed = zlib.compress(json.dumps(data).encode())
    head = b"\x89JIFLREC" + (1).to_bytes(4, "little") + len(packed).to_bytes(8, "little") + packed
    (HERE / name).write_bytes(head + zlib.crc32(head).to_bytes(4, "little") + b"JIFLEND\n")


def warmed(stderr):
    """Of the line that says how it went: blocks warmed, blocks skipped."""
    found = re.search(r"^jifl: warmed ([\d,]+) blocks of \S+ in .*, ([\d,]+) skipped", stderr, re.M)
    return tuple(int(number.replace(",", "")) for number in found.groups()) if found else None


def executed(name):
    return sum(block["executed"] > 0 for block in body(name)["blocks"])


# --- what it is for -------------------------------------------------------------------------


def steady(program):
    """The first epoll_wait of a warmed session translates next to nothing."""
    native = [int(word) for word in run(program, "epoll_wait").stdout.split()]
    same("record: status", jifl("record", "sys:epoll_wait", "-o", "epoll.jifl", "--", program, "epoll_wait").returncode, 0)
    cold, cold_calls, _ = count("epoll_wait", program)
    warm, warm_calls, said = count("epoll_wait", program, "--warm", "epoll.jifl")
    figure("epoll_wait: instructions of calls 1 to 3, natively", native)
    figure("... counted", cold_calls)
    figure("... counted, warmed", warm_calls)
    figure("... blocks translated, without and with --warm", (cold["translation"]["blocks"], warm["translation"]["blocks"]))
    check("warmed: the first call costs what the second does", warm_calls[0] - warm_calls[1] <= NEARLY, warm_calls)
    check("not warmed: it costs much more", cold_calls[0] > MUCH * warm_calls[0], (cold_calls, warm_calls))
    check("warmed: next to nothing is translated", warm["translation"]["blocks"] <= 1, warm["translation"])
    check("warmed: the third call costs what it did", abs(warm_calls[2] - cold_calls[2]) <= cold_calls[2] // 20,
          (cold_calls, warm_calls))
    same("it says so", warmed(said), (executed("epoll.jifl"), 0))
    keys = ("calls", "min", "max", "blocks_executed", "missed")
    same("the counts are the same", *([[target[key] for key in keys] for target in data["targets"]] for data in (warm, cold)))
    check("blocks made ahead are nobody's", warm["targets"][0]["blocks"] <= 1 < cold["targets"][0]["blocks"], warm["targets"])


def other_calls(program):
    """First calls of larger system calls, for figures; indirect branches and chance are left."""
    for name in ("newfstatat", "socket", "openat"):
        jifl("record", f"sys:{name}", "-o", f"{name}.jifl", "--", program, name)
        cold, cold_calls, _ = count(name, program)
        warm, warm_calls, said = count(name, program, "--warm", f"{name}.jifl")
        figure(f"{name}: calls natively; counted; and warmed", (run(program, name).stdout, cold_calls, warm_calls))
        figure("... blocks translated", (cold["translation"]["blocks"], warm["translation"]["blocks"]))
        check(f"{name}: warming leaves a tenth of the translation", 10 * warm["translation"]["blocks"]
              <= cold["translation"]["blocks"], (cold["translation"], warm["translation"]))
        check(f"{name}: said", warmed(said) and warmed(said)[0] > 100, said)


def not_the_callers():
    """The request is itself a call of the session: it is counted, and the blocks are not its."""
    end = jifl("count", "block", "sys:ioctl", "--warm", "openat.jifl", "--for", "1s", "-f", "json")
    same("ioctl: status", end.returncode, 0)
    target = json.loads(end.stdout)["targets"][0]
    n = executed("openat.jifl")
    check("ioctl: the blocks made for it are not those it asked for", target["blocks"] < n // 4, (target, n))
    check("ioctl: the call that asked is counted", target["calls"] >= 1 and target["missed"] <= 1, target)


def each_command(program):
    """All that have a session take it."""
    for words in (["trace", "-o", "trace"], ["why"], ["cover"], ["prof"], ["branch"], ["lock"], ["mem"], ["record"], ["dump"],
                  ["count", "insn"], ["count", "call"], ["count", "none"], ["count", "opcode"], ["count", "hist:duration"]):
        end = jifl(*words, "sys:epoll_wait", "--warm", "epoll.jifl", "--", program, "epoll_wait")
        same(f"{' '.join(words)}: status", end.returncode, 0)
        same(f"{' '.join(words)}: said", warmed(end.stderr), (executed("epoll.jifl"), 0))


# --- what does not fit ----------------------------------------------------------------------


def other_code(program):
    """Blocks that are not what stands there are skipped: a place within an instruction is none."""
    n = executed("epoll.jifl")
    data = body("epoll.jifl")
    for block in data["blocks"]:
        block["at"]["offset"] += 1
        block.pop("branch", None)
    write("shifted.jifl", data)
    report, _, said = count("epoll_wait", program, "--warm", "shifted.jifl")
    same("one byte further: all are skipped", warmed(said), (0, n))
    check("... as other code", "skipped (other code)" in said, said)
    same("... and the calls are counted all the same", report["targets"][0]["calls"], 3)

    data = body("epoll.jifl")
    data["blocks"][0]["hash"] ^= 1
    write("changed.jifl", data)
    _, _, said = count("epoll_wait", program, "--warm", "changed.jifl")
    skipped = int(data["blocks"][0]["executed"] > 0)
    same("one with other bytes", warmed(said), (n - skipped, skipped))

    data["boot_id"] = "another"
    write("boot.jifl", data)
    _, calls, said = count("epoll_wait", program, "--warm", "boot.jifl")
    same("of another boot: bytes are not compared", warmed(said), (n, 0))
    check("... and the first call is warm", calls[0] - calls[1] <= NEARLY, calls)

    data = body("epoll.jifl")
    data["kernel"]["build_id"] = "beef"
    data["kernel"]["release"] = "5.10.0-1-amd64"
    for image in data["images"]:
        image["build_id"] = "beef"
    write("kernel.jifl", data)
    _, calls, said = count("epoll_wait", program, "--warm", "kernel.jifl")
    same("of another kernel: all are skipped", warmed(said), (0, n))
    same("... in one line that names it", [line for line in said.splitlines() if "another kernel: 5.10.0-1-amd64" in line], said.splitlines())
    check("... and the first call is cold", calls[0] > MUCH * calls[1], calls)


def refused():
    """What is no recording with blocks: one line, and CMD does not run."""
    whole = (HERE / "epoll.jifl").read_bytes()
    (HERE / "cut.jifl").write_bytes(whole[:-1])
    jifl("count", "insn", "sys:getppid", "--record", "count.jifl", "--", "sh", "-c", ":")
    for file, word, status in (("/etc/passwd", "no recording of jifl", 1), ("cut.jifl", "truncated", 1), ("missing.jifl", "No such file", 1),
                               ("count.jifl", "without blocks", 1)):
        end = jifl("count", "block", "sys:getppid", "--warm", file, "--", "touch", HERE / "ran")
        same(f"{file}: status, lines", (end.returncode, len(end.stderr.splitlines()), end.stdout), (status, 1, ""))
        check(f"{file}: why", word in end.stderr and file in end.stderr, end.stderr)
    end = jifl("branch", "--per-call", "sys:getppid", "sys:read", "--warm", "epoll.jifl", "--", "touch", HERE / "ran")
    same("several sessions: status, lines", (end.returncode, len(end.stderr.splitlines())), (2, 1))
    check("several sessions: why", "--warm does not go with several sessions" in end.stderr, end.stderr)
    Path("/proc/sys/kernel/kptr_restrict").write_text("2")
    end = jifl("count", "block", "sys:getppid", "--warm", "epoll.jifl", "--", "touch", HERE / "ran")
    Path("/proc/sys/kernel/kptr_restrict").write_text("1")
    same("addresses are hidden: status, lines", (end.returncode, len(end.stderr.splitlines())), (3, 1))
    check("addresses are hidden: why", "kptr_restrict" in end.stderr, end.stderr)
    check("nothing was run", not (HERE / "ran").exists())


def program(first_call):
    steady(first_call)
    other_calls(first_call)
    not_the_callers()
    each_command(first_call)
    other_code(first_call)
    refused()


main(program)
