# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plugins: the example, every kind of instrumentation, every kind of mistake."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_plugins(kernel, show):
    harness.build_module("plugins/misuse.c")
    harness.build_module("plugins/hostile.c")
    harness.build_module("plugins/forms.c")
    plugins = harness.build_module("plugins/exercise.c")
    calls = harness.compile_program("calls", "-pthread")
    faults = harness.compile_program("faults", "-pthread")
    harness.guest("plugins", plugins, calls, faults, kernel=kernel, timeout=600, trouble=True, show=show)
