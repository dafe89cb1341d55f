# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that load a kernel heavily give the same results under `jifl count block 'sys:*'`."""

import os
import random

import pytest

import harness

STRESS = [f"stress.sh:{name}" for name in ("files", "data", "memory", "pipes", "sockets", "signals", "processes",
                                           "queues", "names", "times")]
FILES = ["sqlite.sh", "git.sh", "fio.sh"]
# What only the soak does; scripts/soak-setup installs what they need.
LARGE = ["stress.sh:slow", "postgres.sh", "redis.sh", "web.sh", "iperf.sh", "build.sh",
         *(f"python.py:test_{name}" for name in ("os", "socket", "mmap", "subprocess"))]

# JIFL_TEST_LOADS="stress.sh:slow postgres.sh": once through these, on each kernel.
ASKED_FOR = os.environ.get("JIFL_TEST_LOADS", "").split()

# The soak goes through all of it, in an order of its own.
SEED = os.environ.get("JIFL_TEST_SEED") or str(random.randrange(1000000))


# Otherwise: the classes whose rounds do not depend on who is faster, each on one kernel.
SHORT = [["stress.sh:files", "stress.sh:memory", "sqlite.sh"], ["stress.sh:data", "stress.sh:pipes", "fio.sh"]]


@pytest.mark.parametrize("kernel", harness.KERNELS if ASKED_FOR else harness.share(harness.KERNELS, 1))
def test_load(kernel, show):
    if ASKED_FOR:
        harness.guest("load", 0, *ASKED_FOR, kernel=kernel, memory="4G", timeout=3600, show=show)
        return
    if harness.SOAK:
        # The large ones take hours on a kernel with checks of its own.
        loads = STRESS + FILES + ([] if kernel in harness.FINDERS else LARGE)
        random.Random(SEED).shuffle(loads)
        show(f"JIFL_TEST_SEED={SEED}")
        harness.guest("load", harness.SOAK, *loads, kernel=kernel, memory="4G", timeout=harness.SOAK + 1800, show=show)
        return
    loads = SHORT[harness.KERNELS.index(kernel) % len(SHORT)]
    harness.guest("load", 0, *loads, kernel=kernel, timeout=900, show=show)
