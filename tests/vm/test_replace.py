# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that are replaced: which calls go where, who is inside, and how it ends."""

import pytest

import harness

# So often the function is replaced and restored under a load.
ROUNDS = 10000 if harness.SOAK else 200


def modules():
    """The modules that replace, and are replaced; with calls of the tracer."""
    for name in ("storm", "replaced"):
        built = harness.build_module(f"plugins/{name}.c", settings="REPLACEMENT := y\n")
    return built


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_replace(kernel, show):
    harness.guest("replace", harness.built_for(modules(), kernel), kernel=kernel, smp=2, timeout=1500, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_replace_rounds(kernel, show):
    harness.guest("replace", harness.built_for(modules(), kernel), ROUNDS, kernel=kernel, smp=2,
                  timeout=60 * 60 * 5 if harness.SOAK else 1500, show=show, append="jifl.cache_kb=128 jifl.side_kb=256")
