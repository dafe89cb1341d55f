# SPDX-License-Identifier: MIT OR Apache-2.0
"""Processors, cgroups, the freezer, namespaces and power states change around instrumented tasks."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_surroundings(kernel, show):
    calls = harness.compile_program("calls", "-pthread")
    harness.guest("surroundings", calls, kernel=kernel, smp=2, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_suspend(kernel, show):
    # A shell, which is on the host's root, would not come to its end behind a suspended machine.
    harness.guest("suspend", kernel=kernel, smp=2, alone=True, timeout=300, show=show)
