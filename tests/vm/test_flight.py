# SPDX-License-Identifier: MIT OR Apache-2.0
"""The flight recorder: in a machine that lives, that dies, and that starts again."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(2))
def test_flight(kernel, show):
    harness.guest("flight", kernel=kernel, smp=2, timeout=300, show=show)
