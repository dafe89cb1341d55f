# SPDX-License-Identifier: MIT OR Apache-2.0
"""Places of jifl probe and other tools at the same function, in each order of coming and going."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_coexist(kernel, show):
    harness.guest("coexist", harness.compile_program("fentry"), kernel=kernel, smp=2, timeout=1500, show=show)
