# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recordings: `jifl report` runs in a process without privileges, from which addresses are hidden.
Its output is byte by byte the output of the command for the same session.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

from lib import background, check, figure, main, run, same, status, wait_for

HERE = Path(tempfile.mkdtemp(prefix="record"))
WORK = ["sh", "-c", "cat /etc/passwd /proc/modules | sort | wc -c"]
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]


def jifl(*words, **options):
    return run("jifl", *words, cwd=HERE, **options)


def nobody(*words):
    """The command without privileges."""
    return run(*NOBODY, "jifl", *words, cwd=HERE)


def give(name):
    """Lets others read a recording, which is its owner's alone."""
    same(f"{name}: mode", oct((HERE / name).stat().st_mode & 0o777), "0o600")
    (HERE / name).chmod(0o644)


def own_line(stdout, start):
    """What the command printed behind the output of its CMD."""
    return stdout[stdout.rindex(start):]


def hide_addresses():
    Path("/proc/sys/kernel/kptr_restrict").write_text("2")
    seen = run(*NOBODY, "head", "-n", "100", "/proc/kallsyms").stdout
    check("addresses are hidden", seen and not re.search(r"^0*[1-9a-f]", seen, re.M), seen[:200])


def show_addresses():
    Path("/proc/sys/kernel/kptr_restrict").write_text("1")


def body(name):
    """The JSON object of a recording, by the format as its documentation has it."""
    data = (HERE / name).read_bytes()
    length = int.from_bytes(data[12:20], "little")
    same(f"{name}: the frame", (data[:8], data[8:12], data[-8:], int.from_bytes(data[-12:-8], "little"), len(data)),
         (b"\x89JIFLREC", b"\1\0\0\0", b"JIFLEND\n", zlib.crc32(data[:-12]), length + 32))
    return json.loads(zlib.decompress(data[20:-12]))


# --- the same numbers ---------------------------------------------------------------------


def views():
    """Each command records what it prints; then each is asked for again by someone else."""
    sessions = {
        "prof": ("sys:read", ["--folded", "prof.folded", "--svg", "prof.svg"], ["prof.folded", "prof.svg"]),
        "cover": ("sys:read", ["--drcov", "cover.drcov", "--lcov", "cover.info", "--edges"], ["cover.drcov", "cover.info"]),
        "branch": ("sys:read", ["--hints"], []),
    }
    printed = {}
    for name, (target, options, _) in sessions.items():
        end = jifl(name, target, "-f", "json", *options, "--record", f"{name}.jifl", "--", *WORK)
        same(f"{name}: status", end.returncode, 0)
        check(f"{name}: says what it wrote", f"{name}.jifl: " in end.stderr, end.stderr)
        printed[name] = own_line(end.stdout, '{"command":"')
        give(f"{name}.jifl")
    hide_addresses()
    for name, (_, options, files) in sessions.items():
        was = {file: (HERE / file).read_bytes() for file in files}
        for file in files:
            (HERE / file).unlink()
        HERE.chmod(0o777)
        end = nobody("report", f"{name}.jifl", "-f", "json", *options)
        same(f"{name}: report's status", (end.returncode, end.stderr[:200] if name != "cover" else ""), (0, ""))
        check(f"{name}: the report is what was printed", end.stdout == printed[name],
              f"{len(end.stdout)} and {len(printed[name])} bytes")
        check(f"{name}: there is something", len(end.stdout) > 5000 or name == "branch", end.stdout)
        for file in files:
            check(f"{file}: is what was written", (HERE / file).read_bytes() == was[file], file)
    for options, word in [(["--annotate", "vfs_read"], "--annotate"), (["--per-call"], "--per-call")]:
        end = nobody("report", "prof.jifl", *options)
        check(f"{word} needs the kernel that runs", end.returncode == 2 and end.stderr.count("\n") == 1
              and word in end.stderr, end)
    show_addresses()
    return printed


def traces():
    """A trace is written from its recording in the form that it had, to the byte, and in others."""
    said = {}
    for form in ("text", "ndjson", "folded", "chrome", "perfetto"):
        end = jifl("trace", "-A", "-d", "sys:openat", "-f", form, "-o", f"live.{form}", "--record", f"{form}.jifl", "--", *WORK)
        same(f"{form}: status", end.returncode, 0)
        said[form] = next(line for line in end.stderr.splitlines() if "functions entered; records lost 0" in line)
        give(f"{form}.jifl")
    end = jifl("trace", "sys:openat", "-o", "live", "--record", "plain.jifl", "--", *WORK)
    give("plain.jifl")
    hide_addresses()
    for form in said:
        end = nobody("report", f"{form}.jifl", "-f", form, "-o", f"again.{form}")
        same(f"{form}: report's status, and what it says", (end.returncode, end.stderr), (0, said[form] + "\n"))
        live, again = ((HERE / f"{name}.{form}").read_bytes() for name in ("live", "again"))
        check(f"{form}: it is what was written", live == again and len(live) > 5000, (len(live), len(again)))
    end = nobody("report", "text.jifl", "-f", "ndjson")
    calls = [json.loads(line) for line in end.stdout.splitlines()]
    entered = int(re.search(r"(\d+) functions entered", said["text"])[1])
    same("in another form: functions", sum(len(call["functions"]) for call in calls), entered)
    check("with what they get and how long they take", all("arguments" in call["functions"][0] and "duration_ns" in call["functions"][0]
                                                         for call in calls), calls[0]["functions"][:1])
    end = nobody("report", "text.jifl", "-f", "ndjson", "--depth", "1")
    depths = {function["depth"] for line in end.stdout.splitlines() for function in json.loads(line)["functions"]}
    same("less of it", depths, {0})
    same("a trace without times", nobody("report", "plain.jifl").stdout, (HERE / "live").read_text())
    for words, word in [(["report", "plain.jifl", "-f", "chrome"], "trace -d"), (["report", "plain.jifl", "--as", "prof"], "--as trace"),
                        (["report", "prof.jifl", "--as", "trace"], "jifl trace --record"), (["report", "plain.jifl", "-f", "json"], "ndjson"),
                        (["diff", "plain.jifl", "plain.jifl"], "no difference"), (["merge", "-o", "sum", "plain.jifl", "plain.jifl"], "no sum")]:
        end = nobody(*words)
        check(f"{words[0]} {words[-1]} is refused", end.returncode in (1, 2) and end.stderr.count("\n") == 1 and word in end.stderr, end)
    info = nobody("report", "plain.jifl", "--as", "info").stdout
    check("what it is", re.search(r"^counted +[\d,]+ functions in [\d,]+ system calls$", info, re.M), info)
    figure("bytes of a recorded trace, for each function", round((HERE / "text.jifl").stat().st_size / entered, 1))
    show_addresses()


def another_view(printed):
    """A recording of one is one of all three."""
    functions = json.loads(printed["prof"])["functions"]
    cover = json.loads(nobody("report", "prof.jifl", "--as", "cover", "-f", "json").stdout)
    same("cover of prof's recording: instructions", sum(f["instructions"] for f in cover["functions"]),
         sum(f["instructions"] for f in functions))
    branches = json.loads(nobody("report", "prof.jifl", "--as", "branch", "-f", "json").stdout)["branches"]
    check("branches of prof's recording", sum(b["taken"] for b in branches) > 1000, branches[:3])
    text = nobody("report", "prof.jifl").stdout
    check("functions in text", re.match(r"FUNCTION +CALLS +INSNS +SHARE +INSN/CALL\n", text), text[:300])
    data = body("prof.jifl")
    check("has only symbols that it needs", 100 < len(data["symbols"]) < 4 * len(data["blocks"]), len(data["symbols"]))
    figure("bytes of a recording", (HERE / "prof.jifl").stat().st_size)
    figure("its blocks", len(data["blocks"]))


def info():
    """What a recording says of itself is so."""
    said = json.loads(nobody("report", "prof.jifl", "--as", "info", "-f", "json").stdout)
    recorded = said["recorded"]
    notes = Path("/sys/kernel/notes").read_bytes()
    check("the kernel's build id", bytes.fromhex(recorded["kernel"]["build_id"]) in notes, recorded)
    same("the release", recorded["kernel"]["release"], os.uname().release)
    same("the boot", recorded["boot_id"], Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    same("the command", recorded["command"][:3], ["jifl", "prof", "sys:read"])
    same("CPUs", recorded["cpus"], os.cpu_count())
    bases = dict(re.findall(r"^(\S+) .* (0x\w+)", Path("/proc/modules").read_text(), re.M))
    modules = [image for image in said["images"] if image["name"] not in ("vmlinux", "")]
    check("modules are in it", modules, said["images"])
    for image in modules:
        note = Path(f"/sys/module/{image['name']}/notes/.note.gnu.build-id").read_bytes()
        same(f"{image['name']}: base and build id", (image["base"], image["build_id"] == note[16:].hex()),
             (int(bases[image["name"]], 16), True))


# --- record, merge, diff -------------------------------------------------------------------


def record_twice():
    """Without -o it is recording.jifl; the end is that of CMD."""
    for name, option, times, status in (("recording.jifl", [], 100, 0), ("two.jifl", ["-o", "two.jifl"], 300, 7)):
        end = jifl("record", "sys:getppid", "sys:getcwd", *option, "--", *PYTHON,
                   f"import os, sys\nfor _ in range({times}): os.getppid()\nos.getcwd()\nsys.exit({status})")
        same(f"record {name}", (end.returncode, end.stdout), (status, ""))
    (HERE / "recording.jifl").rename(HERE / "one.jifl")


def prof(name):
    """Its functions: calls and instructions."""
    found = json.loads(jifl("report", name, "-f", "json").stdout)["functions"]
    return {function["function"]: (function["calls"], function["instructions"]) for function in found}


def merge_and_diff():
    end = jifl("merge", "-o", "sum.jifl", "one.jifl", "two.jifl")
    same("merge", end.returncode, 0)
    one, two, both = prof("one.jifl"), prof("two.jifl"), prof("sum.jifl")
    want = {name: tuple(map(sum, zip(one.get(name, (0, 0)), two.get(name, (0, 0))))) for name in one.keys() | two.keys()}
    same("merged counts are sums", both, want)
    calls = [found["__x64_sys_getppid"][0] for found in (one, two, both)]
    same("getppid's calls", calls, [100, 300, 400])
    found = json.loads(jifl("diff", "one.jifl", "two.jifl", "-f", "json").stdout)
    line = next(line for line in found["lines"] if line["name"] == "__x64_sys_getppid")
    same("diff's calls", (line["calls_a"], line["calls_b"]), tuple(calls[:2]))
    same("diff's delta", line["delta"], two["__x64_sys_getppid"][1] - one["__x64_sys_getppid"][1])
    text = jifl("diff", "one.jifl", "two.jifl").stdout
    check("diff's table", re.search(r"^__x64_sys_getppid +[\d,]+ +[\d,]+ +\+[\d,]+ +\+[\d.]+% +\d+ +\d+$", text, re.M), text)
    text = jifl("diff", "one.jifl", "one.jifl").stdout
    check("nothing differs from itself", "# 0 differ, " in text, text)


def counts():
    """Rows of `jifl count`."""
    end = jifl("count", "insn", "sys:getppid", "-f", "json", "--record", "count.jifl", "--", "sh", "-c", "sh -c : & wait")
    give("count.jifl")
    again = nobody("report", "count.jifl", "-f", "json")
    same("count: the report is what was printed", again.stdout, own_line(end.stdout, '{"command":"'))
    refused = jifl("report", "count.jifl", "--as", "prof")
    same("count has no functions", (refused.returncode, refused.stderr.count("\n")), (1, 1))
    refused = jifl("merge", "-o", "x.jifl", "count.jifl", "one.jifl")
    check("kinds are not mixed", refused.returncode == 1 and "of kind profile" in refused.stderr, refused.stderr)
    check("nothing is written then", not list(HERE.glob("x.jifl*")), list(HERE.iterdir()))


# --- trouble ---------------------------------------------------------------------------------


def full_disk():
    """What does not fit is elsewhere, and what was there before stays."""
    small = HERE / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", small], check=True)
    (small / "a.jifl").write_text("before")
    end = jifl("record", "sys:openat", "-o", "small/a.jifl", "--", "true")
    same("full disk: status, one line", (end.returncode, end.stderr.count("\n")), (1, 1))
    found = re.search(r"small/a.jifl: No space left .*; the recording is in (\S+) instead", end.stderr)
    if check("full disk: says where it is", found, end.stderr):
        again = jifl("report", found[1], "-f", "json")
        check("full disk: nothing is lost", json.loads(again.stdout)["instructions"] > 10000, again.stderr)
    same("full disk: what was there", [(path.name, path.read_text()) for path in small.iterdir()], [("a.jifl", "before")])
    subprocess.run(["umount", small], check=True)


def interrupted():
    """Ctrl-C ends a session, SIGKILL loses it; neither leaves half a file."""
    (HERE / "kept.jifl").write_text("before")
    for number, want in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 0)):
        process = background("jifl", "record", "sys:getppid", "-o", "kept.jifl", cwd=HERE)
        wait_for("the session", lambda: status()["sessions"])
        os.getppid()
        process.send_signal(number)
        process.communicate(timeout=60)
        same(f"signal {number}: status", process.returncode, want)
        wait_for("its end", lambda: not status()["sessions"])
        if number == signal.SIGKILL:
            same("killed: what was there stays", (HERE / "kept.jifl").read_text(), "before")
    check("interrupted: what was counted", prof("kept.jifl")["__x64_sys_getppid"][0] >= 1, "")
    early = jifl("record", "sys:getppid", "-o", "no/such/file", "--", "touch", HERE / "ran")
    same("a wrong path shows before CMD runs", (early.returncode, (HERE / "ran").exists()), (1, False))


def program():
    begin = time.monotonic()
    printed = views()
    another_view(printed)
    traces()
    info()
    record_twice()
    merge_and_diff()
    counts()
    full_disk()
    interrupted()
    figure("seconds", round(time.monotonic() - begin))


main(program)
