# SPDX-License-Identifier: MIT OR Apache-2.0
"""A session counts only the tasks that its filters select, and every call of these tasks."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_filters(kernel, show):
    calls = harness.compile_program("calls", "-pthread")
    harness.guest("filters", calls, kernel=kernel, show=show)
