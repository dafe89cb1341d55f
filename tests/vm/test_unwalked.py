# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stacks of which the unwinder leaves frames out, at the end and at the beginning of sessions."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_unwalked(kernel, show):
    harness.guest("unwalked", kernel=kernel, smp=2, show=show)
