# SPDX-License-Identifier: MIT OR Apache-2.0
"""The third clock: a model's counts are exact, and `jifl bench` has them."""

import subprocess

import pytest

import harness
from test_bench import bench

OUT = harness.ROOT / "build/front-end"
CALLS = 100
ROUNDS = 4
# Of one call of the chain: mispredicted returns, taken branches. The chain: six calls, six returns.
FORMS = {
    "plain": (0, 12), "call_dropped": (6, 14), "jump": (0, 14), "call_retargeted": (0, 13), "return_replaced": (1, 14),
    "function_door": (1, 15), "function_jump": (0, 15),
    "place_counter": (1, 15), "place_registers": (1, 17), "place_record": (1, 16), "kprobe_jump": (0, 16),
    "lookup_return": (7, 13), "lookup_retpoline": (1, 14), "lookup_jump": (0, 13),
}
CLOCKS = ["returns-16", "returns-32", "icache", "itlb", "branches"]


def test_forms_of_doors_and_lookups(tmp_path):
    """The model counts what the forms' source says, call by call.

    An interrupt adds to a round: the least of some is exact.
    """
    run = harness.vm(f"{OUT}/forms {ROUNDS} {CALLS}", icount=True, module=False, timeout=120,
                     options=("--plugin", f"{OUT}/front-end.so,out={tmp_path}"))
    names = [line.split()[1] for line in run.stdout.splitlines()]
    assert names == list(FORMS) * ROUNDS, run.shown()
    counts = {name: [] for name in FORMS}
    for index, name in enumerate(names):
        [line] = (tmp_path / str(index)).read_text().splitlines()
        counts[name].append([int(word) for word in line.split()])
    least = {name: [min(column) for column in zip(*rounds, strict=True)] for name, rounds in counts.items()}
    # The loop's own branch is not taken the last time.
    assert {name: (row[0], row[1], row[4], row[5]) for name, row in least.items()} == \
        {name: (CALLS * returns, CALLS * returns, CALLS * (branches + 1) - 1, 0)
         for name, (returns, branches) in FORMS.items()}
    # A chain is a few lines, in one page or two, and all of them are fetched once.
    assert all(1 <= row[2] <= 20 and 1 <= row[3] <= 3 for row in least.values()), least


def test_forms_in_nanoseconds():
    """`bench/native/run --forms` has a time of each form, natively, and what it is of the plain chain's."""
    done = subprocess.run([harness.ROOT / "bench/native/run", "--forms", "--rounds", "1"], capture_output=True, text=True,
                          check=True)
    rows = [line.split()[-2:] for line in done.stdout.splitlines()[-len(FORMS):]]
    times = [(float(time), float(ratio)) for time, ratio in rows]
    assert times[0][1] == 1 and all(time > 0 and ratio > 0 for time, ratio in times), done.stdout


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_bench(kernel, tmp_path):
    """A sheet for each event, with a figure in each cell. Peers are no rows of this clock."""
    there = set(OUT.glob("counts-*"))   # of a run that was killed
    done, results, charts = bench("--kernel", kernel, "--clock", "front-end", "--op", "null", "--op", "pipe", "--rounds", 40,
                                  "--row", "none", "--row", "block", "--row", "bpf-call", tmp_path=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    sheets = {sheet["clock"]: sheet for sheet in results["sheets"]}
    assert list(sheets) == CLOCKS and all(sheet["set"] == "micro" for sheet in sheets.values())
    values = {}
    for clock, sheet in sheets.items():
        rows = {row["key"]: row for row in sheet["rows"]}
        assert list(rows) == ["native", "none", "block", "bpf-call"]
        assert "not measured by this clock" in rows.pop("bpf-call")["missing"]
        assert not any(cell["void"] for row in rows.values() for cell in row["cells"]), sheet
        values[clock] = {key: [cell["value"] for cell in row["cells"]] for key, row in rows.items()}
    # What is so in any kernel: a call takes branches; a larger stack mispredicts no more; two
    # context switches do not fit into a cache of 32 KiB.
    assert all(value > 0 for row in values["branches"].values() for value in row), values
    assert all(large <= small for key in values["returns-16"]
               for large, small in zip(values["returns-32"][key], values["returns-16"][key], strict=True)), values
    assert all(row[1] > 0 for row in values["icache"].values()), values
    # With nothing inserted no return is mispredicted that natively is not: neither by the entry
    # stub nor in the cache.
    for clock in ("returns-16", "returns-32"):
        assert all(none <= native for native, none in zip(values[clock]["native"], values[clock]["none"], strict=True)), values
    # Counting each block adds code, and the code cache is no part of the kernel's text.
    assert values["branches"]["block"][0] >= values["branches"]["none"][0], values
    assert f"micro-branches-{harness.release_of(kernel)}.svg" in charts
    # The plugin's files are gone.
    assert set(OUT.glob("counts-*")) <= there


def test_bad_usage(tmp_path):
    done = subprocess.run([harness.JIFL, "bench", "--here", "--clock", "front-end"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "not with --here" in done.stderr, done.stderr
    done = subprocess.run([harness.JIFL, "vm", "--accel", "kvm", "--plugin", "x.so", "--", "true"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and "--plugin" in done.stderr, done.stderr
    # More CPUs than one have no one model: QEMU refuses, and the machine does not start.
    run = harness.vm("true", smp=2, module=False, check=False, options=("--plugin", f"{OUT}/front-end.so,out={tmp_path}"))
    assert run.status == 125, run.shown()
