# SPDX-License-Identifier: MIT OR Apache-2.0
"""Python's own tests of the functions behind system calls: which pass, fail and are skipped.

usage: python.py MODULE
"""

import sys
import unittest

module = sys.argv[1]


class Lines(unittest.TestResult):
    """A line for each test that was not simply passed."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def addError(self, test, err):
        self.lines.append(f"error {test}: {err[0].__name__}")
        print(self._exc_info_to_string(err, test), file=sys.stderr)

    def addFailure(self, test, err):
        self.lines.append(f"failure {test}")
        print(self._exc_info_to_string(err, test), file=sys.stderr)

    def addSkip(self, test, reason):
        self.lines.append(f"skipped {test}")

    def addSubTest(self, test, subtest, err):
        if err:
            self.lines.append(f"failure {subtest}")


result = Lines()
unittest.defaultTestLoader.loadTestsFromName(f"test.{module}").run(result)
print("\n".join(sorted(result.lines)))
print(f"{module}: {result.testsRun} tests ran")
