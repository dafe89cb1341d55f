# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `jifl prof`, `cover` and `branch` make of counts agrees, whichever way they are looked at."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_views(kernel, show):
    harness.guest("views", kernel=kernel, show=show)
