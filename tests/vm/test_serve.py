# SPDX-License-Identifier: MIT OR Apache-2.0
"""jifl serve: the daemon, its clients on this machine and with certificates, what it counts, how it ends."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_serve(kernel, show):
    harness.guest("serve", kernel=kernel, smp=2, timeout=600, show=show)
