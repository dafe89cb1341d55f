# SPDX-License-Identifier: MIT OR Apache-2.0
"""All views that `jifl prof`, `cover` and `branch` give of the counts agree."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_views(kernel, show):
    harness.guest("views", kernel=kernel, show=show)
