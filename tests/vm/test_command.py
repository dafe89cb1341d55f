# SPDX-License-Identifier: MIT OR Apache-2.0
"""The jifl command against the module: filters, ends of sessions, refusals, plugins.

Each test is one shell script in one machine; it prints `NAME STATUS` after each step.
"""

import json
import re

from harness import report, vm

# Something that calls openat and read all the time, in a process of its own.
LOAD = "(exec -a jifl-load bash -c 'while :; do read -r x < /etc/hostname; done') & load=$!\n"


def bash(script, **options):
    """Runs the script under bash."""
    return vm(f"bash -s <<'SCRIPT'\nset -u\n{script}\nSCRIPT", **options)


def steps(run):
    """What the lines `step NAME STATUS` say."""
    return {name: int(status) for name, status in re.findall(r"^step (\S+) (\d+)$", run.stdout, re.M)}


def objects(run):
    """The JSON objects that were printed, in order."""
    return [report(line) for line in run.stdout.splitlines() if line.startswith('{"command":"count"')]


def test_filters():
    run = bash(LOAD + """
        count() { jifl count insn sys:read sys:openat -f json --for 1s "$@"; echo "step $name $?"; }
        name=pid count -p $load
        name=other-pid count -p $$
        name=tid count -t $load
        name=comm count -n bash
        name=other-comm count -n no-such
        mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b
        echo $load > /sys/fs/cgroup/a/cgroup.procs
        name=cgroup count --cgroup a
        name=other-cgroup count --cgroup /sys/fs/cgroup/b
        kill $load
        jifl count insn sys:getppid -f json -- sh -c 'sh -c true & wait; exit 5'
        echo "step command $?"
    """)
    assert steps(run) == {"pid": 0, "other-pid": 0, "tid": 0, "comm": 0, "other-comm": 0,
                          "cgroup": 0, "other-cgroup": 0, "command": 5}, run.shown()
    counts = [sum(t["calls"] for t in one["targets"]) for one in objects(run)]
    pid, other_pid, tid, comm, other_comm, cgroup, other_cgroup, command = counts
    assert min(pid, tid, comm, cgroup) > 0, run.shown()
    assert max(other_pid, other_comm, other_cgroup) == 0, run.shown()
    # dash asks once when it starts; the shell's child is counted, too
    assert command == 2, run.shown()


def test_ends_of_sessions():
    run = bash(LOAD + """
        jifl count insn sys:openat sys:read --for 1h > cut.txt & held=$!
        until jifl status | grep -q 'jifl ('; do sleep 0.1; done
        jifl count insn sys:read --for 100ms; echo "step shared $?"
        jifl count block sys:getpid --for 100ms; echo "step beside $?"
        jifl unload jifl; echo "step in-use $?"
        jifl detach; echo "step detach $?"
        wait $held; echo "step detached $?"
        jifl detach 999; echo "step no-such $?"
        jifl count insn sys:openat & held=$!
        until jifl status | grep -q 'jifl ('; do sleep 0.1; done
        kill -INT $held; wait $held; echo "step interrupted $?"
        jifl count insn sys:openat & held=$!
        until jifl status | grep -q 'jifl ('; do sleep 0.1; done
        kill -KILL $held; wait $held; echo "step killed $?"
        jifl status -f json
        jifl list | head -n 1; echo "step head ${PIPESTATUS[0]}"
        kill $load
        jifl unload jifl; echo "step unloaded $?"
        jifl status; echo "step gone $?"
        jifl load; echo "step loaded $?"
        jifl load; echo "step loaded-twice $?"
    """)
    assert steps(run) == {
        "shared": 0, "beside": 0, "in-use": 1, "detach": 0, "detached": 4, "no-such": 1,
        "interrupted": 0, "killed": 137, "head": 0, "unloaded": 0, "gone": 3, "loaded": 0,
        "loaded-twice": 1}, run.shown()
    for said in ["other sessions ran meanwhile", "in use",
                 "ended 1 session", "ended from outside", "no session 999", "Detaching...",
                 "module is not loaded", "loaded already"]:
        assert said in run.stdout + run.stderr, f"{said}\n{run.shown()}"
    status = next(json.loads(line) for line in run.stdout.splitlines() if '"status"' in line)
    assert status["sessions"] == [], run.shown()


def test_refusals():
    run = bash("""
        jifl count insn sys:opnat --for 1s; echo "step unknown $?"
        jifl count insn sys:read -- /no/such; echo "step missing $?"
        jifl count insn sys:create_module --for 100ms; echo "step absent $?"
        jifl count insn sys:read -o /no/such/file --for 1s; echo "step output $?"
        su nobody -s /bin/sh -c 'PATH=$0; jifl status' "$PATH"; echo "step user $?"
        su nobody -s /bin/sh -c 'PATH=$0; jifl doctor | grep BAD' "$PATH"; echo "step doctor $?"
        jifl doctor; echo "step doctor-root $?"
    """)
    assert steps(run) == {"unknown": 2, "missing": 127, "absent": 1, "output": 1, "user": 3,
                          "doctor": 0, "doctor-root": 0}, run.shown()
    for said in ["sys:openat", "/no/such: No such file", "has none of these", "CAP_SYS_ADMIN",
                 "This machine can run JIFL."]:
        assert said in run.stdout + run.stderr, f"{said}\n{run.shown()}"


def test_plugin():
    run = bash("""
        jifl start icount; echo "step not-loaded $?"
        jifl load build/modules/$(uname -r)/icount.ko; echo "step load $?"
        jifl start icount; echo "step start $?"
        jifl start icount; echo "step start-twice $?"
        jifl unload icount; echo "step unload-started $?"
        for i in 1 2 3; do ls / > /dev/null; done
        jifl status
        jifl stop icount; echo "step stop $?"
        jifl stop icount; echo "step stop-twice $?"
        jifl unload icount; echo "step unload $?"
        dmesg | grep 'icount:'
    """)
    assert steps(run) == {"not-loaded": 1, "load": 0, "start": 0, "start-twice": 1,
                          "unload-started": 1, "stop": 0, "stop-twice": 1, "unload": 0}, run.shown()
    assert "plugin icount: started" in run.stdout
    assert re.search(r"icount: \d+ instructions", run.stdout), run.shown()
