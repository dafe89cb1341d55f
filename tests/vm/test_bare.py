# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that are entered by jumps, as targets of all tools: they have no ftrace site, or another tracer has it."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_bare(kernel, show):
    harness.guest("bare", kernel=kernel, smp=2, show=show)


@pytest.mark.parametrize("kernel", harness.turn(4))
def test_owned(kernel, show):
    harness.guest("owned", harness.compile_program("fentry"), kernel=kernel, smp=2, timeout=1200, show=show)
