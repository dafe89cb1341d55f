# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which of the tests in machines `make test` runs with a commit.

All of them take an hour of two processors. costs.json has those that take long, with the seconds of
processors that they took when they were measured. They are in TURNS parts of about the same cost.
With JIFL_TEST_TURNS=1, which `make test` sets, one part runs, drawn by the commit. Each time run
those of EACH_TIME, and what is not in costs.json: a new test, or one that is cheap.
"""

import json
from pathlib import Path

TURNS = 4
COSTS = Path(__file__).parent / "costs.json"

# The thin whole way on both kernels: exact counts, results of programs, the command's own manners,
# a panic's report, one function target, one probe, one replacement.
EACH_TIME = {
    "test_oracle.py::test_counts_equal_the_clock",
    "test_command.py::test_filters",
    "test_command.py::test_ends_of_sessions",
    "test_command.py::test_refusals",
    "test_machine.py::test_output_and_status_are_the_commands",
    "test_programs.py::test_blocks",
    "test_sessions.py::test_sessions_at_once",
    "test_uring.py::test_uring",
}


def measured():
    """Seconds of processors by test, without its parameters."""
    return json.loads(COSTS.read_text(encoding="utf-8"))


def without_parameters(test):
    return test.partition("[")[0]


def parts(costs):
    """The tests that take turns, in TURNS sets of about the same cost."""
    sets = [[0, set()] for _ in range(TURNS)]
    for test, cost in sorted(costs.items(), key=lambda entry: (-entry[1], entry[0])):
        if test not in EACH_TIME:
            least = min(sets, key=lambda entry: entry[0])
            least[0] += cost
            least[1].add(test)
    return [tests for _, tests in sets]


def waiting(costs, lot):
    """The tests whose turn it is not."""
    return set().union(*parts(costs)) - parts(costs)[lot % TURNS]
