# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl bench`: it measures, says what it could not measure, and its results are complete.

No figure is asserted, because a cost is neither right nor wrong.
"""

import json
import subprocess

import pytest

import harness

OPS = ["null", "read", "pipe"]


def bench(*words, tmp_path, timeout=600):
    """Runs it in the machines that it makes; returns its end, its results, its charts."""
    results = tmp_path / "results.json"
    command = [harness.JIFL, "bench", *words, "--json", results, "--svg", tmp_path, "--timeout", timeout]
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, cwd=harness.ROOT, timeout=timeout + 240, check=False)
    text = results.read_text()
    return done, json.loads(text) if text else None, sorted(path.name for path in tmp_path.glob("*.svg"))


def options(name, values):
    return [word for value in values for word in (name, value)]


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_micro(kernel, tmp_path):
    keys = ["none", "call", "block", "insn", "cold", "int3-block", "opt-block"]
    done, results, charts = bench("--kernel", kernel, "--set", "micro", "--clock", "instructions", "--rounds", 40,
                                  *options("--op", OPS), *options("--row", keys), tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert results["command"] == "bench" and results["version"] and results["commit"]
    [sheet] = results["sheets"]
    assert (sheet["set"], sheet["clock"]) == ("micro", "instructions")
    machine = sheet["machine"]
    assert machine["kernel"] == harness.release_of(kernel)
    assert machine["cpu"] and machine["cpus"] == 1 and machine["accelerator"] == "tcg"
    rows = {row["key"]: row for row in sheet["rows"]}
    assert list(rows) == ["native", *keys]
    for key in ["native", "none", "call", "block", "insn", "cold"]:
        cells = rows[key]["cells"]
        assert [cell["op"] for cell in cells] == OPS
        assert not any(cell["void"] for cell in cells), cells
        assert all(cell["value"] > 0 and cell["ratio"] > 0 for cell in cells), cells
    # One call of getppid and of read in a round; two reads, two writes through a pipe.
    assert [round(cell["counted"]) for cell in rows["call"]["cells"]] == [1, 1, 4]
    blocks, insns = ([cell["counted"] for cell in rows[key]["cells"]] for key in ("block", "insn"))
    assert all(1 <= block < insn for block, insn in zip(blocks, insns, strict=True)), (blocks, insns)
    # A peer is measured, or is missing and says why.
    peer = rows["int3-block"]
    assert peer["cells"] or (peer["missing"] and "\n" not in peer["missing"]), peer
    for line in (["OPERATION", "NATIVE", "NONE", "CALL"], ["null"], ["pipe"]):
        assert any(text.split()[:len(line)] == line for text in done.stdout.splitlines()), done.stdout
    # The same probes, breakpoints first and then jumps, are cheaper as jumps.
    jumps = rows["opt-block"]
    for op, cells in zip(OPS, zip(peer["cells"], jumps["cells"]), strict=True) if peer["cells"] else ():
        assert [cell["op"] for cell in cells] == [op, op]
        if not any(cell["void"] for cell in cells):
            assert cells[0]["value"] > cells[1]["value"], cells
    names = [f"micro-instructions-{machine['kernel']}{end}.svg" for end in ("", "-cold", "-peers")]
    assert charts == sorted(names)
    drawn = [(tmp_path / name).read_text() for name in names]
    assert all(text.startswith("<svg") for text in drawn)
    # What was written is shown and drawn again without measuring.
    again = tmp_path / "again"
    shown = subprocess.run([harness.JIFL, "bench", "--from", tmp_path / "results.json", "--svg", again],
                           capture_output=True, text=True, check=True)
    assert shown.stdout == done.stdout
    assert [(again / name).read_text() for name in names] == drawn
    # Into the file that is read, too.
    subprocess.run([harness.JIFL, "bench", "--from", tmp_path / "results.json", "--json", tmp_path / "results.json"],
                   capture_output=True, check=True)
    assert json.loads((tmp_path / "results.json").read_text()) == results


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_every_row_has_a_figure(kernel, tmp_path):
    """Of one operation that every instrumentation can have: none is void, none is missing."""
    done, results, _ = bench("--kernel", kernel, "--set", "micro", "--clock", "instructions", "--rounds", 40,
                             "--op", "read", tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    [sheet] = results["sheets"]
    keys = [row["key"] for row in sheet["rows"]]
    assert keys == ["native", "none", "call", "block", "insn", "trace", "values", "times", "path", "blocks", "branches",
                    "lock", "mem", "fn-none", "fn-call", "fn-block", "fn-all", "fn-busy", "cold", "int3-call", "int3-trace", "int3-block",
                    "opt-call", "opt-trace", "opt-block", "ftrace-call", "ftrace-trace", "bpf-call", "bpf-trace"]
    without = {row["key"]: row["missing"] or row["cells"][0]["void"] for row in sheet["rows"]
               if row["missing"] or row["cells"][0]["void"] or not row["cells"][0]["value"] > 0}
    assert without == {}, without


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_effect(kernel):
    """However blocks are counted, they are the same ones."""
    run = harness.vm("jifl bench --here --set effect --op null --op read --rounds 60 --repeats 1 -f json",
                     kernel=kernel, timeout=300)
    [sheet] = json.loads(run.stdout)["sheets"]
    rows = {row["key"]: row["cells"] for row in sheet["rows"]}
    assert list(rows) == ["native", "neither", "liveness", "inlining", "both", "add-saved", "add"]
    # A round: a call that is preempted on its way executes some more.
    counted = {key: [round(cell["counted"]) for cell in cells] for key, cells in rows.items() if key != "native"}
    assert all(counts == counted["add"] and min(counts) > 1 for counts in counted.values()), counted
    assert not any(cell["void"] for cells in rows.values() for cell in cells), sheet


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_what_cannot_be_measured_is_said_and_the_rest_is(kernel):
    """In a machine whose clock shows time; and with memory for not one block."""
    run = harness.vm("jifl bench --here --set micro --clock instructions --op null --row block --rounds 50 "
                     "--repeats 2 -f json && jifl bench --here --set memory --cache-kb 1 --cache-kb 64 "
                     "--cache-kb 8192 --row none --row call -f json; jifl status -f json", kernel=kernel, timeout=600)
    micro, memory, status = (json.loads(line) for line in run.stdout.splitlines())
    lines = [line for line in run.stderr.splitlines() if "instructions: this machine's clock does not count" in line]
    assert len(lines) == 1, run.shown()
    [sheet] = micro["sheets"]
    assert sheet["clock"] == "time" and len(sheet["notes"]) == 1
    assert [row["cells"][0]["void"] for row in sheet["rows"]] == [None, None], sheet
    [sheet] = memory["sheets"]
    sizes = {row["key"]: {cell["op"]: cell for cell in row["cells"]} for row in sheet["rows"]}
    for key in ("none", "call"):
        why = sizes[key]["1 KB"]["void"]
        assert "cannot be had" in why and "\n" not in why, why
        assert sizes[key]["8192 KB"]["void"] is None and sizes[key]["8192 KB"]["ratio"] > 0
    # The module is as it was.
    assert status["code_size"] == 8192 << 10


def test_bad_usage():
    for words, part in ((["--op", "nul"], "no operation"), (["--row", "x"], "no row"), (["--here", "--kernel", "6.1"], "--kernel"),
                        (["--from", "/x", "--here"], "--here"), (["--from", "/x", "--set", "micro"], "--set")):
        done = subprocess.run([harness.JIFL, "bench", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and part in done.stderr, done.stderr
