# SPDX-License-Identifier: MIT OR Apache-2.0
"""Call paths: compared with what other sessions count and record of the same calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_call_paths(kernel, show):
    harness.guest("call_paths", kernel=kernel, smp=2, timeout=600, show=show)


# Numbers of X86_FEATURE_FSRS and _FSRM. 6.1 has no such function.
@pytest.mark.parametrize("kernel", [kernel for kernel in harness.KERNELS if kernel == "6.12"])
def test_user_access(kernel, show):
    harness.guest("user_access", kernel=kernel, smp=1, append="clearcpuid=395,580 preempt=full", show=show)
