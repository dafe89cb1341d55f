# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions start and stop under load, a hundred times or a thousand, and the kernel's log stays clean."""

import itertools
import os
import random

import pytest

import harness

# In the soak on each kernel with each number of CPUs.
MACHINES = [*itertools.product(harness.turn(0), [2]), *itertools.product(harness.turn(1), [1])]
ROUNDS, SOAK_ROUNDS = 100, 1000
CONTROL_SECONDS = 20

# JIFL_TEST_SEED=N does the rounds of a run that failed again.
SEED = os.environ.get("JIFL_TEST_SEED") or str(random.randrange(1000000))


@pytest.mark.parametrize("kernel, smp", harness.share(MACHINES, 1))
def test_churn(kernel, smp, show):
    rounds = harness.rounds(kernel, ROUNDS, SOAK_ROUNDS)
    harness.guest("churn", rounds, SEED, kernel=kernel, smp=smp, timeout=27 * rounds, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_the_same_load_alone(kernel, show):
    """The control: trouble that shows up here is not the module's."""
    harness.guest("churn", CONTROL_SECONDS, kernel=kernel, module=False, show=show)
