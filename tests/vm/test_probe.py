# SPDX-License-Identifier: MIT OR Apache-2.0
"""Places in functions: counters before instructions, on ways of branches, at returns."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_probe(kernel, show):
    harness.guest("probe", harness.rounds(kernel, 1, 10), kernel=kernel, smp=2, timeout=900, show=show)
