# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions of jifl stat, and times that are between two others."""

from lib import check, session

NS = 1_000_000_000


def stat(*words):
    return session(*words, "-f", "json", command="stat")


def between(name, least, got, most):
    """The counter's rate and the clock's differ by less than a thousandth."""
    check(name, least * 0.999 - 1000 <= got <= most * 1.001 + 1000, (least, got, most))
