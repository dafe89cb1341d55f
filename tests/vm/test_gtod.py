# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of djprobe's paper, with today's peers."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_gtod(kernel, show):
    """In a machine whose clock counts instructions."""
    harness.build_module("plugins/gtod.c")
    modules = harness.build_module("modules/gtod_peers.c")
    program = harness.compile_program("gtodbench", "-O2", "-static")
    fentry = harness.compile_program("fentry")
    perfring = harness.compile_program("perfring")
    # What scripts/lttng-setup builds; `make test` does without.
    lttng = harness.ROOT / "build/lttng"
    has_lttng = (lttng / "modules" / harness.release_of(kernel)).is_dir()
    harness.guest("gtod", program, modules, fentry, perfring, *([lttng] if has_lttng else []), kernel=kernel, icount=True,
                  timeout=400, show=show)
