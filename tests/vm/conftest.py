# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for the tests beside this file, and what is printed at their end."""

import os
import resource
import time

import pytest

import harness


@pytest.fixture
def show(record_property):
    """Keeps a line of figures, to be printed at the end whether the test passes or not."""
    return lambda text: record_property("figure", text)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Keeps what a test took: seconds, those until its machines were up, and those of processors."""
    harness.BOOTS.clear()
    harness.CHECKS.clear()
    start, before = time.monotonic(), cpu_seconds()
    yield
    took = (time.monotonic() - start, sum(harness.BOOTS), len(harness.BOOTS), cpu_seconds() - before, tuple(harness.CHECKS))
    item.user_properties.append(("took", took))


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
                test = report.nodeid.rpartition("/")[2]
                if name == "figure":
                    terminalreporter.write_line(f"{test.rpartition('::')[2]}: {value}")
                else:
                    took[test] = value
    terminalreporter.section("seconds by test")
    for line in seconds(took):
        terminalreporter.write_line(line)


def seconds(took):
    """The lines of the table of what the tests took, slowest first."""
    yield f"{'seconds':>8} {'boots':>8} {'machines':>8} {'of CPUs':>8}"
    for test, (total, boots, machines, cpu, checks) in sorted(took.items(), key=lambda entry: -entry[1][0]):
        yield f"{total:8.1f} {boots:8.1f} {machines:8} {cpu:8.1f} {test}"
        if "JIFL_TEST_TIMES" in os.environ:
            yield from (f"{'':38}{check}" for check in checks)
    total, boots, machines, cpu = (sum(column) for column in list(zip(*took.values()))[:4]) if took else (0, 0, 0, 0)
    yield f"{total:8.1f} {boots:8.1f} {machines:8} {cpu:8.1f} all {len(took)} tests"
