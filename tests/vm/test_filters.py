# SPDX-License-Identifier: MIT OR Apache-2.0
"""Only the tasks that a session's filters select are counted, and every call of theirs."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_filters(kernel, show):
    calls = harness.compile_program("calls", "-pthread")
    harness.guest("filters", calls, kernel=kernel, show=show)
