# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls of functions that are made under a system call or another function."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_under(kernel, show):
    harness.guest("under", kernel=kernel, smp=2, show=show)
