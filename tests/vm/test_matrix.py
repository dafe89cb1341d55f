# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each machine of the matrix boots, and a build under `jifl count insn 'sys:*'` gives the same as
without it.

JIFL_TEST_CELLS=N tries the first N machines. Without it the tests try, over three commits, as many
machines as are needed for each value to occur once.
"""

import os

import pytest

import cells
import harness
import turns

# Enough that each value of each dimension is there.
SHORT = 6
SHARE = 2
ASKED_FOR = os.environ.get("JIFL_TEST_CELLS")
CELLS = cells.first(int(ASKED_FOR), harness.KERNELS) if ASKED_FOR else harness.share(cells.first(SHORT, harness.KERNELS), SHARE)


def test_the_short_share_has_each_value_once():
    short = cells.first(SHORT, ["6.1", "6.12"])
    assert {cell.mitigation for cell in short} == set(cells.MITIGATIONS)
    assert {cell.smp for cell in short} == set(cells.SMP)
    assert {cell.preempt for cell in short} == set(cells.PREEMPT)
    assert {cell.kaslr for cell in short} == set(cells.KASLR)
    assert {cell.kernel for cell in short} == {"6.1", "6.12"}
    assert [cells.named(str(cell)) for cell in short] == short


def test_commits_share_the_cells_out(monkeypatch):
    short = cells.first(SHORT, ["6.1", "6.12"])
    monkeypatch.setattr(harness, "SOAK", 0)
    monkeypatch.setattr(harness, "ARE_ASKED_FOR", False)
    for part in range(turns.TURNS):
        taken = []
        for number in range(100, 103):
            monkeypatch.setattr(harness, "lot", lambda number=number, part=part: number * turns.TURNS + part)
            taken += harness.share(short, SHARE)
        assert sorted(map(str, taken)) == sorted(map(str, short))
    assert harness.share(short[:1], SHARE) == short[:1]
    monkeypatch.setattr(harness, "SOAK", 1)
    assert harness.share(short, SHARE) == short


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_cell(cell, show):
    harness.guest("matrix", cell.preempt, cell.mitigation, **cell.machine(), show=show)
