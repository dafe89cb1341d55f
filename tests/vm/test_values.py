# SPDX-License-Identifier: MIT OR Apache-2.0
"""Values that jifl probe records are those of kprobe events at the same places."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_values(kernel, show):
    # What is left of addresses of the stack in a register is the same then in each call.
    harness.guest("values", kernel=kernel, smp=2, append="randomize_kstack_offset=off", timeout=1500, show=show)
