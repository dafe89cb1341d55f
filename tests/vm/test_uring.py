# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work that a process submits to io_uring, and its workers do, is counted as the process's."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_uring(kernel, show):
    uring = harness.compile_program("uring")
    harness.guest("uring", uring, kernel=kernel, smp=2, show=show)
