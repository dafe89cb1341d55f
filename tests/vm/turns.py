# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which of the tests in machines `make test` runs with a commit.

All of them take an hour of two processors. costs.json has those that take turns, with the seconds of
processors that they took when they were measured. They are in TURNS parts of about the same cost.
With JIFL_TEST_TURNS=1, which `make test` sets, one part runs, drawn by the commit. What is not in
costs.json runs each time: a new test, a cheap one, and the thin whole way (exact counts, results of
programs, the command's own manners).
"""

import json
from pathlib import Path

TURNS = 6
COSTS = Path(__file__).parent / "costs.json"


def measured():
    """Seconds of processors by test, without its parameters."""
    return json.loads(COSTS.read_text(encoding="utf-8"))


def without_parameters(test):
    return test.partition("[")[0]


def parts(costs):
    """The tests that take turns, in TURNS sets of about the same cost."""
    sets = [[0, set()] for _ in range(TURNS)]
    for test, cost in sorted(costs.items(), key=lambda entry: (-entry[1], entry[0])):
        least = min(sets, key=lambda entry: entry[0])
        least[0] += cost
        least[1].add(test)
    return [tests for _, tests in sets]


def waiting(costs, lot):
    """The tests whose turn it is not."""
    return set().union(*parts(costs)) - parts(costs)[lot % TURNS]
