# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions as targets by their source: files and lines."""

import pytest

import harness

# Kernels that find defects are built without debug information.
KERNELS = [kernel for kernel in harness.turn(1) if kernel not in harness.FINDERS]


@pytest.mark.parametrize("kernel", KERNELS)
def test_files(kernel, show):
    harness.guest("files", kernel=kernel, smp=2, show=show)
