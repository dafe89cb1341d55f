# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions without an ftrace site as targets of all tools."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_bare(kernel, show):
    harness.guest("bare", kernel=kernel, smp=2, show=show)
