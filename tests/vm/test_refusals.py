# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that are refused as targets, and calls of functions that pass natively."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_refusals(kernel, show):
    # NMIs write the stacks of all processors into the log.
    harness.guest("refusals", kernel=kernel, show=show, trouble=True, append="log_buf_len=16M")
