# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions start and end a hundred times while a load runs, and nobody notices."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.KERNELS)
@pytest.mark.parametrize("smp", [1, 2])
def test_a_hundred_sessions_under_load(kernel, smp, show):
    harness.guest("churn", 100, kernel=kernel, smp=smp, timeout=900, show=show)


@pytest.mark.parametrize("kernel", harness.KERNELS)
def test_the_load_alone(kernel):
    harness.guest("churn", 0, kernel=kernel, smp=2, module=False)
