# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that are inside a function when a session starts are taken over."""

import pytest

import harness

ROUNDS, SOAK_ROUNDS = 4, 1000


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_adopt(kernel, show):
    sleepers = harness.compile_program("sleepers", "-pthread")
    rounds = harness.rounds(kernel, ROUNDS, SOAK_ROUNDS)
    harness.guest("adopt", sleepers, rounds, kernel=kernel, smp=2, append="preempt=full log_buf_len=16M",
                  timeout=1200 + 4 * rounds, show=show)
