# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tens of thousands of places, and of functions: that they come and go, how long that takes, how much memory."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_many(kernel, show):
    """In a machine whose clock counts instructions."""
    harness.guest("many", kernel=kernel, icount=True, timeout=900, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_all_functions_come_and_go(kernel, show):
    """In a machine whose clock counts instructions. The guest compares the kernel's text."""
    harness.guest("attach", kernel=kernel, icount=True, timeout=900, show=show)
