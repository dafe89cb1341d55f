# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests that cannot be are refused in one line each, and change nothing."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_bad_input(kernel, show):
    harness.guest("bad_input", kernel=kernel, show=show)
