# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions end, and the module unloads, while tasks sleep in instrumented calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.KERNELS)
def test_sleepers_do_not_hold_the_module(kernel, show):
    sleepers = harness.compile_program("sleepers", "-pthread")
    harness.guest("detach", sleepers, kernel=kernel, show=show)
