#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part of bench/run that runs in the machine; prints one JSON object.

usage: guest.py ORACLE
"""

import json
import os
import signal
import subprocess
import sys
import time

ROUNDS = 300


def listing(oracle):
    out = subprocess.run([oracle, "list"], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: [int(nr) for nr in line.split()[1:]] for line in out.splitlines()}


def costs(oracle, ops):
    found = {}
    for op in ops:
        out = subprocess.run([oracle, op, str(ROUNDS)], check=True, capture_output=True, text=True).stdout
        found[op] = sum(int(line.split()[2]) for line in out.splitlines())
    return found


def status():
    out = subprocess.run(["jifl", "status", "-f", "json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


class Session:
    """A session over every system call, without a filter, while in the block."""

    def __init__(self, kind):
        self.kind = kind
        self.report = f"/tmp/bench-{kind}.json"

    def __enter__(self):
        self.process = subprocess.Popen(["jifl", "count", self.kind, "sys:*", "-f", "json", "-o", self.report],
                                        stderr=subprocess.DEVNULL)
        while not status()["sessions"]:
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.last_status = status()
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        with open(self.report) as f:
            self.targets = {target["nr"]: target for target in json.load(f)["targets"]}


def session_costs(kind, oracle, ops):
    with Session(kind) as session:
        found = costs(oracle, ops)
    counted = {}
    if kind != "none":
        counted = {op: all(session.targets.get(nr, {"calls": 0})["calls"] >= ROUNDS for nr in nrs)
                   for op, nrs in ops.items()}
    return {"costs": found, "counted": counted}


def compile_job():
    with open("/tmp/hello.c", "w") as f:
        f.write("#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n")
    before = status()
    with Session("insn") as session:
        subprocess.run(["gcc", "-O2", "-o", "/tmp/hello", "/tmp/hello.c"], check=True)
    after = session.last_status
    return {"code_used": after["code_used"], "side_used": after["side_used"],
            "translated_blocks": after["translated_blocks"] - before["translated_blocks"],
            "translate_ns": after["translate_ns"] - before["translate_ns"]}


def main():
    oracle = sys.argv[1]
    ops = listing(oracle)
    with open("/proc/cpuinfo") as f:
        cpu = next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    result = {"release": os.uname().release, "cpu": cpu, "native": costs(oracle, ops), "sessions": {}}
    for kind in ("none", "call", "block", "insn"):
        result["sessions"][kind] = session_costs(kind, oracle, ops)
    result["compile"] = compile_job()
    print(json.dumps(result))


main()
