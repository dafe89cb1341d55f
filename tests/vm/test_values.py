# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that jifl probe records are those of kprobe events at the same places."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_values(kernel, show):
    harness.guest("values", kernel=kernel, smp=2, show=show)
