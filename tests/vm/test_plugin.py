# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plugins: the example, every kind of instrumentation, every kind of mistake."""

import re
from pathlib import Path

import pytest

import harness

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_plugins(kernel, show):
    for name in "misuse", "strangers":
        harness.build_module(f"plugins/{name}.c", settings=f"ccflags-y += -I{ROOT}/tests/vm/plugins\n")
    harness.build_module("plugins/hostile.c")
    harness.build_module("plugins/forms.c")
    plugins = harness.build_module("plugins/exercise.c")
    calls = harness.compile_program("calls", "-pthread")
    faults = harness.compile_program("faults", "-pthread")
    harness.guest("plugins", plugins, calls, faults, kernel=kernel, timeout=600, trouble=True, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_tools(kernel, show):
    plugins = harness.build_module("plugins/values.c")
    harness.guest("tools", plugins, kernel=kernel, timeout=300, show=show)


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_store(kernel, show):
    harness.build_module("plugins/store.c")
    harness.build_module("plugins/order.c")
    plugins = harness.build_module("plugins/order.c", "other")
    calls = harness.compile_program("calls", "-pthread")
    module = harness.build_test_module(kernel)
    harness.guest("store", plugins, calls, module, kernel=kernel, timeout=300, trouble=True, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_targets(kernel, show):
    plugins = harness.build_module("plugins/targets.c")
    module = harness.build_test_module(kernel)
    harness.guest("targets", plugins, module, kernel=kernel, smp=2, timeout=900, trouble=True, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_paper(kernel, show):
    """The plugins that the JIFL paper prints."""
    for number in 3, 14, 15, 17:
        plugins = harness.build_module(f"plugins/figure{number}.c")
    harness.guest("figures", plugins, kernel=kernel, smp=2, timeout=300, show=show)


GUIDE = (ROOT / "docs/plugins.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_tutorial_is_the_plugin():
    """The pieces of docs/plugins.md, one behind the other, are plugins/whofails."""
    source = (ROOT / "plugins/whofails/whofails.c").read_text()
    assert "\n".join(blocks("c")) == source.partition("*/\n")[2]
    makefile = (ROOT / "plugins/whofails/Makefile").read_text()
    assert "".join(blocks("make")) == makefile.partition("\n")[2]


def test_every_call_is_in_the_guide():
    headers = [(ROOT / "include" / name).read_text() for name in ("jifl.h", "jifl_store.h", "jifl_probe.h")]
    public = "".join(header.partition("not for plugins")[0] for header in headers)
    names = set(re.findall(r"^#define ((?!DEFINE|VALUE|JIFL)\w+)\(", public, re.MULTILINE))
    names |= set(re.findall(r"^\t(ARG_(?!END)\w+)", public, re.MULTILINE))
    names |= set(re.findall(r"^static inline \w+ \*?(\w+)\(", public, re.MULTILINE))
    assert len(names) > 70
    assert not {name for name in names if f"`{name}`" not in GUIDE}
