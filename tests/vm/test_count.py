# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `jifl count` computes, counts by and draws is what was done."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_count(kernel, show):
    harness.guest("count", kernel=kernel, show=show)
