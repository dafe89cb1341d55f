# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fixtures for the tests beside this file."""

import pytest


@pytest.fixture
def show(capsys, request):
    """Prints a line of figures whether the test passes or not."""
    def line(text):
        with capsys.disabled():
            print(f"\n  {request.node.name}: {text}", end="", flush=True)
    return line
