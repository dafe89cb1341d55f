# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executions of edges that are derived from those of blocks are those that sessions counted (guest/edges.py), in a machine and
from what it left behind.
"""

import json
import subprocess

import pytest

import harness

LOADS = [
    "ls -l /etc /proc/sys/kernel; cat /proc/self/maps /proc/meminfo | sort | wc -l",
    "cd /tmp; echo 1 >a; ln -s a l; mv a b; chmod 600 b; rm -f b l; mkfifo f; (echo x >f) & cat f; rm f",
    "dd if=/dev/zero of=/tmp/z bs=64k count=4; dd if=/tmp/z of=/dev/null bs=512; sync; kill -9 $$",
]
SOAK = [
    "ls -lR /etc; find / -xdev -name '*.h' 2>/dev/null | head -c 100000 | sort | uniq | wc",
    "mount -t tmpfs t /mnt; cp -a /etc /mnt; tar cf - /mnt | gzip -1 | wc -c; umount /mnt",
]


def row(kernel, recording):
    """The last row of a recording's table, of code that was kept."""
    command = [harness.JIFL, "analyze", kernel, "--recording", recording, "-f", "json"]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end
    return json.loads(end.stdout)["modules"][-1]


@pytest.mark.parametrize("kernel", harness.KERNELS)
def test_edges(kernel, show, tmp_path):
    """In the machine, and here from its code and its recordings; a recording that was spoilt is noticed."""
    loads = LOADS + (SOAK if harness.SOAK else [])
    harness.guest("edges", tmp_path, *loads, kernel=kernel, show=show, rw=tmp_path)
    for number in range(len(loads)):
        found = row(tmp_path / "kernel", tmp_path / f"{number}.jifl")
        assert found["wrong"] == 0 and found["compared"] > 2000, found
