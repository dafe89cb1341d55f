# SPDX-License-Identifier: MIT OR Apache-2.0
"""500 places beside kprobes at the same places."""

import random

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_crowd(kernel, show):
    seed = random.randrange(1 << 32) if harness.SOAK else harness.lot()
    harness.guest("crowd", seed, kernel=kernel, smp=2, timeout=900, show=show)
