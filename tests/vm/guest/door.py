# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who may use /dev/jifl, what the device shows, what it does to the kernel's memory, and what it
leaves behind.

usage: door.py DOOR_FUZZ OPERATIONS SEED

The module is not loaded at the start. The program ends with the kernel locked down.
"""

import ctypes
import errno
import os
import re
import select
import signal
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lib import (Device, add, background, check, figure, interrupt, is_loaded, kernel_log, log_mark, main, module_file,
                 plant, report, run, same, session, settled, status, wait_for)
from usage import slab, vmalloc

WORKER = Path(__file__).resolve().parent.parent / "programs/worker.sh"
MODULES = Path(module_file()).parent
NOBODY = 65534
# After it the kernel log has room for refusals again.
RATE_LIMIT_SECONDS = 6
# What the rest of the kernel takes meanwhile.
SLAB_NOISE_KIB = 768
GETPID, GETPPID = 39, 110
PLUGINS = ["icount", "calltrace"]   # which door_fuzz asks for
CALL, TRACE, PROFILE, PATH, LOCK, MEM = 1, 5, 6, 7, 8, 9  # kinds of sessions


def error_of(function, *arguments):
    """The name of the error that it ends with; empty when it succeeds."""
    try:
        function(*arguments)
    except OSError as e:
        return errno.errorcode[e.errno]
    return ""


def in_child(function):
    """What function returns, run in a child: a text."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            answer = function()
        except BaseException as e:
            answer = f"{type(e).__name__}: {e}"
        os.write(w, answer.encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        answer = f.read()
    os.waitpid(pid, 0)
    return answer


def set_name(name):
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)


def load(name="jifl"):
    if name == "jifl" and plant():
        end = run("/sbin/insmod", str(MODULES / "jifl.ko").replace("/modules/", "/modules-test/"), *plant())
    else:
        end = run("jifl", "load", MODULES / f"{name}.ko")
    check(f"{name} loads", end.returncode == 0 and is_loaded(name), end)


def unload(name="jifl"):
    end = run("jifl", "unload", name)
    check(f"{name} unloads", end.returncode == 0 and not is_loaded(name), end)


class Load:
    """Processes that work while a session runs; their results are judged at the end."""

    def __enter__(self):
        self.workers = {f"/tmp/stop-{kind}": background("sh", WORKER, kind, f"/tmp/stop-{kind}")
                        for kind in ["copy", "fork"]}
        return self

    def __exit__(self, *_):
        for stop in self.workers:
            Path(stop).touch()
        for stop, worker in self.workers.items():
            out, err = worker.communicate(timeout=120)
            check(f"{stop}: all results are right", worker.returncode == 0 and out.split()[1] == "0", (out, err))
            os.unlink(stop)


# --- who may -------------------------------------------------------------------------------


def every_request(device):
    """The errors that all requests end with, as a set."""
    return {error_of(device.call, name) for name in Device.SIZES}


def as_nobody(function):
    def child():
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        return function()
    return in_child(child)


def privileges():
    same("another user cannot open the device", as_nobody(lambda: error_of(Device)), "EACCES")
    opening = "import os; os.open('/dev/jifl', os.O_RDWR)"
    drop = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    end = run(*drop, "/usr/bin/python3", "-c", opening)
    check("root without CAP_SYS_ADMIN cannot open it", "PermissionError: [Errno 1]" in end.stderr, end)
    end = run("unshare", "--user", "--map-root-user", "/usr/bin/python3", "-c", opening)
    check("root of a user namespace cannot open it", "PermissionError" in end.stderr, end)
    with Device() as device:
        device.start(2, [GETPID])
        mark = log_mark()
        same("an open file that was passed on is of no use",
             as_nobody(lambda: " ".join(every_request(device))), "EPERM")
        same("its session runs on", device.sessions(), 1)
        as_nobody(lambda: " ".join(error_of(device.call, "status") for _ in range(300)))
        refused = [line for line in kernel_log(mark) if "jifl: refused" in line]
        check("refusals are in the log, but do not flood it", 0 < len(refused) <= 20, len(refused))
        check("a refusal names who it was",
              all(re.fullmatch(rf"jifl: refused: request error 1 pid \d+ uid {NOBODY} auid \d+ comm \S.*", line)
                  for line in refused), refused)
        device.stop()


def owners():
    time.sleep(RATE_LIMIT_SECONDS)
    with Device() as one, Device() as other:
        one.start(2, [GETPID])
        stat = struct.pack("<I", 0)
        same("another file cannot stop a session", error_of(other.stop), "ENOENT")
        same("another file cannot read it", error_of(other.call, "stat", stat), "ENOENT")
        other.start(3, [GETPID, GETPPID])
        same("two sessions run", other.sessions(), 2)
        same("a file cannot have two", error_of(one.start, 2, [0]), "EBUSY")
        in_child(lambda: str(os.close(one.fd)))
        same("a copy of the file in another process may close", other.sessions(), 2)
        other.close()
        other.fd = os.open("/dev/null", os.O_RDONLY)
        same("only its own session ends with a file", one.sessions(), 1)
        ended = select.poll()
        ended.register(one.fd, 0)
        same("poll says nothing of a session that runs", ended.poll(0), [])
        with ThreadPoolExecutor(1) as threads, Device() as third:
            # Without a limit: at its end poll looks once more, and would find what did not wake it.
            waiting = threads.submit(ended.poll)
            third.call("detach")
            same("who polls is told of the end", waiting.result(), [(one.fd, select.POLLHUP)])
        same("detaching, by a privileged task, ends any", one.sessions(), 0)
        same("the owner is told", error_of(one.stop), "ENOENT")
        same("and can still read it", error_of(one.call, "stat", stat), "")


def audit():
    mark = log_mark()
    with Device() as device:
        device.start(2, [GETPID, GETPPID])
        same("a file cannot have two sessions", error_of(device.start, 1, [3]), "EBUSY")
        with Device() as other:
            same("a session of nothing", error_of(other.start, 1, []), "EINVAL")
    # A name that would be a line of its own.
    was = Path("/proc/self/comm").read_text().strip()
    set_name(b"a\njifl: b")
    with Device() as device:
        device.start(0, [GETPID])
    set_name(was.encode())
    lines = [line for line in kernel_log(mark) if line.startswith("jifl: ")]
    number = re.search(r"session (\d+) ", lines[0]).group(1) if lines else "?"
    who = rf"pid {os.getpid()} uid 0 auid 4294967295 comm"
    wanted = [rf"jifl: session {number} started: kind insn targets 2 {who} {was}",
              rf"jifl: refused: start error {errno.EBUSY} {who} {was}",
              rf"jifl: refused: start error {errno.EINVAL} {who} {was}",
              rf"jifl: session {number} ended: by {who} {was}",
              rf"jifl: session \d+ started: kind none targets 1 {who} a\\njifl: b",
              rf"jifl: session \d+ ended: by {who} a\\njifl: b"]
    check("sessions and refusals are in the log",
          len(lines) == len(wanted) and all(map(re.fullmatch, wanted, lines)), (lines, wanted))


# --- what a session is about ----------------------------------------------------------------


TARGETS_MAX = 1 << 18
NO_CALL = 511


def targets():
    with Device() as device:
        ppid, pid = Device.target(GETPPID), Device.target(GETPID)
        for what, wanted in [("no target", []), ("a target twice", [ppid, pid, ppid]),
                             ("an unknown kind", [ppid, Device.target(GETPID, kind=3)]),
                             ("an unknown kind", [ppid, Device.target(GETPID, kind=0)]),
                             ("an unknown scope", [ppid, Device.target(GETPID, scope=1)]),
                             ("a system call with an address", [Device.target(GETPID, address=1), ppid]),
                             ("a system call with a name", [Device.target(GETPID, name=b"getpid"), ppid]),
                             ("system calls that this kernel does not have", [Device.target(NO_CALL), Device.target(1 << 40)])]:
            same(f"{what} is refused", error_of(device.start_of, 2, wanted), "EINVAL")
        same("too many targets are refused", error_of(lambda: device.start_of(2, [pid], number=TARGETS_MAX + 1)), "EINVAL")
        same("a list that is not there is refused",
             error_of(device.call, "start", struct.pack("<I52xIQ", 2, 1, 8)), "EFAULT")
        same("no session is left of these", device.sessions(), 0)
        device.start(2, [GETPPID, NO_CALL, GETPID], filters=1 << 1, tgid=os.getpid())
        for _ in range(5):
            os.getppid()
        os.getpid()
        same("a target is its place in the list", (device.stat(GETPPID)[0], device.stat(GETPID)[0]), (5, 1))
        same("a call that this kernel does not have has no figures", error_of(device.stat_of, 1), "ENOENT")
        same("nor has a place behind the list", error_of(device.stat_of, 3), "ENOENT")
        same("the others are its targets", struct.unpack_from("<20xI", device.call("session"))[0], 2)
    own = os.getpid()
    with Device() as one, Device() as other:
        one.start(2, [GETPPID, GETPID], filters=1 << 1, tgid=own)
        other.start(2, [GETPID], filters=1 << 1, tgid=own)
        os.getppid()
        os.getpid()
        same("lists of several sessions do not depend on each other",
             (one.stat(GETPPID)[0], one.stat(GETPID)[0], other.stat(GETPID)[0]), (1, 1, 1))
        one.stop()
        os.getpid()
        same("the other goes on, and both are read",
             (one.stat(GETPID)[0], other.stat(GETPID)[0]), (1, 2))


# --- what it shows --------------------------------------------------------------------------


def addresses():
    with Device() as device:
        device.start(2, range(512))
        os.listdir("/")
        answers = {name: device.call(name) for name in ["info", "status", "session"]}
        answers["stat"] = device.call("stat", struct.pack("<I", 1))
        answers["plugin"] = device.call("plugin")
        for name, answer in answers.items():
            words = struct.unpack_from(f"<{len(answer) // 8}Q", answer)
            check(f"{name} holds no address", all(word < 0xff10000000000000 or word == 2 ** 64 - 1 for word in words),
                  [hex(word) for word in words])
        same("the cache is shown to who may see addresses", error_of(device.call, "block"), "ENOSPC")
        for name, reserved, want in (("one of other code", 0, ""), ("one with a reserved field", 1, "EINVAL")):
            block = ctypes.create_string_buffer(struct.pack("<QIIII", 0, 1, 1, 0, reserved))
            same(f"blocks to be made early: {name}",
                 error_of(device.call, "warm", struct.pack("<IQ", 1, ctypes.addressof(block))), want)
        restrict = Path("/proc/sys/kernel/kptr_restrict")
        was = restrict.read_text()
        restrict.write_text("2")
        same("and not to others", error_of(device.call, "block"), "EPERM")
        with Device() as another:
            same("nor are functions recorded for them", error_of(another.start, TRACE, [GETPID]), "EPERM")
            same("nor blocks counted", error_of(another.start, PROFILE, [GETPID]), "EPERM")
            same("nor locks looked at", error_of(another.start, LOCK, [GETPID]), "EPERM")
            same("nor paths and accesses recorded", [error_of(another.start, kind, [GETPID]) for kind in (PATH, MEM)],
                 ["EPERM"] * 2)
            same("nor functions looked for", error_of(another.start_of, CALL, [Device.function(0, "none")]), "EPERM")
        same("nor given", error_of(device.call, "records"), "EPERM")
        same("nor their counts", error_of(device.table, device.PROFILE), "EPERM")
        same("nor their locks", error_of(device.table, device.LOCK), "EPERM")
        same("nor what they access", error_of(device.table, device.MEM), "EPERM")
        same("nor said which code is where", error_of(device.call, "warm"), "EPERM")
        same("nor what plugins have recorded", error_of(device.call, "plugin_read"), "EPERM")
        end = run("jifl", "trace", "sys:getpid", "--", "true")
        check("which jifl trace says", end.returncode == 3 and "kptr_restrict" in end.stderr
              and len(end.stderr.splitlines()) == 1, end)
        end = run("jifl", "dump", "sys:getpid", "--", "true")
        check("which jifl dump says", end.returncode == 3 and "kptr_restrict" in end.stderr
              and len(end.stderr.splitlines()) == 1, end)
        restrict.write_text(was)
        seen = as_nobody(lambda: " ".join(
            {line.split()[0] for line in open("/proc/kallsyms") if "[jifl]" in line}
            | {line.split()[5] for line in open("/proc/modules") if line.startswith("jifl ")}))
        check("others see no address of the module", set(seen.split()) <= {"0" * 16, "0x" + "0" * 16}, seen[:200])
    values = [path.read_text() for path in Path("/sys/module/jifl/parameters").iterdir()]
    check("no parameter holds an address", not any(re.search("ffff[0-9a-f]{8}", value) for value in values), values)
    said = [line for line in kernel_log() if line.startswith("jifl: ") and re.search("ffff[0-9a-f]{8}", line)]
    same("no line of the log holds an address", said, [])


# --- what it does to memory -------------------------------------------------------------------


def mappings():
    """/proc/jifl_mappings: by the first word of a line, its numbers."""
    lines = Path("/proc/jifl_mappings").read_text().splitlines()
    return {line.split()[0]: [int(word) for word in line.split()[1:] if word.lstrip("-").isdigit()] for line in lines}


def pages():
    def judge(when, alias):
        m = mappings()
        n = m["cache-pages"][0]
        same(f"{when}: the cache's pages are large", (m["cache-large-pages"], status()["code_page"]), ([n], LARGE_PAGE))
        # rx, rw, ro, rwx
        same(f"{when}: the cache can be executed, not written", m["cache-in-module-area"], [n, 0, 0, 0])
        same(f"{when}: its alias can be written, not executed", m["cache-in-vmalloc-area"], [0, n * alias, 0, 0])
        same(f"{when}: its pages' direct map", m["cache-in-direct-map"], [0, 0, n, 0])
        check(f"{when}: the module's text can be executed, not written",
              m["module-text"][0] > 0 and m["module-text"][1:] == [0, 0, 0], m["module-text"])
        same(f"{when}: nothing in the module area is both", m["module-area"][3], 0)
        same(f"{when}: nothing in the vmalloc area is both", m["vmalloc-area"][3], 0)
        same(f"{when}: a store to the cache faults", m["store-to-cache"], [-errno.EFAULT])
        same(f"{when}: a store to the module faults", m["store-to-module"], [-errno.EFAULT])

    judge("before", 0)
    with Device() as device, Load():
        device.start(2, range(512))
        for i in range(3):
            time.sleep(0.3)
            judge(f"session, look {i}", 1)
        device.stop()
        judge("between", 0)
        device.start(3, range(512))
        judge("another session", 1)
    judge("after", 0)


LARGE_PAGE = 2 << 20


# --- fuzzing -----------------------------------------------------------------------------------


def fuzz(program, operations, seed):
    start = time.monotonic()
    end = run(program, seed, operations, timeout=900)
    figure("fuzzing", f"{end.stdout.strip().splitlines()[-1:]} in {time.monotonic() - start:.0f} s")
    check(f"all answers are right: door_fuzz {seed} {operations}", end.returncode == 0, end)
    requests = re.search(r"(\d+) requests, (\d+) granted, (\d+) sessions", end.stdout)
    if check("the fuzzer says what it did", requests is not None, end):
        made, granted, started = map(int, requests.groups())
        check("requests were granted and sessions started", granted > 0 and started > 0, end)
        add("bad requests refused", made - granted)
    # A plugin that was started last stays so: it belongs to no file.
    for name in PLUGINS:
        run("jifl", "stop", name)
    same("no session is left", status()["sessions"], [])
    same("no block is left", status()["blocks"], 0)


def still_works():
    end = run("jifl", "count", "insn", "sys:*", "-f", "json", "--", "ls", "/")
    check("counting works afterwards", end.returncode == 0 and report(end.stdout.splitlines()[-1])["by_name"], end)


def sessions_that_do_nothing(number):
    for _ in range(number):
        with Device() as device:
            device.start(PROFILE, [*range(512), *[NO_CALL] * 2048])
            device.stop()


# --- lockdown ------------------------------------------------------------------------------------


def is_refused(level):
    mark = log_mark()
    end = run("jifl", "count", "insn", "sys:getpid", "--for", "1s")
    same(f"{level}: a session is refused", end.returncode, 3)
    check(f"{level}: with one line that names cause and remedy",
          len(end.stderr.splitlines()) == 1 and "lockdown" in end.stderr and "secure boot off" in end.stderr, end)
    end = run("jifl", "start", "icount")
    check(f"{level}: a plugin is refused", end.returncode == 3 and "lockdown" in end.stderr, end)
    lines = kernel_log(mark)
    check(f"{level}: the log says so", any("jifl: kernel lockdown forbids" in line for line in lines)
          and sum("start error 13 " in line for line in lines) == 2, lines)
    same(f"{level}: nothing is left of it", (status()["sessions"], status()["blocks"]), ([], 0))


def lockdown():
    time.sleep(RATE_LIMIT_SECONDS)
    load("icount")
    owner = session("insn", "sys:getpid", "-f", "json")
    Path("/sys/kernel/security/lockdown").write_text("integrity")
    same("a session that runs when the kernel is locked down goes on", len(status()["sessions"]), 1)
    with Device() as device:
        same("the cache is not shown any more", error_of(device.call, "block"), "EACCES")
        same("nor are counts", error_of(device.table, device.PROFILE), "EACCES")
        same("nor are locks", error_of(device.table, device.LOCK), "EACCES")
        same("nor is what is accessed", error_of(device.table, device.MEM), "EACCES")
        same("nor is it said which code is where", error_of(device.call, "warm"), "EACCES")
    is_running = run("/usr/bin/python3", "-c", "import os; [os.getpid() for i in range(100)]")
    out, err = interrupt(owner)
    check("and ends as ever, with its report",
          owner.returncode == 0 and is_running.returncode == 0 and report(out)["by_name"]["getpid"]["calls"] >= 100, out)
    is_refused("integrity")
    Path("/sys/kernel/security/lockdown").write_text("confidentiality")
    is_refused("confidentiality")
    unload("icount")
    unload()
    end = run("jifl", "load")
    check("loading is refused with one line", end.returncode == 3 and "lockdown" in end.stderr
          and len(end.stderr.splitlines()) == 1, end)


# --- the whole ----------------------------------------------------------------------------------


def round_of_sessions():
    """All that a load of the module can allocate, once."""
    load()
    load("icount")
    still_works()
    run("jifl", "start", "icount")
    run("ls", "/")
    run("jifl", "stop", "icount")
    unload("icount")
    unload()


def program(fuzzer, operations, seed):
    end = run("insmod", MODULES / "jifl_inspect.ko")
    check("jifl_inspect loads", end.returncode == 0, end)
    # What the kernel and this program keep for good after first use.
    round_of_sessions()
    Path("/proc/jifl_text").write_text("copy")
    before, before_slab = vmalloc(), slab()

    load()
    for name in PLUGINS:
        load(name)
    privileges()
    owners()
    audit()
    targets()
    addresses()
    pages()
    fuzz(fuzzer, operations, seed)
    # A session's list, its targets' state and their figures have more than 16 KiB each: that shows.
    sessions_that_do_nothing(SLAB_NOISE_KIB // 16)
    still_works()
    for name in PLUGINS:
        unload(name)
    n = mappings()["cache-pages"][0]
    unload()
    same("the direct map of what was the cache's", mappings()["former-cache-in-direct-map"], [0, n, 0, 0])

    text = Path("/proc/jifl_text").read_text()
    check("all kernel text is as it was", text.startswith("parts ") and text.endswith("differing 0\n"), text)
    figure("text", text.strip().splitlines()[-1])

    def kept(now):
        return {name: (before.get(name, 0), n) for name, n in now[0].items() if n > before.get(name, 0)}

    def is_given_back(now):
        return all(now[1][name] - n < SLAB_NOISE_KIB for name, n in before_slab.items())

    after = settled(lambda: (vmalloc(), slab()), lambda now: not kept(now) and is_given_back(now))
    same("vmalloc and code pages are given back", kept(after), {})
    figure("kernel memory, before and after", f"{before_slab} {after[1]} KiB")
    check("memory of the sessions is given back", is_given_back(after), (before_slab, after[1]))
    load()
    lockdown()


main(program)
