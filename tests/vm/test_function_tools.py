# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tools on functions: traces, histograms, keys, profiles, causes of errors."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_function_tools(kernel, show):
    harness.guest("function_tools", kernel=kernel, smp=2, show=show)
