# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts of the tests that `make test` runs in turn (turns.py)."""

import ast
from pathlib import Path

import turns


def written():
    """The tests of this folder as turns.py names them."""
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.name}::{node.name}"


def test_each_test_has_its_turn():
    costs = turns.measured()
    assert set(costs) <= set(written())
    run = [set(costs) - turns.waiting(costs, lot) for lot in range(turns.TURNS)]
    assert set().union(*run) == set(costs)
    assert sum(map(len, run)) == len(costs)


def test_parts_take_about_the_same_time():
    costs = turns.measured()
    sums = [sum(costs[test] for test in part) for part in turns.parts(costs)]
    assert max(sums) - min(sums) <= max(costs.values()) / 4
