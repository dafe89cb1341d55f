# SPDX-License-Identifier: MIT OR Apache-2.0
"""Object files of BPF programs for jifl probe --bpf."""

import os

import pytest

import harness

# JIFL_TEST_SEED=N changes the bytes of a run that failed again.
SEED = os.environ.get("JIFL_TEST_SEED") or harness.lot()


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_bpf_objects(kernel, show):
    harness.guest("bpf_objects", SEED, kernel=kernel, smp=2, timeout=1500, show=show)
