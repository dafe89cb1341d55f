# SPDX-License-Identifier: MIT OR Apache-2.0
"""Warnings, oopses and mended faults in instrumented system calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_trouble(kernel, show):
    harness.guest("trouble", kernel=kernel, show=show, trouble=True, append="randomize_kstack_offset=off log_buf_len=16M",
                  options=["--module", harness.build_trouble(kernel)])
