# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls of a session's function inside calls of other sessions."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_inside(kernel, show):
    harness.guest("inside", kernel=kernel, smp=2, timeout=900, show=show)
