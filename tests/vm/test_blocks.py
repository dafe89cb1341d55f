# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executions of each block are those of kprobes and of flow; `jifl cover`, `prof` and `branch` show
them.
"""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_blocks(kernel, show):
    harness.guest("blocks", harness.SOAK, kernel=kernel, show=show)
