# SPDX-License-Identifier: MIT OR Apache-2.0
"""/dev/jifl and the promises about it: see docs/security.md."""

import os
import random

import pytest

import harness

# Replays a run that failed, as far as its races allow.
SEED = os.environ.get("JIFL_TEST_SEED") or str(random.randrange(1000000))

# Requests; with JIFL_SOAK, about as many as fit into that many seconds.
OPERATIONS = 4000
OPERATIONS_A_SECOND = 100


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_door(kernel, show):
    show(f"JIFL_TEST_SEED={SEED}")
    harness.guest("door", harness.compile_program("door_fuzz", "-pthread"),
                  max(OPERATIONS, harness.SOAK * OPERATIONS_A_SECOND), SEED, kernel=kernel, module=False,
                  timeout=600 + 2 * harness.SOAK, show=show)
