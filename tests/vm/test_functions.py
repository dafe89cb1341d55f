# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions of the kernel as targets, under load.

Sessions come and go, stand beside others, and cost the same. A thread is at a door that goes.
"""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_functions(kernel, show):
    harness.build_test_module(kernel)
    harness.guest("functions", harness.rounds(kernel, 9, 100), kernel=kernel, smp=2, show=show)
