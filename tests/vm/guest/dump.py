# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl dump` and its request, compared with the kernel's text and with what sessions insert.

usage: dump.py
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import struct
from pathlib import Path

from lib import Device, background, check, figure, interrupt, main, module_file, run, same, session, status, wait_for

PROGRAM = ["sh", "-c", "for i in 1 2 3 4 5; do (true); done"]
# Left out of copies: nops, and jumps to what lies right behind.
LEFT_OUT = re.compile(r"(data16 |cs )*(nop|endbr64|jmp |xchg %ax,%ax)")
BRANCH = re.compile(r"(call|ret|j[a-z]+|loop[a-z]*|bnd \w+)\b")
READS = {"e": "Z", "ne": "Z", "b": "C", "ae": "C", "s": "S", "ns": "S", "o": "O", "no": "O", "p": "P", "np": "P",
         "a": "CZ", "be": "CZ", "l": "SO", "ge": "SO", "g": "ZSO", "le": "ZSO"}
ALL_DEAD = "------"


class Text:
    """The kernel's text, as /proc/kcore has it."""

    def __init__(self):
        self.file = open("/proc/kcore", "rb")
        header = self.file.read(64)
        offset, = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        self.file.seek(offset)
        table = self.file.read(size * count)
        self.parts = [struct.unpack_from("<4xIQQQQ", table, i * size) for i in range(count)
                      if struct.unpack_from("<I", table, i * size)[0] == 1]

    def read(self, addr, n):
        for _, offset, start, _, size in self.parts:
            if start <= addr < start + size:
                return os.pread(self.file.fileno(), n, offset + addr - start)
        return b""


def dump(*words):
    end = run("jifl", "dump", "-f", "json", "-o", "/tmp/dump", *words)
    check(f"jifl dump {words[:2]}", end.returncode == 0 and not end.stderr, end)
    return json.loads(Path("/tmp/dump").read_text())


def with_source(data):
    """Its blocks that are copies of code."""
    return [block for block in data["blocks"] if not {"native", "entry", "dead"} & set(block["flags"])]


def all_of(name, blocks, wrong):
    """Checks that wrong(block) finds nothing in any block."""
    found = [(block["name"], what) for block in blocks for what in [wrong(block)] if what]
    check(name, not found, found[:3])


# --- the copy beside the original ---------------------------------------------------------


def lost(block):
    """An original instruction that is not in the copy as it should be."""
    src, code = bytes.fromhex(block["src"]), bytes.fromhex(block["code"])
    for s in block["segments"]:
        one, other = src[:s["src_len"]], code[:s["code_len"]]
        src, code = src[s["src_len"]:], code[s["code_len"]:]
        if s["kind"] != "original":
            continue
        if not other:
            if not LEFT_OUT.match(s["original"]) or (s["original"].startswith("jmp") and "falls" not in block["flags"]):
                return s
        elif BRANCH.match(s["original"]):
            target = s["original"].partition(" ")[2]
            if re.match(r"[a-z_]", target) and not target.startswith("__x86_") and target not in "".join(s["copy"]):
                return s
        # What is relative to its place names the same address there.
        elif one != other and s["copy"] != [s["original"]]:
            return s
    return [src, code] if src or code else None


def live_wrong(block):
    """A place at which liveness cannot be as it is said to be."""
    for s in block["segments"]:
        words = (s["original"] or "").split()
        flags = READS.get(words[0][1:]) if words and words[0].startswith("j") else None
        if flags and not set(flags) <= set(s["live_flags"]):
            return s
        if words and words[0].rstrip("bwlq") in ("cmp", "test") and s["live_flags"] != ALL_DEAD:
            return s
        base = re.search(r"\(%(r\w+)\)", s["original"] or "")
        if base and not words[0].startswith("nop") and base[1] not in s["live_regs"] + ["rip"]:
            return s
    return None


def like_the_text(blocks):
    text = Text()
    all_of("sources are the kernel's text", blocks,
           lambda block: text.read(int(block["orig"], 16), len(block["src"]) // 2).hex() != block["src"])
    all_of("every original instruction is in the copy", blocks, lost)
    all_of("flags that are read are live, those that are overwritten are not", blocks, live_wrong)


# --- what is inserted ---------------------------------------------------------------------------


def gaps(block):
    """The inserted pieces, those of one place together."""
    found = [[]]
    for s in block["segments"]:
        if s["kind"] in ("inserted", "inlined"):
            found[-1].append(s)
        else:
            found.append([])
    return [gap for gap in found if gap]


def not_one_lock_add(block):
    places = gaps(block)
    if len(places) != 1:
        return places
    copy = [line for s in places[0] for line in s["copy"]]
    adds = [line for line in copy if line.startswith("lock add")]
    want = f"lock addq ${block['insns']:#x},count [icount]"
    saves = [line for line in copy if re.match("pushf|lahf|seto", line)]
    is_dead = places[0][0]["live_flags"] == ALL_DEAD
    return copy if adds != [want] or not (saves or is_dead) else None


def saves_dead_flags(block):
    """What was looked at since, beyond the block, may tell more than when it was translated."""
    place = gaps(block)[0]
    return place[0]["live_flags"] == ALL_DEAD and len([line for s in place for line in s["copy"]]) > 1


def not_one_counter(block):
    places = gaps(block)
    copy = [line for gap in places for s in gap for line in s["copy"]]
    adds = [line for line in copy if line.startswith(f"addq ${block['insns']:#x},%gs:jifl_cpu")]
    by = [s["by"] for gap in places for s in gap]
    return (copy, by) if len(adds) != 1 or by != ["counter of instructions"] else None


def plugin():
    run("jifl", "load", Path(module_file()).with_name("icount.ko"))
    run("jifl", "start", "icount")
    same("the program runs", run(*PROGRAM).returncode, 0)
    number = status()["sessions"][0]["id"]
    data = dump("--session", number)
    blocks = with_source(data)
    dead = sum(gap[0]["live_flags"] == ALL_DEAD for block in blocks for gap in gaps(block))
    figure("icount", f"{data['total']} blocks, {len(blocks)} of code; flags dead at {dead} of their inserts")
    check("there are blocks of many functions", len({block["function"] for block in blocks}) > 100, len(blocks))
    check("liveness is known", all(block["insns"] for block in blocks))
    same("whose they are", {tuple(block["sessions"]) for block in data["blocks"]}, {(number,)})
    like_the_text(blocks)
    all_of("each adds its size, by one instruction, and saves flags that are live", blocks, not_one_lock_add)
    needless = [block["name"] for block in blocks if saves_dead_flags(block)]
    check("others are not saved", len(needless) <= len(blocks) // 100, (len(needless), len(blocks), needless[:5]))
    same("the routine is named", {s["by"] for block in blocks for gap in gaps(block) for s in gap},
         {"add_count [icount], inlined", "saves", "restores"})
    door(number)
    together(number)
    end = run("jifl", "dump", "--session", number, "--limit", 3)
    check("as text", end.returncode == 0 and len(re.findall("^  LIVE", end.stdout, re.M)) == 3
          and "  + lock addq" in end.stdout and re.fullmatch(r"jifl: 3 of \d{3,} blocks; .*\n", end.stderr), end)
    run("jifl", "stop", "icount")
    end = run("jifl", "dump", "--session", number)
    check("a session that has ended", end.returncode == 1 and end.stderr == f"jifl: no session {number}; "
          "`jifl status` shows those there are\n", end)
    run("jifl", "unload", "icount")


def not_both(block):
    copy = [line for gap in gaps(block) for s in gap for line in s["copy"]]
    adds = [line for line in copy if "addq" in line]
    want = ["addq $0x1,%gs:jifl_cpu", f"lock addq ${block['insns']:#x},count [icount]"]
    by = {s["by"] for gap in gaps(block) for s in gap if s["kind"] == "inserted" and "addq" in "".join(s["copy"])}
    found = [sum(line.startswith(start) for line in adds) for start in want]
    return (copy, by) if len(adds) != 2 or found != [1, 1] or by != {"counter of blocks"} else None


def together(plugin_session):
    owner = session("block", "sys:clone")
    same("the program runs", run(*PROGRAM).returncode, 0)
    other, = (s["id"] for s in status()["sessions"] if s["kind"] == "block")
    blocks = with_source(dump("--session", other))
    check("two sessions share blocks", len(blocks) > 100, len(blocks))
    same("which are of both", {tuple(sorted(block["sessions"])) for block in blocks}, {(plugin_session, other)})
    all_of("each has the inserts of both", blocks, not_both)
    interrupt(owner)


def trace():
    owner = background("jifl", "trace", "sys:getppid", "-o", "/dev/null")
    wait_for("the session", lambda: status()["sessions"])
    same("a shell asks for its parent", run("sh", "-c", ":").returncode, 0)
    blocks = with_source(dump("--session", status()["sessions"][0]["id"]))
    records = [s for block in blocks for gap in gaps(block) for s in gap if s["by"] == "record of a trace"]
    figure("a trace", f"{len(blocks)} blocks, {len(records)} records")
    check("records are named", records and all("xadd" in "".join(s["copy"]) for s in records), blocks[:2])
    check("at the beginnings of functions only", len(records) < len(blocks), len(records))
    interrupt(owner)


def targets():
    data = dump("sys:getppid", "sys:clone", "--", *PROGRAM)
    blocks = with_source(data)
    figure("a session of its own", f"{data['total']} blocks")
    check("there are blocks", len(blocks) > 100, len(blocks))
    like_the_text(blocks)
    all_of("each counts its instructions once", blocks, not_one_counter)
    same("no session is left", status()["sessions"], [])
    end = run("jifl", "dump", "sys:getppid", "--kind", "none", "--", "sh", "-c", "exit 7")
    check("the exit status is the command's", end.returncode == 7 and "__x64_sys_getppid:" in end.stdout, end)
    check("and nothing is inserted but the entry", "; counter" not in end.stdout, end)
    end = run("jifl", "dump", "sys:reboot", "--", "true")
    check("no blocks", end.returncode == 1 and end.stderr.count("\n") == 1 and "no blocks" in end.stderr, end)


# --- the request -------------------------------------------------------------------------------


# For the answers: original code, its copy, segments.
BUFFERS = [ctypes.create_string_buffer(65536) for _ in range(3)]


def block_request(index=0, session=0, room=(65536, 65536, 2048), reserved=0, places=None):
    size = Device.SIZES["block"]
    places = places or [ctypes.addressof(buffer) for buffer in BUFFERS]
    data = bytearray(struct.pack("<IIQQQ4QII3IIQQQ", size, index, session, 0, 0, 0, 0, 0, 0, 0, 0, *room, reserved,
                                 *places))
    assert len(data) == size
    return data


def asked(device, data, size=None):
    """The name of the error; empty if there was none."""
    try:
        fcntl.ioctl(device.fd, Device.number("block", size), data)
    except OSError as e:
        return errno.errorcode[e.errno]
    return ""


def door(number):
    with Device() as device:
        same("a good request", asked(device, block_request(session=number)), "")
        same("the end", asked(device, block_request(index=0xffffffff)), "ENOENT")
        same("a session that is not there", asked(device, block_request(session=number + 1000)), "ENOENT")
        same("a reserved word", asked(device, block_request(reserved=1)), "EINVAL")
        for size in (4, 104, 120):
            same(f"a size of {size}", asked(device, block_request().ljust(size, b"\0"), size), "EINVAL")
        wrong = block_request()
        struct.pack_into("<I", wrong, 0, 104)
        same("a size that is not the request's", asked(device, wrong), "EINVAL")
        full = block_request()
        asked(device, full)
        lengths = struct.unpack_from("<3I", full, 72)
        for i in range(3):
            room = [n - (i == k) for k, n in enumerate(lengths)]
            short = block_request(room=room)
            same(f"room that is lacking {i}", asked(device, short), "ENOSPC")
            same("says how much it takes", struct.unpack_from("<3I", short, 72), lengths)
        for place in (0, 0xffffffff81000000, 0x800000000000):
            same(f"a bad place {place:#x}", asked(device, block_request(places=[place] * 3)), "EFAULT")


def program():
    plugin()
    trace()
    targets()


main(program)
