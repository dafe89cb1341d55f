# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recordings have the same content when they are read elsewhere, and a file that is no recording is
refused in one line.

recordings/v1*.jifl are of two boots of Linux 6.1, with KASLR. An earlier `jifl record` wrote them;
they must be readable as long as there is a version 1.
"""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import zlib
from collections import Counter
from pathlib import Path

import pytest

import harness

V1 = Path(__file__).parent / "recordings/v1.jifl"
ANOTHER_BOOT = V1.with_name("v1-another-boot.jifl")
PAGES = ["count", "record", "report", "diff", "merge", "man", "completions", "vm"]


def jifl(*words, **options):
    return subprocess.run([harness.JIFL, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                          **options)


def frame(data, version=1):
    body = zlib.compress(json.dumps(data).encode())
    head = b"\x89JIFLREC" + struct.pack("<IQ", version, len(body)) + body
    return head + struct.pack("<I", zlib.crc32(head)) + b"JIFLEND\n"


def content(file=V1):
    return json.loads(zlib.decompress(file.read_bytes()[20:-12]))


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_record(kernel, show):
    harness.guest("record", kernel=kernel, show=show)


def test_an_older_recording_is_read():
    found = json.loads(jifl("report", V1, "-f", "json").stdout)
    calls = {function["function"]: function["calls"] for function in found["functions"]}
    assert calls["__x64_sys_getppid"] == 100, calls
    for view in ("cover", "branch", "count", "info"):
        shown = jifl("report", V1, "--as", view)
        assert shown.returncode == 0 and len(shown.stdout.splitlines()) > 2, shown


def refused(file, *words):
    """Of all that reads a recording: one line that names the file."""
    for command in (["report", file], ["report", file, "--as", "info"], ["diff", V1, file],
                    ["merge", "-o", "/dev/null", V1, file]):
        end = jifl(*command)
        assert end.returncode == 1 and end.stdout == "", (command, end)
        assert len(end.stderr.splitlines()) == 1, (command, end)
        for word in [str(file), *words]:
            assert word in end.stderr, (word, command, end)


def test_what_is_no_recording_is_refused(tmp_path):
    good, file = V1.read_bytes(), tmp_path / "a.jifl"
    changed = bytearray(good)
    changed[len(good) // 2] ^= 1
    for data, word in [(b"", "empty"), (good[:-1], "truncated"), (good[:30], "truncated"), (good[:9], "truncated"),
                       (bytes(changed), "corrupt"), (good + b"\n", "corrupt"), (b"\x7fELF" + good, "no recording"),
                       (frame(content(), version=2), "newer jifl"), (frame([1, 2]), "corrupt"),
                       (good.replace(b"\n", b"\r\n"), "")]:
        file.write_bytes(data)
        refused(file, word)
    spoilt = content()
    spoilt["blocks"][0]["at"]["image"] = 1 << 40
    file.write_bytes(frame(spoilt))
    refused(file, "corrupt")
    refused(tmp_path / "missing.jifl", "No such file")
    refused(tmp_path, "directory")
    refused("/dev/zero", "no recording")


def test_recordings_of_other_kernels_are_not_mixed(tmp_path):
    other = content()
    other["kernel"]["build_id"] = "beef"
    file = tmp_path / "other.jifl"
    file.write_bytes(frame(other))
    for command in (["diff", V1, file], ["merge", "-o", tmp_path / "sum.jifl", V1, file]):
        end = jifl(*command)
        assert end.returncode == 1 and len(end.stderr.splitlines()) == 1, end
        assert f"{file}: of another kernel build" in end.stderr and "beef" in end.stderr, end
    assert not (tmp_path / "sum.jifl").exists()


def test_counts_of_two_boots_add_up(tmp_path):
    """The kernel and its modules lay elsewhere in the second."""
    total = tmp_path / "sum.jifl"
    bases = [[image["base"] for image in content(file)["images"]] for file in (V1, ANOTHER_BOOT)]
    assert len(bases[0]) == len(bases[1]) > 1 and not set(bases[0]) & set(bases[1]), bases
    assert jifl("merge", "-o", total, V1, ANOTHER_BOOT).returncode == 0
    found = [json.loads(jifl("report", file, "-f", "json").stdout) for file in (V1, ANOTHER_BOOT, total)]
    assert found[2]["instructions"] == found[0]["instructions"] + found[1]["instructions"]
    first, second, both = (Counter({f["function"]: f["instructions"] for f in one["functions"]}) for one in found)
    assert both == first + second
    text = jifl("diff", V1, ANOTHER_BOOT).stdout
    assert "# 2 differ, 45 are the same\n" in text, text


def on_terminal(columns, *words):
    """What the command writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([harness.JIFL, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:     # EIO: the terminal has no writer any longer
            pass
    os.close(ours)
    assert process.returncode == 0, text
    return text.decode().splitlines()


def test_a_narrow_terminal_and_a_reader_that_goes_away():
    for words in (["report", V1], ["report", V1, "--as", "cover"], ["report", V1, "--as", "branch"],
                  ["report", V1, "--as", "count"], ["diff", V1, V1], ["report", V1, "--as", "info"]):
        rows = on_terminal(40, *words)
        assert rows and max(map(len, rows)) <= 40, (words, rows)
    for words in (f"report {V1} -f json", f"report {V1} --limit 100000", "completions bash"):
        end = subprocess.run(["bash", "-c", f"{harness.JIFL} {words} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"],
                             capture_output=True, text=True, timeout=60, check=False)
        assert (end.returncode, end.stderr) == (0, ""), (words, end)
    full = subprocess.run(["bash", "-c", f"{harness.JIFL} report {V1} > /dev/full"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert full.returncode == 1 and re.fullmatch(r"jifl: stdout: No space left .*\n", full.stderr), full


def test_manual_pages_and_completions(tmp_path):
    done = subprocess.run(["make", "-s", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr"], cwd=harness.ROOT,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done
    for name in PAGES:
        page = (tmp_path / f"usr/share/man/man1/jifl-{name}.1").read_text()
        assert f".TH jifl-{name} 1 " in page and ".SH SYNOPSIS" in page, page
    completions = tmp_path / "usr/share/bash-completion/completions/jifl"
    script = f'. {completions}; COMP_WORDS=(jifl rec); COMP_CWORD=1; _jifl jifl rec jifl; echo "${{COMPREPLY[@]}}"'
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert shown.stdout.split() == ["record"], shown
    assert os.access(tmp_path / "usr/bin/jifl", os.X_OK)
