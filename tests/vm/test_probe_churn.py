# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions of jifl probe begin and end under load, around tasks that sleep in the probed functions."""

import os
import random

import pytest

import harness

SECONDS = 20
# Slabs have up to 256 objects a page: in the soak one that each session loses fills more than there is doubt about.
SHORT, SHORT_IN_SOAK = 50, 600
# JIFL_TEST_SEED=N draws the sessions of a run that failed again.
SEED = os.environ.get("JIFL_TEST_SEED") or str(random.randrange(1000000))


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_probe_churn(kernel, show):
    sleepers = harness.compile_program("sleepers", "-pthread")
    seconds = harness.SOAK or SECONDS
    short = SHORT_IN_SOAK if harness.SOAK else SHORT
    harness.guest("probe_churn", sleepers, seconds, short, SEED, kernel=kernel, smp=2, timeout=1500 + seconds, show=show)
