# SPDX-License-Identifier: MIT OR Apache-2.0
"""Network, block and timer load while softirqs and interrupts run instrumented."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(5))
def test_traffic(kernel, show):
    harness.guest("traffic", kernel=kernel, smp=2, timeout=1500, show=show)
