# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel text that changes under instrumented calls: tracers, probes, livepatches, modules."""

import pytest

import harness

CHANGES = ["static keys", "function tracer", "graph tracer", "kprobes", "uprobes", "BPF", "modules", "many functions"]
# A livepatch's transition is slow on 6.12 while sessions run: not understood yet.
ALSO = {"6.1": ["livepatch"]}

ROUNDS = 1
SECONDS_A_ROUND = 60


@pytest.fixture(scope="module")
def fentry():
    return harness.compile_program("fentry")


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_text_changes(kernel, fentry, show):
    rounds = max(ROUNDS, harness.SOAK // SECONDS_A_ROUND)
    harness.guest("text_changes", fentry, rounds, *CHANGES, *ALSO.get(kernel, []), kernel=kernel,
                  timeout=600 + 240 * rounds, show=show)
