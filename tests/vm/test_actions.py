# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs at places: conditions, records, histograms, groups, stacks, BPF."""

import pytest

import harness


@pytest.mark.parametrize("kernel", harness.turn(0))
def test_actions(kernel, show):
    harness.guest("actions", kernel=kernel, smp=2, timeout=600, show=show)


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_records_cost_what_inserted_code_costs(kernel, show):
    """In a machine whose clock counts instructions. The interpreter takes ten times as many.

    A counter alone costs its function's door, and next to nothing where the door is there already.
    """
    reads = harness.compile_program("reads", "-O2", "-static")
    # Where programs at the entry stand: behind the call of the tracer.
    inside = "fn:$(jifl probe --list fn:vfs_read --record count | awk '{ print $2 }')"
    one = "--record count"
    ways = [one, "--record count,buf", "--if count==1 --record count", "--record 'count, file->f_inode->i_ino, *pos'"]
    words = {"": "fn:vfs_read", "and a place": f"fn:vfs_read {inside}", **{way: f"fn:vfs_read {way} -f ndjson" for way in ways}}
    probes = [f"jifl probe {each} -o /tmp/{index} -- {reads}" for index, each in enumerate(words.values())]
    run = harness.vm(" && ".join([str(reads), *probes, "wc -l </tmp/5"]), kernel=kernel, icount=True, timeout=120)
    native, *took, lines = map(int, run.stdout.split())
    added = dict(zip(words, (each - native for each in took)))
    show(f"a place adds, in instructions: {added}")
    assert lines >= 4000
    assert 0 < added[""] <= 18 and added["and a place"] - added[""] <= 2, added
    assert added[one] <= 50 and max(added[way] for way in ways[:3]) <= 60 and max(added.values()) <= 100, added
