# SPDX-License-Identifier: MIT OR Apache-2.0
"""jifl top, on a terminal of tmux."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_top(kernel, show):
    harness.guest("top", kernel=kernel, smp=2, timeout=600, show=show)
