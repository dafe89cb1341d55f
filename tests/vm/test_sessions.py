# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several sessions at once on the same system calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_sessions_at_once(kernel, show):
    calls = harness.compile_program("calls", "-pthread")
    sleepers = harness.compile_program("sleepers", "-pthread")
    harness.guest("sessions", calls, sleepers, kernel=kernel, show=show)
