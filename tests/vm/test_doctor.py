# SPDX-License-Identifier: MIT OR Apache-2.0
"""jifl doctor --kernel on the kernels that are fetched. No machine runs here."""

import json
import subprocess

import pytest

from harness import JIFL, ROOT

BOOT = ROOT / "build/kernels/boot"
IMAGES = sorted(BOOT.glob("vmlinuz-*-amd64"))
NEEDED = "CONFIG_KPROBES"


def doctor(*words):
    """Exit status, the JSON object that was printed if any, notes."""
    done = subprocess.run([JIFL, "doctor", "-f", "json", *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def bad(report):
    return [finding["what"] for finding in report["findings"] if finding["verdict"] == "bad"]


def found(report, what):
    return next(finding for finding in report["findings"] if finding["what"] == what)


def test_kernels_are_there():
    assert len(IMAGES) >= 2, BOOT


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_supported_kernels_pass(image, tmp_path):
    release = image.name.removeprefix("vmlinuz-")
    config = BOOT / f"config-{release}"
    status, report, notes = doctor("--kernel", image)
    assert (status, report["ready"], bad(report)) == (0, True, []), (report, notes)
    assert report["kernel"]["release"] == release
    assert report["kernel"]["version"].startswith(f"Linux version {release} (")
    assert report["kernel"]["configuration"] == str(config)
    for what in ("configuration", "symbols", "do_syscall_64", "fentry sites", "types (BTF)", "kernel headers"):
        assert found(report, what)["verdict"] == "ok", (what, report)
    assert int(found(report, "fentry sites")["found"].split(",")[0]) > 30_000

    # By its release, and as the ELF file that is in the image: the same answer.
    for word in (release, BOOT / f"vmlinux-{release}"):
        again = doctor("--kernel", word)
        assert (again[0], again[1]["findings"]) == (0, report["findings"]), again

    # Each option that the list says is needed is told when it is not set.
    text = config.read_text(encoding="utf-8")
    assert f"{NEEDED}=y\n" in text
    for name in (NEEDED, "CONFIG_DYNAMIC_FTRACE_WITH_REGS", "CONFIG_RETHOOK"):
        lacking = tmp_path / name
        lacking.write_text(text.replace(f"{name}=y\n", f"# {name} is not set\n"), encoding="utf-8")
        status, report, notes = doctor("--kernel", image, "--config", lacking)
        assert found(report, name)["remedy"], report
        is_part = name == "CONFIG_RETHOOK"
        assert (status, bad(report)) == ((0, []) if is_part else (3, [name])), (report, notes)


def test_what_is_no_such_kernel(tmp_path):
    image, other = IMAGES[0].read_bytes(), IMAGES[-1]
    cut = tmp_path / "vmlinuz-cut"
    cut.write_bytes(image[:len(image) // 2])
    status, report, notes = doctor("--kernel", cut)
    assert (status, report) == (1, None) and "cut short" in notes and notes.count("\n") == 1, notes

    (tmp_path / "script").write_text("#!/bin/sh\n", encoding="utf-8")
    status, report, notes = doctor("--kernel", tmp_path / "script")
    assert (status, report) == (1, None) and "no kernel" in notes, notes

    arm = bytearray((ROOT / "build/bin/jifl").read_bytes()[:4096])
    arm[18:20] = (183).to_bytes(2, "little")
    (tmp_path / "arm").write_bytes(arm)
    status, report, notes = doctor("--kernel", tmp_path / "arm")
    assert (status, report) == (3, None) and "arm64" in notes, notes

    status, report, notes = doctor("--kernel", "9.9.9-none")
    assert (status, report) == (1, None) and "no kernel 9.9.9-none" in notes, notes

    # A configuration of another version is not believed.
    config = BOOT / f"config-{IMAGES[0].name.removeprefix('vmlinuz-')}"
    status, report, notes = doctor("--kernel", other, "--config", config)
    assert "is that of Linux" in found(report, "configuration")["found"], report
