# SPDX-License-Identifier: MIT OR Apache-2.0
"""The cache is emptied, and sessions come and go, while several sessions have the same calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_flushes(kernel, show):
    module = harness.build_test_module(kernel)
    calls = harness.compile_program("calls", "-pthread")
    harness.guest("flushes", module, calls, kernel=kernel, module=False, timeout=900, show=show,
                  append="slub_debug=FP")
