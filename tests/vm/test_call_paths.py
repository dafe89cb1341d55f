# SPDX-License-Identifier: MIT OR Apache-2.0
"""Call paths: compared with what other sessions count and record of the same calls."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_call_paths(kernel, show):
    harness.guest("call_paths", kernel=kernel, smp=2, timeout=600, show=show)
