# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tens of thousands of places: that they count, how long they take, how much memory."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_many(kernel, show):
    """In a machine whose clock counts instructions."""
    harness.guest("many", kernel=kernel, icount=True, timeout=900, show=show)
