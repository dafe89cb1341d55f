# SPDX-License-Identifier: MIT OR Apache-2.0
"""Little memory, and allocations that fail."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_memory(kernel, show):
    module = harness.build_test_module(kernel)
    calls = harness.compile_program("calls", "-pthread")
    harness.guest("memory", module, calls, kernel=kernel, module=False, timeout=600, show=show)
