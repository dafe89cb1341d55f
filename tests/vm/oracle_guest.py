#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs in the throwaway machine: measures costs by the machine's clock and counts by jifl, and
prints one JSON object.

usage: oracle_guest.py ORACLE ROUNDS
"""

import json
import os
import struct
import subprocess
import sys

# Where a process has its memory by chance decides what mprotect costs (6.1: 8,486 ticks, or 9,114
# in one of 40).
SAME_ADDRESSES = ["setarch", "-R"]


def extent(function):
    """Address of a kernel function and its length up to the next symbol."""
    with open("/proc/kallsyms") as f:
        rows = [line.split()[:3] for line in f]
    start = next(int(address, 16) for address, _, name in rows if name == function)
    return start, min(int(row[0], 16) for row in rows if int(row[0], 16) > start) - start


def live_text(address, size):
    """Reads kernel memory through /proc/kcore, an ELF core file."""
    with open("/proc/kcore", "rb") as f:
        header = f.read(64)
        offset, = struct.unpack_from("<Q", header, 32)
        number, = struct.unpack_from("<H", header, 56)
        for i in range(number):
            f.seek(offset + 56 * i)
            _, _, at, start, _, length = struct.unpack("<IIQQQQ", f.read(40))
            if start <= address < start + length:
                f.seek(at + address - start)
                return f.read(size)
    raise SystemExit("oracle: address not in /proc/kcore")


def costs(oracle, op, rounds):
    out = subprocess.run([*SAME_ADDRESSES, oracle, op, rounds], check=True, capture_output=True, text=True).stdout
    return {int(line.split()[1]): int(line.split()[2]) for line in out.splitlines()}


def counts(oracle, op, rounds):
    report = f"/tmp/oracle-{op}.json"
    subprocess.run(["jifl", "count", "insn", "sys:*", "--repeats", "-n", "jifl-oracle", "-f", "json", "-o", report,
                    "--", *SAME_ADDRESSES, oracle, op, rounds], check=True, stdout=subprocess.DEVNULL)
    with open(report) as f:
        return json.load(f)


def main():
    oracle, rounds = sys.argv[1:3]
    listing = subprocess.run([oracle, "list"], check=True, capture_output=True, text=True).stdout
    ops = {}
    for line in listing.splitlines():
        op = line.split()[0]
        ops[op] = {"costs": costs(oracle, op, rounds), "report": counts(oracle, op, rounds)}
    start, size = extent("x64_sys_call")
    print(json.dumps({"release": os.uname().release, "ops": ops, "x64_sys_call": start,
                      "text": live_text(start, size).hex()}))


main()
