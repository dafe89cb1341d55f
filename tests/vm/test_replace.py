# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that are replaced: which calls go where, who is inside, and how it ends."""

import pytest

import harness

# So often the function is replaced and restored under a load. A round is nearly all waiting, for
# grace periods of RCU tasks: 10,000 of them are a soak of eight hours.
SECONDS_A_ROUND = 3
ROUNDS = max(50, harness.SOAK // SECONDS_A_ROUND)

# Processors, and whether another session has the function all the time. Where processors call a
# function while its site changes again and again, QEMU may execute a breakpoint that is gone
# (docs/vm.md). With one processor it cannot.
WAYS = [pytest.param(1, [], id="alone"), pytest.param(2, ["beside"], id="beside")]


def modules():
    """The modules that replace, and are replaced; with calls of the tracer."""
    for name in ("storm", "replaced"):
        built = harness.build_module(f"plugins/{name}.c", settings="REPLACEMENT := y\n")
    return built


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_replace(kernel, show):
    harness.guest("replace", harness.built_for(modules(), kernel), kernel=kernel, smp=2, timeout=1500, show=show)


@pytest.mark.parametrize("smp, beside", harness.share(WAYS, 1))
@pytest.mark.parametrize("kernel", harness.turn(1))
def test_replace_rounds(kernel, smp, beside, show):
    harness.guest("replace", harness.built_for(modules(), kernel), ROUNDS, *beside, kernel=kernel, smp=smp,
                  timeout=1500 + 3 * harness.SOAK, show=show, append="jifl.cache_kb=128 jifl.side_kb=256")
