# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `jifl mem` says is loaded and stored is what was: to the byte, and to the instruction."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_mem(kernel, show):
    harness.guest("mem", kernel=kernel, show=show)
