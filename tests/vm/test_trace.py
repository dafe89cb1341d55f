# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl trace` sees the functions that the kernel's own tracer sees; lost records are counted."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_trace(kernel, show):
    harness.guest("trace", kernel=kernel, show=show)


@pytest.mark.parametrize("kernel", harness.turn(2))
def test_graph(kernel, show):
    harness.guest("graph", kernel=kernel, smp=2, show=show)
