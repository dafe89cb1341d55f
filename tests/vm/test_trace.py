# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that are traced are those the kernel's own tracer sees; what is lost is counted."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_trace(kernel, show):
    harness.guest("trace", kernel=kernel, show=show)
