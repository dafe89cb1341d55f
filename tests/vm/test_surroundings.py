# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processors, cgroups, the freezer and namespaces change around instrumented tasks."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_surroundings(kernel, show):
    calls = harness.compile_program("calls", "-pthread")
    harness.guest("surroundings", calls, kernel=kernel, smp=2, show=show)
