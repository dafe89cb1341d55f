# SPDX-License-Identifier: MIT OR Apache-2.0
"""Probes of plugins: functions that are called at places, for all callers, in copies and natively."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_probe_plugins(kernel, show):
    harness.build_module("plugins/probes.c")
    plugins = harness.build_module("plugins/probes.c", "more_probes")
    harness.guest("probe_plugins", plugins, harness.rounds(kernel, 1, 10), kernel=kernel, smp=2, timeout=600, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_probe_examples(kernel, show):
    """The plugins that come with JIFL."""
    harness.guest("probe_examples", kernel=kernel, smp=2, timeout=300, show=show)
