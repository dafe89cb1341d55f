# SPDX-License-Identifier: MIT OR Apache-2.0
"""A function is refused for the same reason whether it is asked about alone or with all others."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_asked_together(kernel, show):
    harness.guest("asked_together", kernel=kernel, show=show)
