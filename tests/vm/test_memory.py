# SPDX-License-Identifier: MIT OR Apache-2.0
"""Little memory, and allocations that fail."""

import json

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_memory(kernel, show):
    module = harness.build_test_module(kernel)
    calls = harness.compile_program("calls", "-pthread")
    harness.guest("memory", module, calls, kernel=kernel, module=False, timeout=1800, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_no_large_pages(kernel):
    """Without large pages for vmalloc the code cache has small ones, and all else is as usual."""
    run = harness.vm("jifl count insn sys:getppid -f json -- sh -c : >/tmp/report && jifl status -f json && jifl unload jifl",
                     kernel=kernel, append="nohugevmalloc", timeout=120)
    found = json.loads(run.stdout)
    assert (found["code_page"], found["code_size"]) == (4 << 10, 8 << 20), run.shown()
