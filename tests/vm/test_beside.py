# SPDX-License-Identifier: MIT OR Apache-2.0
"""jifl stat, perf stat and the kernel's own counts of the same calls, in one run."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.KERNELS)
def test_beside(kernel, show):
    harness.guest("beside", kernel=kernel, smp=2, timeout=900, show=show)
