# SPDX-License-Identifier: MIT OR Apache-2.0
"""tests/ltp/run tells a test that behaves otherwise under a session from one that does not."""

import importlib.machinery
import importlib.util
import os
import subprocess

import pytest

import harness

RUN = harness.ROOT / "tests/ltp/run"

# Programs that find out whether the module is there, which only the counted machine has; others.
TESTS = """\
#DESCRIPTION: made up
status test -c /dev/jifl
same echo 'x TPASS: 1'; false
words echo "x T$(test -c /dev/jifl && echo FAIL || echo PASS): 1"
slow test ! -c /dev/jifl || sleep 100
logs test ! -c /dev/jifl || echo 'BUG: made up' > /dev/kmsg
not-there no-such-program-of-ltp
"""


def test_a_difference_is_found(tmp_path):
    lists = tmp_path / "install/runtest"
    lists.mkdir(parents=True)
    (lists / "syscalls").write_text(TESTS)
    (tmp_path / "ltp.done").touch()
    run = subprocess.run([RUN, "--suite", "ltp", "--kernel", harness.turn(0)[0], "--limit", "20", "--again", "0"],
                         env={**os.environ, "JIFL_LTP": str(tmp_path)}, capture_output=True, text=True, check=False)
    shown = run.stdout + run.stderr
    assert run.returncode == 1, shown
    rows = {words[1]: words[2:] for words in map(str.split, run.stdout.splitlines()) if len(words) > 7}
    assert rows["same"][:6] == ["1", "1", "pass", "1", "1", "pass"], shown
    assert int(rows["same"][8]) > 10 and rows["same"][9:] == ["0"], shown
    ends = {line.split()[2].rstrip(":"): line.split()[-1] for line in run.stdout.splitlines()
            if line.startswith("different: ")}
    assert ends == {"status": "verdict", "words": "verdict", "slow": "verdict", "logs": "log"}, shown
    counts = dict(line.split(None, 1)[1].rsplit(None, 1) for line in run.stdout.splitlines() if line.startswith("6."))
    assert (counts["different"], counts["not built"], counts["calls missed"]) == ("4", "1", "0"), shown


def load_run():
    """tests/ltp/run as a module."""
    loader = importlib.machinery.SourceFileLoader("ltp_run", str(RUN))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("ltp_run", loader))
    loader.exec_module(module)
    return module


def result(status, missed=0, log=()):
    return {"status": status, "missed": missed, "output": "", "log": list(log)}


OOPS = "BUG: unable to handle page fault for address: ffffc9000012f000"


@pytest.mark.parametrize("native, counted, kind", [
    ([result(0)], [result(0)], "same: passes"),
    ([result(1)], [result(1)], "same: fails natively, too"),
    ([result(32)], [result(32)], "does not apply here"),
    ([result("limit")], [result("limit")], "time limit both times"),
    ([result(0)], [result(1)], "different"),
    ([result(0), result(0)], [result(1), result(0)], "different"),
    ([result(0), result(2)], [result(1), result(0)], "different"),
    ([result(0), result(1)], [result(1), result(0)], "unsteady natively"),
    ([result(0)], [result(0, missed=1)], "different"),
    ([result(0)], [result(0, missed=None)], "different"),
    ([result(0)], [result(0, log=[OOPS])], "different"),
    ([result(0, log=[OOPS.replace("2f", "3f")])], [result(0, log=[OOPS])], "same: passes"),
    ([result(0)], [result(0, log=["EXT4-fs (loop0): mounted"])], "same: passes"),
])
def test_kinds(native, counted, kind):
    run = load_run()
    assert run.kind(run.Test("ltp", "made-up", "", None, native, counted)) == kind
