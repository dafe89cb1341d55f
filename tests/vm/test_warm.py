# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a first call costs, and that a warmed session's first call costs what later ones do."""

import pytest

import harness


@pytest.mark.parametrize("kernel", [kernel for kernel in harness.turn(0) if kernel not in harness.FINDERS])
def test_warm(kernel, show):
    harness.guest("warm", harness.compile_program("first_call"), kernel=kernel, icount=True, show=show)
