# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl mem` shows the loads and stores that were made: to the byte, and to the instruction."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_mem(kernel, show):
    harness.guest("mem", kernel=kernel, show=show)
