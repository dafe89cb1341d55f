# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executions of edges that follow from those of blocks are those that sessions counted.

They are of the kernel that runs, and of its code and recordings elsewhere. Graphs and call paths of
that code.
"""

import csv
import json
import subprocess
import zlib

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


def jifl(*words, status=0):
    """What the command prints, without privileges that it needs; of a failure its one line."""
    end = subprocess.run([harness.JIFL, *words], capture_output=True, text=True, check=False)
    assert end.returncode == status, end
    if status:
        assert end.stderr.count("\n") == 1 and not end.stdout, end
    return end.stderr if status else end.stdout


def check_row(row, name, show):
    """A table's last row: nothing that follows is wrong, and most follows."""
    show(f"edges of {name}: {row['edges']} in {row['functions']} functions, of which {row['contradictory']} contradict themselves; "
         f"{100 * row['derived'] / max(row['edges'], 1):.1f} % follow; {row['compared']} of {row['counted']} counted ones compared, "
         f"{row['wrong']} wrong; {row['fewest_counters']} counters would do for {row['counters']}")
    saved = [100 - 100 * row[f"exact_fewest_{name}"] / max(row[f"exact_{name}"], 1) for name in ("block_counters", "counters")]
    show(f"executions of counters of {name}: {row['executed_block_counters']}; in {row['exact_functions']} functions the fewest "
         f"would be exact: {row['exact_block_counters']} of blocks, {saved[0]:.1f} % saved; {row['exact_counters']} with branches, "
         f"{saved[1]:.1f} % saved")
    assert row["wrong"] == 0, row
    assert 0 < row["exact_functions"] <= row["functions"] - row["contradictory"], row
    assert 0 < row["exact_fewest_block_counters"] < row["exact_block_counters"] <= row["executed_block_counters"], row
    assert row["exact_fewest_counters"] < row["exact_counters"], row
    assert row["compared"] > 2000 and row["compared"] * 10 > row["counted"] * 9, row
    # Threads sleep in functions when a session ends, code runs natively, and faults.
    assert row["contradictory"] * 20 <= row["functions"], row


def spoilt(path):
    """A copy of a recording in which branches went the other way."""
    data = path.read_bytes()
    body = json.loads(zlib.decompress(data[20:-12]))
    for block in body["blocks"]:
        if "branch" in block and block["executed"] > 1:
            block["branch"]["taken"] = block["executed"] - block["branch"]["taken"]
    packed = zlib.compress(json.dumps(body).encode())
    framed = data[:12] + len(packed).to_bytes(8, "little") + packed
    copy = path.with_suffix(".spoilt")
    copy.write_bytes(framed + zlib.crc32(framed).to_bytes(4, "little") + data[-8:])
    return copy


def check_graphs(kernel, recording):
    """All forms of graphs, and what is refused."""
    words = ["--vmlinux", kernel, "--recording", recording]
    for name in ["vfs_read", "path_openat", "do_filp_open"]:
        assert "-> returns" in jifl("cfg", f"fn:{name}", *words)
        graph = json.loads(jifl("cfg", f"fn:{name}", *words, "-f", "json"))["functions"][0]
        assert graph["whole"] and sum(edge["executed"] or 0 for edge in graph["edges"]) > 0, graph
        for form, mark in (("dot", " -> b"), ("svg", 'fill="none"')):
            drawn = jifl("cfg", f"fn:{name}", *words, "-f", form)
            assert drawn.count(mark) == len(graph["edges"]), (name, form)
    line = jifl("cfg", "fn:vfs_raed", *words, status=2)
    assert "fn:vfs_read" in line, line
    line = jifl("cfg", "fn:x64_sys_call", *words, "-f", "svg", status=1)
    assert "-f dot" in line, line
    jifl("cfg", "fn:vfs_read", "--vmlinux", kernel, "--recording", "/bin/true", status=1)


def shape(*words):
    """A function's blocks and edges, with what is known of their executions."""
    graph = json.loads(jifl("cfg", *words, "-f", "json"))["functions"][0]
    blocks = [(block["address"], block["executed"], len(block["instructions"])) for block in graph["blocks"]]
    edges = [[edge[name] for name in ("from", "to", "kind", "executed", "counted")] for edge in graph["edges"]]
    return graph["whole"], graph["executions"], blocks, edges


def figures(kernel):
    """Name, module, blocks, instructions and edges of each function."""
    text = jifl("analyze", "fn:*", "--vmlinux", kernel, "-f", "csv")
    names = ("function", "module", "blocks", "instructions", "edges")
    return {tuple(row[name] for name in names) for row in csv.DictReader(text.splitlines()) if row["function"]}


def check_code(kernel, recording, plain, show):
    """A recording that has code needs no kernel."""
    for name in ["vfs_read", "path_openat", "do_filp_open", "link_path_walk.part.0.constprop.0"]:
        words = [f"fn:{name}", "--recording", recording]
        found = shape(*words)
        assert found == shape(*words, "--vmlinux", kernel), name
        assert found[0] and len(found[2]) > 3, found
    own = figures(recording)
    others = own - figures(kernel)
    show(f"a recording of {recording.stat().st_size:,} bytes, {plain.stat().st_size:,} without code: {len(own)} functions, of which "
         f"{len(others)} are not as in the whole kernel: {sorted(others)[:5]}")
    # Only what functions that are not in it would tell may be missing.
    assert len(own) > 500 and len(others) * 100 < len(own), others
    row = json.loads(jifl("analyze", "--recording", recording, "-f", "json"))["modules"][-1]
    check_row(row, "a recording's own code", show)
    line = jifl("analyze", plain, status=1)
    assert "--code" in line, line


def check_paths(kernel, trace):
    """Calls that the code names, and those that were seen."""
    words = ["--vmlinux", kernel]
    shown = jifl("path", "fn:ksys_read", "fn:vfs_read", *words)
    assert "vfs_read  called at ksys_read" in shown, shown
    ends = ["fn:vfs_read", "fn:version_proc_show"]
    shown = jifl("path", *ends, *words)
    assert shown.startswith("no path from vfs_read to version_proc_show") and shown.count("\n") == 1, shown
    shown = jifl("path", *ends, *words, "--recording", trace)
    assert "  version_proc_show " in shown and "* indirectly by seq_read_iter, observed" in shown, shown


@pytest.mark.parametrize("kernel", harness.turn(1))
def test_edges(kernel, show, tmp_path):
    """In the machine, and here from its code and recordings. A spoilt recording has much wrong."""
    loads = LOADS + (SOAK if harness.SOAK else [])
    harness.guest("edges", tmp_path, *loads, kernel=kernel, show=show, rw=tmp_path)
    code = tmp_path / "kernel"
    running = json.loads((tmp_path / "running.json").read_text())["modules"]
    check_row(running[-1], "the running kernel", show)
    for number in range(len(loads)):
        rows = json.loads(jifl("analyze", code, "--recording", tmp_path / f"{number}.jifl", "-f", "json"))["modules"]
        check_row(rows[-1], f"load {number}", show)
        if number == 0:
            assert rows == running
    rows = json.loads(jifl("analyze", code, "--recording", spoilt(tmp_path / "0.jifl"), "-f", "json"))["modules"]
    assert rows[-1]["wrong"] > 100, rows[-1]
    check_graphs(code, tmp_path / "0.jifl")
    check_code(code, tmp_path / "code.jifl", tmp_path / "0.jifl", show)
    check_paths(code, tmp_path / "trace.jifl")
