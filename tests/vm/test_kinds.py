# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions as targets under other names: 32-bit system calls, interrupts, deferred work."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_kinds(kernel, show):
    harness.guest("kinds", harness.compile_program("calls32"), kernel=kernel, smp=2, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
@pytest.mark.parametrize("part", harness.share(range(4), 1))
def test_every_tool_has_every_kind(kernel, part, show):
    program = harness.compile_program("calls32")
    harness.guest("kinds_tools", program, part, kernel=kernel, smp=2, timeout=900, show=show)
