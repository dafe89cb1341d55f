# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for the tests beside this file."""

import pytest


@pytest.fixture
def show(record_property):
    """Keeps a line of figures, to be printed at the end whether the test passes or not."""
    return lambda text: record_property("figure", text)


def pytest_terminal_summary(terminalreporter):
    """Prints them: tests run in processes of their own, whose output is not shown."""
    terminalreporter.section("figures")
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, text in report.user_properties:
                if name == "figure" and report.when == "call":
                    terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {text}")
