# SPDX-License-Identifier: MIT OR Apache-2.0
"""Little memory, and none: programs do the same as natively, and calls that were not counted are
reported as missed.

usage: memory.py MODULE CALLS

MODULE: jifl.ko as built for tests (host/kernel/plant.h).
"""

from pathlib import Path

from lib import SLOWNESS, add, check, figure, interrupt, is_loaded, main, plant, report, run, same, same_cost, session, status

PROGRAM = ("for i in 1 2 3; do (echo $i; ls /proc/self/fd; wc -c /etc/passwd | tr 0-9 a-j); done; "
           "dd if=/dev/zero bs=777 count=300 status=none | sha256sum; "
           "/usr/bin/python3 -S -E -c 'import json, socket; print(json.dumps(list(range(9))))'")
# KiB of code cache and of side tables; the first hold all that the program runs.
SIZES = [(8192, 8192), (512, 512), (64, 128), (4, 64)] if SLOWNESS == 1 else [(32768, 32768), (64, 128)]
# System calls that always execute the same instructions: without locks, and without RCU.
CONSTANT = ["getresuid", "getuid", "geteuid", "getgid", "getegid"]
PARAMETERS = Path("/sys/module/jifl/parameters")
CALLS = 300
SMALL, LARGE = 4 << 10, 2 << 20


def insert(module, *parameters):
    return run("/sbin/insmod", module, *parameters, *plant())


def remove():
    end = run("/sbin/rmmod", "jifl")
    check("the module goes", end.returncode == 0 and not is_loaded(), end)


def small_caches(module, calls_program, targets, before=""):
    """before: what the name of a system call has before it as a target's."""
    program = ["sh", "-c", f"{calls_program} {CALLS}; {PROGRAM}; {calls_program} {CALLS}"]
    native = run(*program)
    whole, constant = {}, [before + name for name in CONSTANT]
    for cache, side in SIZES:
        name = f"{targets}, {cache} KiB of code cache, {side} of tables"
        same(f"{name}: loads", insert(module, f"cache_kb={cache}", f"side_kb={side}").returncode, 0)
        end = run("jifl", "count", "insn", targets, "-f", "json", "-o", "/tmp/report", "--", *program)
        same(f"{name}: output and status", (end.stdout, end.returncode), (native.stdout, native.returncode))
        data = report(Path("/tmp/report").read_text())
        calls = sum(target["calls"] for target in data["targets"])
        flushes = status()["flushes"]
        figure(name, f"{calls} calls counted, {data['missed']} missed, {flushes} flushes, "
               f"{data['translation']['blocks']} blocks translated")
        check(f"{name}: calls are counted or missed", calls + data["missed"] > 1000, (calls, data["missed"]))
        if (cache, side) == SIZES[0]:
            same(f"{name}: none missed", data["missed"], 0)
            whole = {nr: target for nr, target in data["by_name"].items()
                     if target["calls"] >= (1 if nr in constant else 10)}
            check(f"{name}: many calls of many kinds", len(whole) > 10, data["by_name"].keys())
            same(f"{name}: calls of constant number", sorted(whole.keys() & set(constant)), sorted(constant))
        for nr in whole.keys() & set(constant):
            target = data["by_name"].get(nr, {"calls": 0, "missed": 0})
            same(f"{name}: calls of {nr}, counted or missed", target["calls"] + target["missed"], whole[nr]["calls"])
        for nr in whole.keys() & data["by_name"].keys():
            least, target = whole[nr]["min"], data["by_name"][nr]
            if not target["calls"]:
                continue
            if nr in constant:
                same_cost(f"{name}: cost of {nr}", (target["min"], target["max"]), (least, least))
            # Parts that were not counted would show; timing may make it a little cheaper.
            check(f"{name}: counted calls of {nr} are whole", 2 * target["min"] >= least, (target, least))
        remove()


def too_small_for_a_call(module):
    """A call that finds no room for all of its code runs, and is missed, not counted in part."""
    same("64 KiB of code cache: loads", insert(module, "cache_kb=64", "side_kb=128").returncode, 0)
    end = run("jifl", "count", "insn", "sys:execve", "-f", "json", "-o", "/tmp/report", "--",
              "/bin/sh", "-c", "/bin/true; /bin/true; /bin/true; :")
    same("64 KiB of code cache: status of a program", end.returncode, 0)
    target = report(Path("/tmp/report").read_text())["by_name"]["execve"]
    same("64 KiB of code cache: executions counted and missed", (target["calls"], target["missed"]), (0, 4))
    why = status()["missed_by"]
    # Any of them may be on its way when it is emptied, to be tried again.
    same("64 KiB of code cache: why", why.get("cache-full", 0) + why.get("flush", 0), 4)
    remove()


def failing_loads(module):
    """The nth allocation of loading fails, for every n there is."""
    n, done_without = 1, 0
    while n < 100:
        end = insert(module, "cache_kb=256", "side_kb=256", f"fail_nth={n}")
        if end.returncode:
            check(f"allocation {n} of loading fails: the module is refused", not is_loaded(), end)
        elif (PARAMETERS / "failed").read_text() == "0\n":
            break
        else:
            done_without += 1
            remove()
        n += 1
    figure("allocations of loading that were made to fail", f"{n - 1}, done without {done_without}")
    add("failures injected", n - 1)
    check("some were", 10 < n < 100, n)


def count(calls, target="sys:getresuid"):
    """One session; (exit status, lines of its error, calls, missed)."""
    Path("/tmp/report").unlink(missing_ok=True)
    end = run("jifl", "count", "insn", target, "-f", "json", "-o", "/tmp/report", "--", calls, CALLS)
    if end.returncode:
        return end.returncode, end.stderr, 0, 0
    found = report(Path("/tmp/report").read_text())["by_name"].get(target.split(":")[1], {"calls": 0, "missed": CALLS})
    return 0, end.stderr, found["calls"], found["missed"]


def failing_session(calls, what, others, target="sys:getresuid", each=100):
    """The nth allocation from here on fails, for every n of a session. As many others run.

    Of more than `each` allocations, as of return hooks one by one on 6.1, it does some.
    """
    n, made = 1, 0
    before = int((PARAMETERS / "failed").read_text())
    while n < 10000:
        (PARAMETERS / "fail_nth").write_text(str(n))
        exit_status, error, counted, missed = count(calls, target)
        if int((PARAMETERS / "failed").read_text()) - before == made:
            break
        made += 1
        if exit_status:
            check(f"allocation {n} of {what} fails: one line says so",
                  exit_status in (1, 3) and error.count("\n") == 1, (exit_status, error))
        else:
            same(f"allocation {n} of {what} fails: calls are counted or missed", counted + missed, CALLS)
        (PARAMETERS / "fail_nth").write_text("0")
        same(f"allocation {n} of {what}: no session is left", len(status()["sessions"]), others)
        same(f"allocation {n} of {what}: the next session counts", count(calls, target)[2:], (CALLS, 0))
        n += 1 if n < each else n // 2
    figure(f"allocations of {what} that were made to fail", f"{made}, there are fewer than {n}")
    add("failures injected", made)
    check("some were, and then there were no more", 3 < made and n < 10000, (made, n))
    (PARAMETERS / "fail_nth").write_text("0")


def failing_sessions(calls):
    failing_session(calls, "a session", 0)
    failing_session(calls, "a session of a function", 0, "fn:__x64_sys_getresuid", each=30)
    # What calls need that both match is allocated, too.
    other = session("block", "sys:getresuid", "-n", "calls")
    failing_session(calls, "a session beside another", 1)
    interrupt(other)
    same("the other ends well", other.returncode, 0)
    remove()


def told_pages(words):
    """What a person reads of the code cache's pages."""
    lines = [line for line in run("jifl", "status").stdout.splitlines() if line.startswith("code cache")]
    check(f"jifl status says {words}", len(lines) == 1 and lines[0].endswith(f" bytes, in {words}"), lines)


def pages(module):
    """Large pages for caches of 2 MiB and more, whole ones; small pages where there are none."""
    for cache, page, size in [(8192, LARGE, 4 * LARGE), (3000, LARGE, 2 * LARGE), (2048, LARGE, LARGE),
                              (2044, SMALL, 2044 << 10)]:
        same(f"{cache} KiB of code cache: loads", insert(module, f"cache_kb={cache}", "side_kb=64").returncode, 0)
        same(f"{cache} KiB of code cache: page and size", (status()["code_page"], status()["code_size"]), (page, size))
        told_pages("pages of 2 MiB" if page == LARGE else "pages of 4 KiB: it is smaller than 2 MiB")
        remove()
    found = []
    for n in range(1, 10):
        if not insert(module, "cache_kb=3000", "side_kb=64", f"fail_nth={n}").returncode:
            found.append((status()["code_page"], status()["code_size"]))
            if found[-1] == (SMALL, 3000 << 10):
                told_pages("pages of 4 KiB: the kernel gave none of 2 MiB")
            remove()
    check("no large page: loads with small ones, of the size that was asked for", (SMALL, 3000 << 10) in found, found)


def program(module, calls):
    pages(module)
    failing_loads(module)
    failing_sessions(calls)
    too_small_for_a_call(module)
    small_caches(module, calls, "sys:*")
    small_caches(module, calls, "fn:__x64_sys_*", "__x64_sys_")


main(program)
