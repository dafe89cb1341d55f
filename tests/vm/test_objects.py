# SPDX-License-Identifier: MIT OR Apache-2.0
"""What calls are about: each object has the calls and the times of its own calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(2))
def test_objects(kernel, show):
    harness.guest("objects", kernel=kernel, smp=2, timeout=600, show=show)
