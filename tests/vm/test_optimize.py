# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel's hot code in another order."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_optimize(kernel, show):
    harness.guest("optimize", kernel=kernel, smp=2, timeout=1500, show=show)
