# SPDX-License-Identifier: MIT OR Apache-2.0
"""Times of functions: what is measured is between what is known to be less and to be more."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_stat(kernel, show):
    harness.guest("stat", kernel=kernel, smp=2, timeout=600, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_one_processor(kernel, show):
    harness.guest("stat", kernel=kernel, smp=1, timeout=600, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_times_cost_what_inserted_code_costs(kernel, show):
    """In a machine whose clock counts instructions: calls and all times of a function take at most 100, with its door."""
    reads = harness.compile_program("reads", "-O2", "-static")
    words = ("fn:vfs_read", "fn:vfs_read fn:ksys_read")
    stats = [f"jifl stat {each} -o /tmp/stat -- {reads}" for each in words]
    run = harness.vm(" && ".join([str(reads), *stats]), kernel=kernel, icount=True, timeout=120)
    native, *took = map(int, run.stdout.split())
    added = dict(zip(words, (each - native for each in took)))
    show(f"times add, in instructions: {added}")
    assert 0 < added[words[0]] <= 100 and added[words[1]] <= 200, added
