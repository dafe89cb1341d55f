# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for the tests beside this file, and the text that is printed at their end."""

import json
import os
import resource
import time

import pytest

import harness
import turns

# What each test took when all were last run here; seconds by test.
SECONDS = harness.ROOT / "build/tests/seconds.json"


@pytest.fixture
def show(record_property):
    """Keeps a line of figures, to be printed at the end whether the test passes or not."""
    return lambda text: record_property("figure", text)


def pytest_collection_modifyitems(config, items):
    """Those whose turn it is not wait; the longest come first, those of which nothing is known before them.

    A long one at the end leaves a processor idle.
    """
    costs = turns.measured()
    if "JIFL_TEST_TURNS" in os.environ:
        waiting = turns.waiting(costs, harness.lot())
        left = [item for item in items if turns.without_parameters(of_here(item.nodeid)) in waiting]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}

    def seconds_of(item):
        test = of_here(item.nodeid)
        return known.get(test, costs.get(turns.without_parameters(test), float("inf")))

    items.sort(key=lambda item: -seconds_of(item))


def of_here(nodeid):
    """Its name without the folder's."""
    return nodeid.removeprefix("tests/vm/")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Keeps what a test took: seconds, those until its machines were up, and processors'."""
    harness.BOOTS.clear()
    harness.CHECKS.clear()
    start, before = time.monotonic(), cpu_seconds()
    yield
    took = (time.monotonic() - start, sum(harness.BOOTS), len(harness.BOOTS), cpu_seconds() - before, tuple(harness.CHECKS))
    item.user_properties.append(("took", took))


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """Says at once what the test took: a run that is broken off has shown where its time went."""
    took = dict(report.user_properties).get("took")
    if report.when == "call" and took and took[0] >= 1 and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{took[0]:8.1f} s, {took[3]:.1f} s of processors: {of_here(report.nodeid)}", end="", flush=True)


def cpu_seconds():
    """Of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pytest_terminal_summary(terminalreporter):
    """Prints them: tests run in processes of their own, whose output is not shown."""
    terminalreporter.section("figures")
    took = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in report.user_properties if report.when == "call" else ():
                test = of_here(report.nodeid)
                if name == "figure":
                    terminalreporter.write_line(f"{test.rpartition('::')[2]}: {value}")
                else:
                    took[test] = value
    terminalreporter.section("seconds by test")
    for line in seconds(took):
        terminalreporter.write_line(line)
    keep(took)


def keep(took):
    """For the order of the next run. Tests that did not run keep what they had; those of the soak,
    and with a planted bug, are not kept.
    """
    if harness.SOAK or harness.PLANT:
        return
    known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    SECONDS.parent.mkdir(parents=True, exist_ok=True)
    new = SECONDS.with_name(f"seconds.{os.getpid()}")
    known |= {test: round(value[0], 1) for test, value in took.items()}
    new.write_text(json.dumps(known, indent=1) + "\n")
    new.replace(SECONDS)


def seconds(took):
    """The lines of the table of what the tests took, slowest first."""
    yield f"{'seconds':>8} {'boots':>8} {'machines':>8} {'of CPUs':>8}"
    for test, (total, boots, machines, cpu, checks) in sorted(took.items(), key=lambda entry: -entry[1][0]):
        if total < 1:
            continue    # dozens, which need no machine
        yield f"{total:8.1f} {boots:8.1f} {machines:8} {cpu:8.1f} {test}"
        if "JIFL_TEST_TIMES" in os.environ:
            yield from (f"{'':38}{check}" for check in checks)
    total, boots, machines, cpu = (sum(column) for column in list(zip(*took.values()))[:4]) if took else (0, 0, 0, 0)
    yield f"{total:8.1f} {boots:8.1f} {machines:8} {cpu:8.1f} all {len(took)} tests"
