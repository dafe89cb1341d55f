# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs at places: conditions, records, histograms, groups, stacks, BPF."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_actions(kernel, show):
    harness.guest("actions", kernel=kernel, smp=2, timeout=600, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_records_cost_what_inserted_code_costs(kernel, show):
    """In a machine whose clock counts instructions. The interpreter takes ten times as many."""
    reads = harness.compile_program("reads", "-O2", "-static")
    ways = ["--record count", "--record count,buf", "--if count==1 --record count", "--record 'count, file->f_inode->i_ino, *pos'"]
    probes = [f"jifl probe fn:vfs_read {way} -f ndjson -o /tmp/records -- {reads}" for way in ways]
    run = harness.vm(" && ".join([str(reads), *probes, "wc -l </tmp/records"]), kernel=kernel, icount=True, timeout=120)
    native, *took, lines = map(int, run.stdout.split())
    added = dict(zip(ways, (each - native for each in took)))
    show(f"a record adds, in instructions: {added}")
    assert lines >= 4000
    assert max(list(added.values())[:3]) <= 60 and max(added.values()) <= 100, added
