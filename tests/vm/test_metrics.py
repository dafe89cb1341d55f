# SPDX-License-Identifier: MIT OR Apache-2.0
"""What jifl stat counts beside times: events of perf, numbers of /proc and of processors."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.KERNELS)
def test_metrics(kernel, show):
    harness.guest("metrics", kernel=kernel, smp=2, timeout=600, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_one_processor(kernel, show):
    harness.guest("metrics", kernel=kernel, smp=1, timeout=600, show=show)
