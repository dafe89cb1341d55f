# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interrupts, NMIs, signals, tracers and filters meet instrumented system calls."""

import pytest

import harness

PERIOD = 200_000    # nanoseconds; a translated machine does little else at a fifth of that

# Where the kernel may be preempted, with one CPU and with two. JIFL_SOAK=1: each kernel both ways.
CASES = [("6.1", 2, "full"), ("6.12", 1, "none"), ("debug", 2, "full"), ("race", 2, "full")]
if harness.SOAK:
    CASES += [("6.1", 1, "voluntary"), ("6.1", 2, "none"), ("6.12", 2, "full"), ("6.12", 2, "voluntary")]


@pytest.mark.parametrize("kernel, smp, preempt", harness.share([case for case in CASES if case[0] in harness.KERNELS], 1))
def test_interrupts(kernel, smp, preempt, show):
    events = harness.compile_program("events", "-pthread")
    sampler = harness.compile_program("sampler")
    harness.guest("interrupts", events, sampler, PERIOD, kernel=kernel, smp=smp, trouble=True, show=show,
                  append=f"preempt={preempt} log_buf_len=16M")    # room for all those stacks
