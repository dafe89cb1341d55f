# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs at places: conditions, records, histograms, groups, stacks, BPF."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_actions(kernel, show):
    harness.guest("actions", kernel=kernel, smp=2, timeout=600, show=show)
