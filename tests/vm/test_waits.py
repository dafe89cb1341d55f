# SPDX-License-Identifier: MIT OR Apache-2.0
"""No record is lost of programs that make calls as fast as they can, because these programs wait;
no task waits in vain.
"""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_waits(kernel, show):
    harness.guest("waits", kernel=kernel, smp=1, show=show)
