# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that are inside a function when a session starts are taken over."""

import pytest

import harness

ROUNDS = 100 if harness.SOAK else 6


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_adopt(kernel, show):
    sleepers = harness.compile_program("sleepers", "-pthread")
    harness.guest("adopt", sleepers, ROUNDS, kernel=kernel, smp=2, append="preempt=full", timeout=1200, show=show)
