# SPDX-License-Identifier: MIT OR Apache-2.0
"""A counter at every instruction of many functions counts as often as their blocks run."""

import random

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_sweep(kernel, show):
    seed = random.randrange(1 << 32) if harness.SOAK else 1
    harness.guest("sweep", seed, harness.SOAK or 25, 5000 if harness.SOAK else 1500, kernel=kernel, smp=2, timeout=900, show=show)
