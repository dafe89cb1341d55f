# SPDX-License-Identifier: MIT OR Apache-2.0
"""`jifl lock` shows as many and as long waits for locks as are known, and none where no other task
has the locks.
"""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_lock(kernel, show):
    contend = harness.compile_program("contend", "-pthread")
    harness.guest("lock", contend, kernel=kernel, smp=2, show=show)
