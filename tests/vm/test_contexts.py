# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions as targets: in each context, called by a module of the tests and by the kernel."""

import pytest

import harness

CASES = [("6.1", 2), ("6.12", 2), ("debug", 2), ("race", 2)]
if harness.SOAK:
    CASES += [("6.1", 1), ("6.12", 1), ("6.12", 4)]


@pytest.mark.parametrize("kernel, smp", [case for case in CASES if case[0] in harness.turn(1)])
def test_contexts(kernel, smp, show):
    harness.guest("contexts", harness.rounds(kernel, 1, 10), kernel=kernel, smp=smp, show=show)


@pytest.mark.parametrize("kernel, smp", [case for case in CASES if case[0] in harness.turn(0)])
def test_levels(kernel, smp, show):
    harness.guest("levels", harness.rounds(kernel, 8, 60), kernel=kernel, smp=smp, show=show)


@pytest.mark.parametrize("kernel, smp", [case for case in CASES if case[0] in harness.turn(2)])
def test_recorded(kernel, smp, show):
    harness.guest("recorded", harness.rounds(kernel, 1, 10), kernel=kernel, smp=smp, show=show)


# With KASAN all calls ask C code: there is no table of doors.
@pytest.mark.parametrize("kernel", [kernel for kernel in harness.turn(1) if kernel not in harness.FINDERS])
def test_costs(kernel, show):
    harness.guest("costs", kernel=kernel, icount=True, show=show)
