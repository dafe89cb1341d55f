# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl why` names the function, and the branch in it, for which calls are known to fail."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_why(kernel, show):
    harness.guest("why", kernel=kernel, show=show)
