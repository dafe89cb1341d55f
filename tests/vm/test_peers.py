# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark's peers count what they should, say what is missing, and leave nothing behind."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_peers(kernel, show):
    harness.guest("peers", kernel=kernel, show=show)
