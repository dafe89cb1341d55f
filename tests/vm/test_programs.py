# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same program gives the same results with and without instrumentation."""

import pytest

import harness

ALL = ["coreutils.sh", "shell.sh", "archive.sh", "system.py", "compile.sh"]


@pytest.mark.parametrize("kernel", harness.share(harness.KERNELS, 1))
def test_instructions(kernel, show):
    harness.guest("programs", "insn", *ALL, kernel=kernel, timeout=900, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_blocks(kernel, show):
    harness.guest("programs", "block", "shell.sh", "system.py", kernel=kernel, smp=1, timeout=900, show=show)


@pytest.mark.parametrize("kernel", harness.share(harness.KERNELS, 1))
def test_functions(kernel, show):
    """All functions of the kernel are targets, in all contexts."""
    harness.guest("programs", "functions", "shell.sh", "system.py", "coreutils.sh", kernel=kernel, timeout=900, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_poisoned(kernel, show):
    """What inserted code takes for dead is made garbage: nobody misses it."""
    harness.guest("programs", "insn", "system.py", kernel=kernel, append="jifl.poison=1", timeout=300, show=show)
