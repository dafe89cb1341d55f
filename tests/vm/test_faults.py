# SPDX-License-Identifier: MIT OR Apache-2.0
"""Faults and stack walks in instrumented system calls have the same results as natively."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_faults_and_stacks(kernel, show):
    faults = harness.compile_program("faults", "-pthread")
    sleepers = harness.compile_program("sleepers", "-pthread")
    harness.guest("faults", faults, sleepers, kernel=kernel, show=show)
