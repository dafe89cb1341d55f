# SPDX-License-Identifier: MIT OR Apache-2.0
"""A counter at every instruction of many functions counts as often as their blocks run.

JIFL_SWEEP=SEED:PIECE:PIECES sweeps all of a piece. All pieces with one seed are all functions that
the load reaches.
"""

import os
import random

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_sweep(kernel, show):
    # Other functions with another commit.
    seed, piece, pieces, seconds, instructions = harness.lot(), 0, 12, 60, 5000
    if harness.SOAK:
        seed, pieces, seconds, instructions = random.randrange(1 << 32), 1, harness.SOAK, 1 << 30
    if "JIFL_SWEEP" in os.environ:
        seed, piece, pieces = os.environ["JIFL_SWEEP"].split(":")
        seconds, instructions = 3600, 1 << 30
    harness.guest("sweep", seed, piece, pieces, seconds, instructions, kernel=kernel, smp=2,
                  timeout=3600 if "JIFL_SWEEP" in os.environ else 900, show=show)
