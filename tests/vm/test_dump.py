# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl dump`: the code cache holds what it should hold."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_dump(kernel, show):
    harness.guest("dump", kernel=kernel, show=show)
