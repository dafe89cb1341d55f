# SPDX-License-Identifier: MIT OR Apache-2.0
"""Warnings, oopses and mended faults in instrumented system calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_trouble(kernel, show):
    module = harness.build_module("modules/trouble.c")
    harness.guest("trouble", kernel=kernel, show=show, trouble=True, append="randomize_kstack_offset=off",
                  options=["--module", harness.built_for(module, kernel) / "trouble.ko"])
