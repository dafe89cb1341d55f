# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs at places (jifl probe --if, --record, --hist, --by, --stack, --bpf): what they say is right.

usage: actions.py

What is right is known from the module jifl_contexts, from what this process asks of the kernel, and
from kprobes at the same instructions.
"""

import csv
import ctypes
import errno
import fcntl
import json
import os
import re
import struct
import tempfile
import time
from collections import Counter
from pathlib import Path

from contexts import CONTEXTS, FIRE, MODULE, N, call, end_callers, worked
from lib import SLOWNESS, Device, background, check, complaints, interrupt, kernel_log, log_mark, main, run, same, session, status
from probe import CALLS_ON, LEVELS, ROUNDS, TRACING, Graphs, Kprobes, loop_of_work
from trace_forms import DECODED

SEED, MASK = 0x1234567812345678, (1 << 64) - 1


def probe(*words):
    return session(*words, command="probe")


def records(owner, name):
    """The records of a session with -f ndjson, and its report."""
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    lines = [json.loads(line) for line in out.splitlines()]
    check(f"{name}: a report", lines and lines[-1].get("command") == "probe", err)
    *found, report = lines
    same(f"{name}: records", (report["records"]["written"], report["records"]["lost"]), (len(found), 0))
    return found, report


def report_of(owner, name):
    out, err = interrupt(owner)
    same(f"{name}: exit status", owner.returncode, 0)
    check(f"{name}: a report", out, err)
    return json.loads(out)


# An interpreter records the first: rax is asked for, and so is a level. Inserted code records the second.
RECORDED = {"interpreted": "level,cpu,value=(u64)rdi,ret=(u64)rax", "inlined": "cpu,value=(u64)rdi,ret=(u64)rax"}
NAMES = {"softirq": "<softirq>", "irq": "<interrupt>"}


def in_each_context(graphs):
    """Arguments and results are those of the calls, at each level; their order is that of time."""
    for level, contexts in LEVELS.items():
        contexts = [context for context in contexts if "function" not in CONTEXTS[context]]
        for how, asked in RECORDED.items():
            recorded_in(f"{level}, {how}", contexts, asked)


def recorded_in(name, contexts, asked):
    owner = probe("fn:contexts_work", "fn:contexts_work%return", "-f", "ndjson", "--ring", "4M", "--record", asked)
    made = Counter()
    for context in contexts:
        made.update(call(context))
    found, report = records(owner, name)
    entries = [one for one in found if one["place"] == "fn:contexts_work"]
    returns = [one for one in found if one["place"] != "fn:contexts_work"]
    same(f"{name}: records of entries and returns", (len(entries), len(returns)), (made.total(),) * 2)
    same(f"{name}: levels", Counter(one["level"] for one in entries), Counter({name: number for name, number in made.items() if number}))
    same(f"{name}: levels by asking", [one for one in found if one["values"].get("level", one["level"]) != one["level"]], [])
    same(f"{name}: results", Counter(one["values"]["ret"] for one in returns),
         Counter(worked(one["values"]["value"]) for one in entries))
    check(f"{name}: arguments", all(SEED <= one["values"]["value"] < SEED + 1000 for one in entries), entries[:3])
    same(f"{name}: in the order of time", [one["time_ns"] for one in found], sorted(one["time_ns"] for one in found))
    same(f"{name}: each tells its processor", [one["cpu"] for one in found if one["cpu"] != one["values"]["cpu"]], [])
    wrong = [one for one in found if (one["pid"] == 0) != (one["level"] != "task") or
             (one["level"] in NAMES) != (one["comm"] in NAMES.values()) or one["comm"] != NAMES.get(one["level"], one["comm"])]
    same(f"{name}: an interrupt is no task's", wrong, [])
    same(f"{name}: hits", [row["hits"] for row in report["places"]], [made.total()] * 2)


def fields():
    """Fields of the kernel's structures, strings and results are what this process knows of its calls."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "name with \"quotes\""
        path.write_bytes(bytes(1000))
        fd = os.open(path, os.O_RDONLY)
        asked = ("pid,tid,comm,uid,count,pos=*pos,ino=file->f_inode->i_ino,name=str(file->f_path.dentry->d_name.name),"
                 "mode=file->f_inode->i_mode & 0777,bad=*(u64 *)8,parent=current->real_parent->tgid")
        owner = probe("fn:vfs_read", "-f", "ndjson", "--if", f"pid == {os.getpid()} && count < 1000", "--record", asked)
        results = probe("fn:vfs_read%return", "-f", "json", "--if", f"pid == {os.getpid()}", "--by", "$ret,err=$ret < 0")
        wanted = []
        for size in (1, 17, 900, 500):
            wanted.append((size, os.lseek(fd, 0, os.SEEK_CUR)))
            os.read(fd, size)
        found, _ = records(owner, "fields")
        values = [one["values"] for one in found if one["values"]["ino"] == os.fstat(fd).st_ino]
        same("counts and positions", [(one["count"], one["pos"]) for one in values], wanted)
        same("names", {one["name"] for one in values}, {path.name})
        same("the file's mode", {one["mode"] for one in values}, {os.stat(path).st_mode & 0o777})
        same("what cannot be read is unknown", {one["bad"] for one in values}, {None})
        comm = Path("/proc/self/comm").read_text().strip()
        same("who", {(one["pid"], one["tid"], one["comm"], one["uid"], one["parent"]) for one in values},
             {(os.getpid(), os.getpid(), comm, 0, os.getppid())})
        groups = {one["by"]["$ret"]: one["hits"] for one in report_of(results, "results")["groups"]}
        same("results of reads", {size: groups.get(size, 0) >= 1 for size in (1, 17, 900, 82)}, dict.fromkeys((1, 17, 900, 82), True))
        os.close(fd)


def of_a_cgroup():
    """`cgroup` is the number of the task's, and `str()` reads the strings of its process."""
    group = Path("/sys/fs/cgroup/jifl-actions")
    group.mkdir()
    number = group.stat().st_ino
    paths = ["/run/jifl-action", "/run/jifl-actions/\u00e4\"x", "/run/" + "jifl-actions/" * 24]
    program = f"for path in {paths!r}:\n try: open(path)\n except OSError: pass"
    owner, everyone = (probe("fn:do_sys_openat2", "-f", "ndjson", "--if", condition, "--record",
                             "pid,cgroup,name=str(filename),half=str(filename,9),none=str((char *)8)")
                       for condition in (f"cgroup == {number}", f"cgroup != {number}"))
    inside = run("/usr/bin/python3", "-c", program, preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
    outside = run("/usr/bin/python3", "-c", program)
    same("cgroups: the programs", (inside.returncode, outside.returncode), (0, 0))
    wanted = [(path.encode()[:255].decode(), path[:9], None) for path in paths]
    pids = set()
    for name, session_, is_inside in (("inside", owner, True), ("outside", everyone, False)):
        values = [one["values"] for one in records(session_, f"cgroups, {name}")[0]]
        same(f"cgroups, {name}", {one["cgroup"] == number for one in values}, {is_inside})
        found = [one for one in values if (one["name"] or "").startswith("/run/jifl-action")]
        same(f"cgroups, {name}: strings of the process", [(one["name"], one["half"], one["none"]) for one in found], wanted)
        pids |= {one["pid"] for one in found}
    same("cgroups: a process each", len(pids), 2)
    group.rmdir()


def types_of_a_module():
    """Fields and constants of types that a module alone describes."""
    if run("modprobe", "loop").returncode:
        check("Debian's kernels have loop devices", SLOWNESS > 1)
        return
    number, block, limit, name = 5, 1024, 1 << 20, b"named by a test"
    owner = probe("fn:loop_configure", "-f", "ndjson", "--record",
                  "number=lo->lo_number,fresh=lo->lo_state == Lo_unbound,block=config->block_size,"
                  "limit=config->info.lo_sizelimit,name=str(config->info.lo_file_name),flags=config->info.lo_flags & LO_FLAGS_READ_ONLY")
    with tempfile.TemporaryFile() as file, open(f"/dev/loop{number}", "rb") as device:
        file.truncate(limit)
        info = struct.pack("<QQQQQIIII64s64s32sQQ", 0, 0, 0, 0, limit, 0, 0, 0, 1, name, b"", b"", 0, 0)
        fcntl.ioctl(device, 0x4c0a, bytearray(struct.pack("<II", file.fileno(), block) + info + bytes(64)))
        fcntl.ioctl(device, 0x4c01)
    found, _ = records(owner, "types of a module")
    same("types of a module", [one["values"] for one in found],
         [{"number": number, "fresh": 1, "block": block, "limit": limit, "name": name.decode(), "flags": 1}])


def older_first(graphs):
    """At one place the program of the session that was started first runs first, in copies and natively."""
    place = f"fn:contexts_work{graphs.instructions('contexts_work')[2][0]}"

    def start():
        # The clock is read there. time_ns will not do: each session makes it of the counter by its own comparisons.
        return probe(place, "-f", "ndjson", "--ring", "1M", "--record", "value=(u64)rdi,at=time", "--if", f"tid == {os.getpid()}")

    def times(owner, name):
        return [(one["values"]["value"], one["values"]["at"]) for one in records(owner, name)[0]]

    def in_order(name, first, second):
        same(f"{name}: both have the same executions", [value for value, _ in first], [value for value, _ in second])
        wrong = [(a, b) for (_, a), (_, b) in zip(first, second) if a > b]
        check(f"{name}: the older is first", not wrong and any(a < b for (_, a), (_, b) in zip(first, second)), wrong[:3])

    for natively in (False, True):
        name = "natively" if natively else "in copies"
        kprobes = Kprobes(f"contexts_work{graphs.instructions('contexts_work')[1][0]}") if natively else None
        first, second = start(), start()
        made = sum(call("task").values())
        mine = times(first, f"{name}, the first")
        # What is free now is taken by a session that is younger than the second.
        third = start()
        made_later = sum(call("task").values())
        other, last = times(second, f"{name}, the second"), times(third, f"{name}, the third")
        same(f"{name}: executions", (len(mine), len(other), len(last)), (made, made + made_later, made_later))
        in_order(f"{name}, two sessions", mine, other[:made])
        in_order(f"{name}, two others", other[made:], last)
        if kprobes:
            kprobes.clear()


def conditions(graphs):
    """A condition and its opposite make up all; where it cannot be told, that is counted."""
    odd, even, unknown, text = (probe("fn:contexts_work", "-f", "json", "--if", condition) for condition in (
        "$arg0 & 1", "!($arg0 & 1)", "*(u64 *)8 == 1", "comm == \"no such name\" || $arg0 % 10 == 3 && cpu < 64"))
    made = {context: sum(call(context).values()) for context in ("task", "timer", "ipi")}
    reports = [report_of(owner, "conditions") for owner in (text, unknown, even, odd)]
    hits = [one["places"][0]["hits"] for one in reports]
    # The module's seeds count up in each batch.
    same("odd and even are all", hits[2] + hits[3], sum(made.values()))
    same("half of them are odd", hits[3], sum(made.values()) // 2)
    same("one of ten", hits[0], sum(made.values()) // 10)
    same("unknown conditions", (hits[1], reports[1]["untested"]), (0, sum(made.values())))
    same("known ones", [one["untested"] for one in reports if one is not reports[1]], [0] * 3)


def sums(graphs):
    """Histograms, groups and stacks have each hit once."""
    owner = probe("fn:contexts_work", "-f", "json", "--hist", "(long)($arg0 & 7) - 2", "--by", "level,comm")
    stacks = probe("fn:contexts_work", "-f", "json", "--stack")
    made = Counter()
    for context in ("task", "timer", "ipi", "tail"):
        made.update(call(context))
    data, by_stack = report_of(owner, "groups"), report_of(stacks, "stacks")
    comm = Path("/proc/self/comm").read_text().strip()
    # A timer and an interrupt make FIRE calls each time; a task makes N.
    batch = {"task": N, "softirq": FIRE, "irq": FIRE}
    for group in data["groups"]:
        level, value = group["by"]["level"], group["value"]
        values = [((SEED + at) & 7) - 2 for at in range(batch[level])] * (made[level] // batch[level])
        same(f"hits of {level}", (group["hits"], group["by"]["comm"]),
             (made[level], {"task": comm, "softirq": "<softirq>", "irq": "<interrupt>"}[level]))
        same(f"{level}: values", (value["known"], value["sum"], value["negative"]),
             (len(values), sum(values), sum(one < 0 for one in values)))
        powers = Counter(one.bit_length() for one in values if one >= 0)
        same(f"{level}: the histogram", {one["low"].bit_length(): one["count"] for one in value["buckets"] if one["count"]}, dict(powers))
    same("a group a level", Counter(one["by"]["level"] for one in data["groups"]), Counter([name for name in made if made[name]]))
    same("each hit has a stack", sum(one["hits"] for one in by_stack["groups"]), made.total())
    frames = [[re.sub(r"\+.*", "", frame) for frame in one["stack"]] for one in by_stack["groups"]]
    check("a stack from a system call to this module", any(
        stack[-2:] == ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"] and "vfs_write" in stack and "run_task" in stack
        for stack in frames), frames)
    check("a stack in an interrupt", any("call_timer_fn" in stack for stack in frames), frames)
    check("no frame is unknown", not any(frame.startswith("0x") for stack in frames for frame in stack), frames)


def beside_kprobes(graphs):
    """Where a kprobe makes a place native, its values and the program's are the same, in the same order."""
    place = graphs.instructions("vfs_read")[2][0]
    (TRACING / "kprobe_events").write_text(f"p:jifl/read vfs_read{place} count=%dx:u64 file=%di:x64 pos=+0(%cx):s64 ip=%ip:x64\n")
    (TRACING / "events/jifl/read/enable").write_text("1")
    owner = probe(f"fn:vfs_read{place}", "-f", "ndjson", "--record", "count=(u64)rdx,file=(u64)rdi,pos=*(s64 *)rcx,ip=(u64)rip",
                  "--if", f"tid == {os.getpid()}")
    (TRACING / "trace").write_text("")
    with open(MODULE, "rb") as file:
        for size in range(1, 40):
            os.read(file.fileno(), size)
    (TRACING / "events/jifl/read/enable").write_text("0")
    lines = [line for line in (TRACING / "trace").read_text().splitlines() if re.search(rf"-{os.getpid()} +\[", line)]
    theirs = [tuple(int(word, 0) for word in re.search(r"count=(\S+) file=(\S+) pos=(\S+)", line).groups()) for line in lines]
    found, report = records(owner, "beside a kprobe")
    ours = [tuple(one["values"][name] for name in ("count", "file", "pos")) for one in found]
    check("there were reads", len(theirs) >= 39, lines[:3])
    # Ours goes on a moment longer, and begins a moment earlier.
    start = next((at for at in range(len(ours)) if ours[at:at + len(theirs)] == theirs), None)
    check("values, in their order", start is not None, (theirs[:5], ours[:5]))
    check("they were caught", report["places"][0]["caught"] >= len(theirs), report)
    (TRACING / "kprobe_events").write_text("")


def forms(graphs):
    """Records, intervals and reports in each form say the same."""
    owner = probe("fn:contexts_work", "-f", "csv", "--record", "value=(u64)rdi,stack")
    made = sum(call("task").values())
    out, err = interrupt(owner)
    title, *rows = csv.reader(out.splitlines())
    same("csv: columns", title, ["time_ns", "cpu", "level", "pid", "tid", "comm", "place", "value", "stack"])
    same("csv: a line each", Counter(row[6] for row in rows), Counter({"fn:contexts_work": made}))
    check("csv: values", all(SEED <= int(row[7]) < SEED + 1000 and "do_syscall_64" in row[8] for row in rows), rows[:2])
    check("csv: what there is besides is said", f"# {made:,} records\n" in err and "# missed 0; " in err and "# set up in " in err, err)
    for form, decode in DECODED.items():
        owner = probe("fn:contexts_work", "-f", form, "-o", "/run/records", "--record", "value=(u64)rdi,bad=*(u64 *)8,stack")
        made = Counter()
        for context in ("task", "timer"):
            made.update(call(context))
        out, err = interrupt(owner)
        same(f"{form}: exit status, output", (owner.returncode, out), (0, ""))
        events, names, other = decode(Path("/run/records").read_bytes())
        same(f"{form}: an instant each", Counter((event.name, event.category, event.duration) for event in events),
             Counter({("fn:contexts_work", level, None): number for level, number in made.items() if number}))
        check(f"{form}: values", all(SEED <= event.details["value"] < SEED + 1000 and event.details["bad"] == "?" and
                                     event.details["stack"] for event in events), events[:2])
        same(f"{form}: threads", {event.thread for event in events if event.category == "task"}, {os.getpid()})
        same(f"{form}: interrupts are on the tracks of processors", {event.process for event in events if event.category != "task"}, {0})
        comm = Path("/proc/self/comm").read_text().strip()
        same(f"{form}: the thread's name", names["thread_name", os.getpid()], (os.getpid(), comm))
        check(f"{form}: what was missed is said", "# missed 0; " in err, err)
        if form == "chrome":
            same("chrome: the report is in it", (other["places"][0]["hits"], other["records"]),
                 (sum(made.values()), {"written": sum(made.values()), "lost": 0}))
    groups = probe("fn:contexts_work", "-f", "csv", "--by", "level", "--hist", "$arg0 & 1")
    words = ["fn:contexts_work", f"fn:contexts_work{graphs.instructions('contexts_work')[2][0]}"]
    live = [probe(*words, "-i", "100ms", "-f", form) for form in ("csv", "ndjson", "text")]
    made = Counter()
    for context in ("task", "timer", "task"):
        made.update(call(context))
        time.sleep(0.3)
    as_text, as_ndjson, as_csv = (interrupt(owner) for owner in reversed(live))
    total = sum(made.values())
    title, *rows = csv.reader(as_csv[0].splitlines())
    same("intervals in csv: columns", title, ["seconds", "place", "hits", "caught"])
    sums = Counter()
    for _, place, hits, _ in rows:
        sums[place] += int(hits)
    same("intervals in csv: sums", sums, Counter(dict.fromkeys(words, total)))
    check("there are several", len({row[0] for row in rows if row[2] != "0"}) > 1, rows)
    *intervals, report = [json.loads(line) for line in as_ndjson[0].splitlines()]
    same("intervals in ndjson: sums", [sum(one["interval"][at]["hits"] for one in intervals) for at in range(2)], [total] * 2)
    same("their report", [one["hits"] for one in report["places"]], [total] * 2)
    check("its cost", report["start_ns"] > 0 and report["end_ns"] > 0, report)
    times = [one["until_ns"] for one in intervals]
    check("in order", times == sorted(times) and times[-1] <= report["duration_ns"], (times, report["duration_ns"]))
    before, _, after = as_text[0].partition("\n\n")
    same("intervals in text: sums", sum(int(line.split()[2].replace(",", "")) for line in before.splitlines()[1:]), 2 * total)
    check("and the report below", after.startswith("PLACE") and "# set up in " in after, after)
    out, _ = interrupt(groups)
    title, *rows = csv.reader(out.splitlines())
    same("groups in csv", (title, {row[1]: int(row[0]) for row in rows}),
         (["hits", "level", "known", "sum", "place"], {level: number for level, number in made.items() if number}))
    end = run("jifl", "probe", "fn:contexts_work", "-f", "perfetto", "--for", "100ms")
    check("viewers show records", end.returncode == 2 and "give --record" in end.stderr, end)


def unreadable(graphs):
    """What cannot be read is unknown, in conditions and in values; what can be is what it is."""
    bad = {"user": "8", "gap": "0xdead000000000100", "half": "0x8000000000000000", "end": "0xfffffffffffffffc"}
    at = int(next(line.split()[0] for line in Path("/proc/kallsyms").read_text().splitlines() if line.endswith(" linux_banner")), 16)
    banner = Path("/proc/version").read_bytes()[:8]
    asked = [f"{name}=*(u64 *){address}" for name, address in bad.items()]
    values = probe("fn:contexts_work", "-f", "ndjson", "--ring", "1M", "--record", ",".join(asked))
    good = probe("fn:contexts_work", "-f", "ndjson", "--ring", "1M", "--record",
                 ",".join(f"w{width}=*({kind} *){at + 1}" for width, kind in ((8, "u64"), (4, "s32"), (2, "u16"), (1, "s8"))),
                 "--if", f"*(u64 *){at} == {int.from_bytes(banner, 'little')}")
    made = sum(sum(call(context).values()) for context in ("task", "timer"))
    found, _ = records(good, "what can be read")
    wanted = [int.from_bytes(Path("/proc/version").read_bytes()[1:1 + width], "little") for width in (8, 4, 2, 1)]
    same("what can be read", Counter(tuple(one["values"].values()) for one in found), Counter({tuple(wanted): made}))
    found, _ = records(values, "what cannot be read")
    same("what cannot be read", Counter(tuple(one["values"].values()) for one in found), Counter({(None,) * len(bad): made}))
    # A target has as many sessions at a time as it has lanes.
    owners = {name: probe("fn:contexts_work", "-f", "json", "--if", f"*(u64 *){address} == *(u64 *){address}") for name, address in bad.items()}
    made = sum(sum(call(context).values()) for context in ("task", "timer"))
    for name, owner in owners.items():
        data = report_of(owner, name)
        same(f"a condition that cannot be told: {name}", (data["places"][0]["hits"], data["untested"]), (0, made))


def between_accesses(graphs):
    """A condition reads user memory between the instructions with which the kernel reads it.

    Each read of user memory by the kernel's functions ends the permission for such reads. The kernel's own read goes on behind it.
    """
    # Debian's Python is at this address in each process that runs it.
    program = "import os; print(sum(os.path.exists('/etc/passwd') for _ in range(200)))"
    end = run("jifl", "probe", "fn:strncpy_from_user insn", "--if", "*(u64 *)0x400000 != 0", "-f", "json", "--", "/usr/bin/python3", "-c", program)
    check("names are read as natively", end.returncode == 0 and end.stdout.splitlines()[0] == "200", end)
    check("the condition was asked", json.loads(end.stdout.split("\n", 1)[1])["places"][0]["hits"] > 200, end.stdout[:300])


def full_ring(graphs):
    """Records that there is no room for are counted, and leave those that are there as they are."""
    op = Device.op
    begin = int(graphs.all["contexts_work"]["blocks"][0]["address"], 16)
    place = begin + int(graphs.instructions("contexts_work")[2][0], 16)
    program = [op(65), op(2, 7), op(71), op(2, 7), op(71), op(74)]
    ring, head = 1 << 12, 56
    with Device() as device:
        device.start_of(Device.PROBE, [Device.target(0, Device.FUNCTION, Device.ONLY, begin, b"contexts_work")],
                        splices=[Device.splice(place, action=1)], programs=[program], ring=ring)
        before = 0
        for _ in range(3):
            made, written, lost = sum(call("task", 300).values()), 0, 0
            for cpu in range(2):
                data, its_lost = device.hits(cpu)
                lost += its_lost
                for at in range(0, len(data), head + 16):
                    size, of, _, its_cpu = struct.unpack_from("<IIQI", data, at)
                    same("a record of a full ring", (size, of, its_cpu), (head + 16, 0, cpu))
                    left, right = struct.unpack_from("<QQ", data, at + head)
                    check("it is whole", left == right and SEED <= left < SEED + 1000, (left, right))
                    written += 1
            check("records were lost", lost > before, lost)
            same("each is there, or lost", written + lost - before, made)
            before = lost


def nested(graphs):
    """A program whose own read comes to its place again does not run anew: that is counted."""
    function = "__bad_area_nosemaphore"
    owner = probe(f"fn:{function}", "-f", "json", "--if", f"*(u64 *)8 == 1 || pid == {os.getpid()}", "--hist", "*(u64 *)16")
    unconditional = probe(f"fn:{function}", "-f", "json", "--hist", "*(u64 *)16")
    libc = ctypes.CDLL(None, use_errno=True)
    pipe = os.pipe()
    for _ in range(50):
        same("a bad address", (libc.write(pipe[1], ctypes.c_void_p(16), 8), ctypes.get_errno()), (-1, errno.EFAULT))
    data = report_of(unconditional, "nested")
    other = report_of(owner, "nested, with a condition")
    hits, inner = data["places"][0]["hits"], data["nested"]
    check("each fault, and that of the program", hits >= 100 and inner >= 50, data)
    check("conditions that fault are not told", other["untested"] + other["nested"] >= 100, other)
    same("values that cannot be read", [one["value"]["known"] for one in data["groups"]], [0])


class Bpf:
    """A BPF program of the type for kprobes, which counts and adds up rdi: in a map, and pinned."""

    MAP_CREATE, MAP_LOOKUP, PROG_LOAD, PIN = 0, 1, 5, 6
    KPROBE, XDP = 2, 6

    def __init__(self, type_=KPROBE):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.map = self.call(self.MAP_CREATE, struct.pack("<IIIII", 2, 4, 16, 1, 0))
        insn = lambda code, dst=0, src=0, off=0, imm=0: struct.pack("<BBhi", code, src << 4 | dst, off, imm)  # noqa: E731
        program = [insn(0xbf, 6, 1), insn(0x62, 10, 0, -4, 0), insn(0xbf, 2, 10), insn(0x07, 2, 0, 0, -4),
                   insn(0x18, 1, 1, 0, self.map), insn(0), insn(0x85, imm=1), insn(0x15, 0, 0, 4, 0), insn(0xb7, 1, 0, 0, 1),
                   insn(0xdb, 0, 1, 0, 0), insn(0x79, 2, 6, 112, 0), insn(0xdb, 0, 2, 8, 0), insn(0xb7), insn(0x95)]
        if type_ != self.KPROBE:
            program = [insn(0xb7), insn(0x95)]
        code = ctypes.create_string_buffer(b"".join(program))
        license_ = ctypes.create_string_buffer(b"GPL")
        log = ctypes.create_string_buffer(65536)
        self.prog = self.call(self.PROG_LOAD, struct.pack("<IIQQIIQ", type_, len(program),
                                                          ctypes.addressof(code), ctypes.addressof(license_), 1, 65536,
                                                          ctypes.addressof(log)), log)
        self.path = Path(f"/sys/fs/bpf/jifl_{self.prog}")
        path = ctypes.create_string_buffer(str(self.path).encode())
        self.call(self.PIN, struct.pack("<QI", ctypes.addressof(path), self.prog))

    def call(self, command, attributes, log=None):
        data = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
        result = self.libc.syscall(321, command, data, 128)
        if result < 0:
            raise OSError(ctypes.get_errno(), log.value.decode() if log else "bpf")
        return result

    def read(self):
        """(executions, sum of rdi modulo 2^64)"""
        key, value = ctypes.create_string_buffer(bytes(4)), ctypes.create_string_buffer(16)
        self.call(self.MAP_LOOKUP, struct.pack("<IxxxxQQ", self.map, ctypes.addressof(key), ctypes.addressof(value)))
        return struct.unpack("<QQ", value.raw)

    def close(self):
        self.path.unlink()
        os.close(self.prog)
        os.close(self.map)


def bpf(graphs):
    """A BPF program runs at an instruction in the middle of a function, in each context, with its registers."""
    if not os.path.ismount("/sys/fs/bpf"):
        same("the BPF file system", run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf").returncode, 0)
    program, other = Bpf(), Bpf(Bpf.XDP)
    owner = probe("fn:contexts_work", "-f", "json", "--bpf", program.path)
    made = {context: sum(call(context).values()) for context in ("task", "timer", "ipi", "kthread")}
    data = report_of(owner, "BPF")
    total, arguments = program.read()
    same("BPF: runs", (total, data["places"][0]["hits"], data["unrun"]), (sum(made.values()),) * 2 + (0,))
    # Each batch counts its seeds up from the first.
    check("BPF: registers", (arguments - SEED * total) & MASK < 1000 * total, (total, arguments))
    for path, hint in ((other.path, "no program for kprobes"), ("/sys/fs/bpf/none", "none")):
        end = run("jifl", "probe", "fn:contexts_work", "--bpf", path, "--for", "100ms")
        check(f"{hint}: refused", end.returncode != 0 and end.stderr.count("\n") == 1 and hint in end.stderr, end)
    program.close()
    other.close()
    inside(graphs)


def inside(graphs):
    """At an instruction in the middle, and at each way of a branch, a BPF program sees what others see there."""
    loop, branch = loop_of_work(graphs)
    for place, times in ((loop, ROUNDS), (f"{branch}:taken", ROUNDS - 1), (f"{branch}:not-taken", 1)):
        program = Bpf()
        owner = probe(f"fn:contexts_work{place}", "-f", "json", "--bpf", program.path)
        beside = probe(f"fn:contexts_work{place}", "-f", "json", "--hist", "(u64)rdi")
        made = times * sum(sum(call(context).values()) for context in ("task", "timer", "ipi"))
        group, = report_of(beside, f"beside BPF, {place}")["groups"]
        data = report_of(owner, f"BPF, {place}")
        total, arguments = program.read()
        same(f"BPF, {place}: runs", (total, data["places"][0]["hits"], data["unrun"], group["hits"]), (made, made, 0, made))
        same(f"BPF, {place}: registers", arguments, group["value"]["sum"] & MASK)
        program.close()


def lines_of_kprobe_events(graphs):
    """A line of kprobe events records what the kernel's own event does, under its name."""
    place = graphs.instructions("vfs_read")[2][0]
    line = f"p:jifl/reads vfs_read{place} count=%dx:u64 pos=+0(%cx):s64 who=$comm"
    owner = probe("--kprobe", line, "r:back vfs_read ret=$retval:s64", "-f", "ndjson", "--if", f"pid == {os.getpid()}")
    with open(MODULE, "rb") as file:
        wanted = [(len(os.read(file.fileno(), size)), size, pos) for size, pos in ((5, 0), (300, 5), (7, 305))]
    found, _ = records(owner, "lines of kprobe events")
    comm = Path("/proc/self/comm").read_text().strip()
    calls = [(one["values"]["count"], one["values"]["pos"]) for one in found if one["place"] == "reads"]
    check("lines of kprobe events: values", calls[:1] and all((size, pos) in calls for _, size, pos in wanted), calls)
    same("lines of kprobe events: who", {one["values"]["who"] for one in found if one["place"] == "reads"}, {comm})
    results = [one["values"]["ret"] for one in found if one["place"] == "back"]
    check("lines of kprobe events: results", all(got in results for got, _, _ in wanted), results)
    end = run("jifl", "probe", "--kprobe", "p vfs_read x=%di:b4@2/32", "--for", "100ms")
    check("a type that is not supported", end.returncode == 2 and "b4@2/32 is not supported" in end.stderr, end)


def refusals(graphs):
    """What means nothing is refused in one line that says what there is."""
    for words, hints in ((["--record", "file->f_inodes"], ["no member", "f_inode"]),
                         (["--record", "nothing"], ["unknown", "file, buf, count, pos"]),
                         (["--hist", "str(file->f_path.dentry->d_name.name)"], ["string"]),
                         (["--record", "$ret"], ["%return"]), (["--record", "count", "-f", "json"], ["ndjson"]),
                         (["--if", "comm == 3"], ["comm"]), (["--by", "stack,comm,a=comm,b=comm,c=comm"], ["64"])):
        end = run("jifl", "probe", "fn:vfs_read", *words, "--for", "100ms")
        check(f"{words} is refused", end.returncode == 2 and end.stderr.count("\n") == 1 and
              all(hint in end.stderr for hint in hints), end)


def bad_programs(graphs):
    """The module takes no program that could leave its stack, its records or its end."""
    op = Device.op
    const, get, load, add, skip = op(1, imm=7), op(3), op(4, width=8), op(10), lambda n: op(25, n)
    if_, hit, group, sum_, out, record, bpf_ = (op(code) for code in (64, 65, 66, 70, 71, 74, 75))
    begin = int(graphs.all["contexts_work"]["blocks"][0]["address"], 16)
    place = begin + int(graphs.instructions("contexts_work")[2][0], 16)
    targets = [Device.target(0, Device.FUNCTION, Device.ONLY, begin, b"contexts_work")]

    def start(program, ring=1 << 16, strings=b""):
        with Device() as device:
            try:
                device.start_of(Device.PROBE, targets, splices=[Device.splice(place, action=1)], programs=[program], ring=ring,
                                strings=strings)
                return 0
            except OSError as e:
                return e.errno

    wrong = {
        "it is empty": [], "it leaves a number": [hit, const], "it takes what is not there": [add, hit], "an effect takes nothing": [if_],
        "an effect takes one of two": [const, const, if_], "an unknown op": [op(30), hit], "no width": [const, op(4), if_],
        "an odd width": [const, op(4, width=3), if_], "a register that is none": [op(2, 18), if_], "what there is not": [op(3, 9), if_],
        "too deep": [const] * 17 + [add] * 16 + [if_], "it skips too far": [const, skip(3), const, if_],
        "it skips an effect": [const, skip(2), hit, const, if_],
        "it skips to another depth": [const, skip(2), const, const, add, if_],
        "no program": [hit, bpf_], "too large a name": [const, group] * 9 + [sum_], "too large a record": ([op(3, 6), op(72, 256)] * 9) + [record],
        "a string outside": [op(3, 6), op(24, 4, 1), if_], "a flag that is none": [op(1, imm=1, flags=1), if_], "no end": [op(255)],
        "a name without bytes": [op(3, 6), op(67), sum_], "an argument too many": [op(65, 1)],
        "two hits": [hit, hit],
    }
    same("programs that are wrong", {name: start(program, strings=b"abc") for name, program in wrong.items()},
         dict.fromkeys(wrong, errno.EBADRQC))
    same("records without a ring", start([hit, const, out, record], ring=0), errno.EINVAL)
    same("one that is right", start([const, skip(1), const, if_, hit, get, group, sum_, op(3, 5), load, out, op(3, 6), op(72, 16),
                                     op(73), record]), 0)


def come_and_go(graphs):
    """Sessions with programs are killed while the functions run in all contexts."""
    callers = [background("/usr/bin/python3", "-c", CALLS_ON) for _ in range(2)]
    for _ in range(6):
        owner = probe("fn:contexts_work", "fn:contexts_sleep%return", "-f", "ndjson", "--record", "comm,rdi",
                      "--stack", "--by", "comm,stack")
        call("timer")
        owner.kill()
        owner.communicate()
    end_callers(callers)


def actions():
    mark = log_mark()
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    graphs = Graphs("fn:contexts_work", "fn:vfs_read")
    for part in (in_each_context, conditions, sums, forms, beside_kprobes, older_first, unreadable, between_accesses, full_ring, nested, bpf,
                 lines_of_kprobe_events, bad_programs, come_and_go):
        part(graphs)
    if Path("/sys/kernel/btf/vmlinux").exists():
        refusals(graphs)
        fields()
        of_a_cgroup()
        types_of_a_module()
    else:
        end = run("jifl", "probe", "fn:vfs_read", "--record", "count", "--for", "100ms")
        check("without types: refused, and the way out", end.returncode == 2 and "use $arg0 to $arg5" in end.stderr, end)
    same("no session is left", status()["sessions"], [])
    same("the module of the contexts goes", run("rmmod", "jifl_contexts").returncode, 0)
    same("the module has nothing to say", complaints(kernel_log(mark)), [])


if __name__ == "__main__":
    main(actions)
