# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions end, and the module unloads, while tasks sleep in instrumented calls."""

import pytest

import harness

# A session ends within two seconds. Where time is the machine's own, that is
# exact; elsewhere it depends on what else the host does, so there is a margin.
SECONDS = 2
SECONDS_UNDER_LOAD = 20


@pytest.fixture(scope="module")
def sleepers():
    return harness.compile_program("sleepers", "-pthread")


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_sleepers_do_not_hold_the_module(kernel, sleepers, show):
    harness.guest("detach", sleepers, SECONDS_UNDER_LOAD, kernel=kernel, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_sessions_end_soon(kernel, sleepers, show):
    harness.guest("detach", sleepers, SECONDS, kernel=kernel, icount=True, show=show)
