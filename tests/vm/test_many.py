# SPDX-License-Identifier: MIT OR Apache-2.0
"""50,000 places: how long, how much memory."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_many(kernel, show):
    """In a machine whose clock counts instructions."""
    harness.guest("many", kernel=kernel, icount=True, timeout=600, show=show)
