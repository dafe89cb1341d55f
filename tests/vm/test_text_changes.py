# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel text that changes under instrumented calls: tracers, probes, livepatches, modules."""

import pytest

import harness

ROUNDS = 1
SECONDS_A_ROUND = 60


@pytest.fixture(scope="module")
def fentry():
    return harness.compile_program("fentry")


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_text_changes(kernel, fentry, show):
    rounds = max(ROUNDS, harness.SOAK // SECONDS_A_ROUND)
    harness.guest("text_changes", fentry, rounds, kernel=kernel, timeout=600 + 240 * rounds, show=show)
