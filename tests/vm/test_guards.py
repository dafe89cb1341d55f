# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guards of doors that lead straight into the cache, and calls for whose return there is no hook."""

import pytest

import harness


# With KASAN all calls ask C code: there is no table of doors.
@pytest.mark.parametrize("kernel", [kernel for kernel in harness.turn(0) if kernel not in harness.FINDERS])
def test_guards(kernel, show):
    harness.build_test_module(kernel)
    harness.guest("guards", kernel=kernel, smp=2, show=show)
