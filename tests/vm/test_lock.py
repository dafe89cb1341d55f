# SPDX-License-Identifier: MIT OR Apache-2.0
"""Locks are waited for as often and as long as is known; where nobody else has them, never."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.KERNELS)
def test_lock(kernel, show):
    contend = harness.compile_program("contend", "-pthread")
    harness.guest("lock", contend, kernel=kernel, smp=2, show=show)
