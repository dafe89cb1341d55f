# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that work a kernel hard give the same results under `jifl count block 'sys:*'`."""

import pytest

import harness

STRESS = ["files", "memory", "pipes", "sockets", "signals", "processes", "queues", "names", "times"]
SHORT = ["sqlite.sh", "git.sh", "fio.sh"]


# What is short is divided between the kernels, what is long is done on each.
@pytest.mark.parametrize("kernel", harness.KERNELS)
def test_load(kernel, show):
    part = harness.KERNELS.index(kernel)
    loads = [f"stress.sh:{name}" for name in STRESS[part::len(harness.KERNELS)]]
    harness.guest("load", 1, *loads, *SHORT, kernel=kernel, timeout=900, show=show)
