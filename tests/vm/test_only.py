# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions without what they call: one, several, all of the kernel."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_only(kernel, show):
    harness.guest("only", kernel=kernel, smp=2, timeout=1200, show=show)
