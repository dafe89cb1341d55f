# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counted instructions, compared with the exact cost of the call.

In a machine whose clock advances one nanosecond an instruction, the native cost of a call, in
ticks, is

    cost = constant + path(number) + counted

constant  user code around the call, entry, do_syscall_64, exit: one for all calls
path      x64_sys_call's switch, which runs before the handler (dispatch_path.py)
counted   what `jifl count insn --repeats` reports: this clock ticks once more for
          every repetition of a repeated string instruction

Nothing is approximate: the constant must be the same for every call. Work that a call leaves for
the time after its handler has returned does not belong to the handler, and is named below.
"""

import json

import pytest

import dispatch_path
import harness

# (kernel, operation, number): why its cost is larger than its handler's
AFTER_THE_HANDLER = {
    ("6.1", "openat_close", 3): "close of the last reference queues ____fput as task work, "
                                "which runs on the way back to user mode; 6.12 does it in close",
}


def constants(kernel):
    oracle = harness.compile_program("oracle", "-Wno-missing-field-initializers")
    run = harness.vm(f"/usr/bin/python3 tests/vm/oracle_guest.py {oracle} 300", kernel=kernel, icount=True,
                     timeout=900)
    data = json.loads(run.stdout)
    start = data["x64_sys_call"]
    text = bytes.fromhex(data["text"])
    insns = dispatch_path.disassemble(text, start)
    rows = []
    for op, result in data["ops"].items():
        targets = {t["nr"]: t for t in result["report"]["targets"]}
        for number, cost in result["costs"].items():
            nr = int(number)
            target = targets[nr]
            assert target["calls"] >= 300, f"{op}: {target}"
            path = dispatch_path.path_length(insns, start, len(text), nr)
            rows.append((op, nr, int(cost), path, target["min"]))
    return rows


@pytest.mark.parametrize("kernel", harness.AND_NEWEST)
def test_counts_equal_the_clock(kernel):
    rows = constants(kernel)
    print(f"\n{'operation':16} {'nr':>4} {'cost':>7} {'path':>5} {'counted':>8} {'constant':>9}")
    found = {}
    for op, nr, cost, path, counted in rows:
        constant = cost - path - counted
        print(f"{op:16} {nr:4} {cost:7} {path:5} {counted:8} {constant:9}")
        found[op, nr] = constant
    assert len({op for op, _ in found}) >= 12
    later = {key: found.pop(key) for key in list(found) if (kernel, *key) in AFTER_THE_HANDLER}
    constant, *others = set(found.values())
    assert not others, found
    for key, cost in later.items():
        assert cost > constant, f"{key} costs no more than the others, but: {AFTER_THE_HANDLER[kernel, *key]}"
