# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl dump`: what the code cache holds is what was to be put there."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_dump(kernel, show):
    harness.guest("dump", kernel=kernel, show=show)
