# SPDX-License-Identifier: MIT OR Apache-2.0
"""The functions that `jifl trace` sees, compared with those of the kernel's own function_graph
tracer.

usage: trace.py

Both watch the same program, one after the other. The program makes each of its system calls many
times. The commonest sequences of functions are compared, without functions that only one of the two
can see: the function tracer has no notrace functions, and functions of an interrupt occur between
others now and then.
"""

import json
import os
import re
from collections import Counter
from difflib import unified_diff
from pathlib import Path

import trace_forms
from lib import Device, background, check, figure, interrupt, main, report, run, same, session, status, wait_for

TRACING = Path("/sys/kernel/tracing")
TIMES = 40
# System calls, and how Python makes one.
CALLS = {
    "getcwd": "os.getcwd()",
    "umask": "os.umask(18)",
    "access": "os.access('/etc/passwd', 4)",
    "lseek": "os.lseek(f, 0, 0)",
    "getpgid": "os.getpgid(0)",
    "newuname": "os.uname()",
    "readlink": "os.readlink('/proc/self/exe')",
    "pread64": "os.pread(f, 100, 0)",
    "ftruncate": "os.ftruncate(g, 10)",
}
# The names that `jifl` and __x64_sys_* have for it, where they differ.
NUMBERED = {"newuname": "uname"}
# The interpreter makes as many of some before it runs the program, which so says when it begins.
MARK = "getpriority"
PROGRAM = "; ".join(["import os; f = os.open('/etc/passwd', 0); g = os.open('/run/trace', 66)",
                     "os.getpriority(0, 0)",
                     *(f"[({what}) for i in range({TIMES})]" for what in CALLS.values())])
COMMAND = ["python3", "-S", "-E", "-c", PROGRAM]


def by_call(sequences):
    """Those after the program's mark, by the system call."""
    found = {name: [] for name in [MARK, *CALLS]}
    for sequence in sequences:
        name = sequence[0].removeprefix("__x64_sys_")
        if name in CALLS and found[MARK] or name == MARK:
            found[name].append(sequence)
    return found


def commonest(sequences):
    """The one most calls have, and how many of them."""
    (sequence, n), = Counter(map(tuple, sequences)).most_common(1)
    return list(sequence), n


# --- both tracers ---------------------------------------------------------------------


def jifl_trace(*options):
    """Sequences of depths and functions by system call."""
    targets = [f"sys:{NUMBERED.get(name, name)}" for name in [MARK, *CALLS]]
    end = run("jifl", "trace", *options, *targets, "-f", "ndjson", "-o", "/run/calls", "--", *COMMAND)
    said = re.fullmatch(r"(\d+) calls, (\d+) functions entered; records lost (\d+), calls missed (\d+)(?:; threads waited .*)?",
                        end.stderr.strip())
    check("the trace ends well", end.returncode == 0 and said, end)
    calls = [json.loads(line) for line in Path("/run/calls").read_text().splitlines()]
    n, functions, lost, missed = (int(number) for number in said.groups())
    same("every call is there", len(calls), n)
    same("every function is there", sum(len(call["functions"]) for call in calls), functions)
    same("nothing is lost or missed", (lost, missed), (0, 0))
    check("every call has an end", all(call["duration_ns"] for call in calls), calls[-1])
    return calls


def names(calls):
    """Of functions alone."""
    return by_call([function["name"].split(" ")[0] for function in call["functions"]] for call in calls)


def graph_trace():
    """The same from function_graph."""
    (TRACING / "set_graph_function").write_text("\n".join(f"__x64_sys_{name}" for name in [MARK, *CALLS]))
    (TRACING / "current_tracer").write_text("function_graph")
    (TRACING / "trace").write_text("")
    (TRACING / "tracing_on").write_text("1")
    run(*COMMAND)
    (TRACING / "tracing_on").write_text("0")
    text = (TRACING / "trace").read_text()
    (TRACING / "current_tracer").write_text("nop")
    sequences = []
    for line in text.splitlines():
        entered = re.search(r"\|\s+([\w.]+)(?: \[\w+\])?\(", line)
        if not entered:
            continue
        name = entered[1].removeprefix("__x64_sys_")
        if name != entered[1] and name in [MARK, *CALLS]:
            sequences.append([])
        if sequences:
            sequences[-1].append(entered[1])
    return by_call(sequences)


def graph_traces():
    """As many as it takes until of each call enough have the same functions: a busy host lets more
    interrupts come in between.
    """
    found = graph_trace()
    for _ in range(9):
        if all(commonest(found[name])[1] >= TIMES // 4 for name in CALLS):
            break
        for name, more in graph_trace().items():
            found[name] += more
    return found


def compare():
    """On one CPU, where no other task's functions come in between."""
    os.sched_setaffinity(0, {0})
    run("mount", "-t", "tracefs", "none", str(TRACING))
    (TRACING / "tracing_on").write_text("0")
    (TRACING / "options/funcgraph-irqs").write_text("0")
    (TRACING / "tracing_cpumask").write_text("1")
    (TRACING / "buffer_size_kb").write_text("8192")
    traceable = {line.split()[0] for line in (TRACING / "available_filter_functions").read_text().splitlines()}
    graph, plain, valued = graph_traces(), jifl_trace(), jifl_trace("-A")
    traced, again = names(plain), names(valued)
    nested = [by_call([call["functions"][0]["name"], *((f["depth"], f["name"]) for f in call["functions"])] for call in calls)
              for calls in (plain, valued)]
    compared = 0
    for name in CALLS:
        seen = [[function for function in call if function in traceable] for call in traced[name]]
        theirs, n = commonest(graph[name])
        check(f"{name}: function_graph has seen the calls", n >= TIMES // 4, n)
        ours, n = commonest(seen)
        check(f"{name}: most calls are alike", n >= TIMES // 4, n)
        # Which of two ways is the commoner may differ between two runs, but neither is in one of
        # them only.
        check(f"{name}: the same functions in the same order", ours in graph[name] and theirs in seen,
              list(unified_diff(theirs, ours, "function_graph", "jifl", n=3, lineterm="")))
        compared += len(ours)
        check(f"{name}: the same functions with their values", commonest(again[name])[0] in map(list, traced[name]), commonest(again[name]))
        check(f"{name}: and as deep", commonest(nested[0][name])[0] in map(list, nested[1][name]), commonest(nested[0][name]))
    figure("functions compared in order", compared)
    os.sched_setaffinity(0, set(range(os.cpu_count())))


# --- what else is promised ---------------------------------------------------------------


TRACE = 5
GETPPID = 110


def lost():
    """Who does not read in time is told how much is gone, to the record."""
    os.sched_setaffinity(0, {0})
    with Device() as device:
        device.start(TRACE, [GETPPID], filters=1 << 1, tgid=os.getpid())
        for _ in range(30000):
            os.getppid()
        device.stop()
        calls, functions = device.stat(GETPPID)
        words, gone = device.records(0)
        taken = len(words) // 2
        same("every call was counted", calls, 30000)
        # Each call has a begin and an end, of two records each, and one of what it returns; each
        # time it comes to run again has two, too.
        more = taken + gone - 5 * calls - 2 * functions
        check("records taken and lost are those there were", gone > 0 and more >= 0 and more % 2 == 0,
              (taken, gone, calls, functions))
        check("what is left is whole", all(words[0::2]), words.index(0) if 0 in words else None)
        same("then there is nothing", device.records(0)[0], [])
        figure("records taken, and lost in an overrun", f"{taken}, {gone}")
    os.sched_setaffinity(0, set(range(os.cpu_count())))


def one_at_a_time():
    owner = background("jifl", "trace", "sys:getppid", "--for", "300s")
    wait_for("the session", lambda: status()["sessions"])
    second = run("jifl", "trace", "sys:getpid", "--for", "1s")
    check("a second trace is refused, by name", second.returncode == 1 and
          "records already" in second.stderr and f"process {owner.pid}" in second.stderr, second)
    counting = session("insn", "sys:getpid", "-f", "json")
    check("counting goes on beside it", report(interrupt(counting)[0])["command"] == "count", counting)
    interrupt(owner)


def moved():
    """Threads that wait for each other on all CPUs: pieces are put together again."""
    shell = "for i in 1 2 3 4 5 6; do (echo $i; cat /etc/hostname) | cat | wc -c; done"
    end = run("jifl", "trace", "sys:read", "sys:write", "sys:clone", "sys:wait4", "-f", "ndjson", "-o", "/run/calls",
              "--", "sh", "-c", shell)
    calls = [json.loads(line) for line in Path("/run/calls").read_text().splitlines()]
    check("a pipeline is traced", end.returncode == 0 and "records lost 0" in end.stderr, end)
    heads = {"read": "__x64_sys_read", "write": "__x64_sys_write", "clone": "__x64_sys_clone",
             "wait4": "__x64_sys_wait4"}
    wrong = [call for call in calls if call["functions"][0] != {"depth": 0, "name": heads[call["syscall"]]}]
    check("each call begins with its handler", not wrong and len(calls) > 50, (len(calls), wrong[:1]))
    # Deeper by one at a time; a handler may jump to what does its work.
    depths = [[function["depth"] for function in call["functions"]] for call in calls]
    check("functions nest", all(after <= before + 1 for call in depths for before, after in zip(call, call[1:])),
          depths[0])


def folded():
    end = run("jifl", "trace", "sys:getppid", "sys:openat", "-f", "folded", "-o", "/run/stacks", "--",
              "/usr/bin/python3", "-S", "-E", "-c", "import os; [os.getppid() for i in range(1000)]")
    lines = dict(line.rsplit(" ", 1) for line in Path("/run/stacks").read_text().splitlines())
    same("calls are counted by stack", lines.get("sys:getppid;__x64_sys_getppid"), "1000")
    entered = re.search(r"(\d+) functions entered; records lost 0", end.stderr)
    check("and so is every function", entered and sum(map(int, lines.values())) == int(entered[1]), end.stderr)


def longer():
    # Whose time begins inside the call; time.sleep() waits until a time that was chosen before it.
    program = "import signal; [signal.sigtimedwait({signal.SIGUSR1}, s) for s in (.1, .001, .001, .2)]"
    end = run("jifl", "trace", "sys:rt_sigtimedwait", "--longer", "90ms", "-f", "ndjson", "--", "/usr/bin/python3", "-S", "-E", "-c", program)
    durations = [json.loads(line)["duration_ns"] for line in end.stdout.splitlines()]
    check("calls that took longer are shown", len(durations) >= 2 and min(durations) > 90e6, durations)
    check("all of them were seen", end.stderr.startswith("4 calls"), end.stderr)


VALUES = """
import os
f = os.open("/etc/passwd", 0)
os.lseek(f, 17, 0)
os.umask(18)
os.umask(7)
os.getpgid(os.getpid())
os.kill(os.getpid(), 0)
for fails in (lambda: os.lseek(999, 5, 1), lambda: os.getpgid(9999), lambda: os.open("/no/such", 0)):
    try:
        fails()
    except OSError:
        pass
"""
# With page tables of five levels kernel addresses begin at 0xff10000000000000.
POINTER = "0xff[0-9a-f]{14}"
# Lines that are to come in this order: of what is passed and returned by one known program.
SHOWN = [
    r"\[\d+\] sys:lseek = 17  .*",
    r"  ksys_lseek\(fd=3, offset=17, whence=0\) = 17",
    rf" +ovl_llseek\(file={POINTER}, offset=17, whence=0\) \[overlay\] = 17",
    rf" +ovl_real_fdget_meta\(file={POINTER}, real={POINTER}, allow_meta=false\) \[overlay\] = 0",
    rf" +vfs_llseek\(file={POINTER}, offset=17, whence=0\)",
    rf" +generic_file_llseek_size\(file={POINTER}, offset=17, whence=0, maxsize={2 ** 63 - 1}, eof=\d+\) = 17",
    rf"  __x64_sys_umask\(regs={POINTER}\) = \d+",
    rf"  __x64_sys_umask\(regs={POINTER}\) = 18",
    r" +do_getpgid\(pid=(\d+)\) = \d+",
    rf" +find_task_by_vpid\(vnr=\d+\) = {POINTER}",
    rf" +pid_task\(pid={POINTER}, type=PIDTYPE_PID\) = {POINTER}",
    r"  ksys_lseek\(fd=999, offset=5, whence=1\) = -9 \(EBADF\)",
    r" +do_getpgid\(pid=9999\) = -3 \(ESRCH\)",
    r" +find_task_by_vpid\(vnr=9999\) = NULL",
    r" +__radix_tree_lookup\(\?\)",
    rf" +do_filp_open\(dfd=-100, pathname={POINTER}, op={POINTER}\) = ERR_PTR\(-ENOENT\)",
]


def values():
    Path("/run/values.py").write_text(VALUES)
    end = run("jifl", "trace", "-A", "sys:lseek", "sys:umask", "sys:getpgid", "sys:kill", "sys:openat", "--",
              "/usr/bin/python3", "-S", "-E", "/run/values.py")
    check("values are traced", end.returncode == 0 and "records lost 0, calls missed 0" in end.stderr, end.stderr)
    lines = iter(end.stdout[end.stdout.rindex("] sys:lseek = 17  ") - 12:].splitlines())
    for wanted in SHOWN:
        check(f"shown, in its turn: {wanted}", any(re.fullmatch(wanted, line) for line in lines), end.stderr)
    end = run("jifl", "trace", "-A", "-f", "ndjson", "sys:lseek", "--", "/usr/bin/python3", "-S", "-E", "/run/values.py")
    last = json.loads(end.stdout.splitlines()[-1])
    same("and as JSON", last["functions"][1], {"depth": 0, "name": "ksys_lseek", "arguments": {"fd": 999, "offset": 5, "whence": 1},
                                                  "result": -9})


def inside(call):
    """Each function with those that it calls."""
    open_, all_ = [], []
    for function in call["functions"]:
        del open_[function["depth"]:]
        all_.append((function, []))
        if open_:
            open_[-1][1].append(function)
        open_.append(all_[-1])
    return all_


def durations():
    Path("/run/sleeps.py").write_text(trace_forms.SLEEPS)
    # On one CPU: the HPET, which the kernel may count by, tells those that read it together an old
    # time (read_hpet).
    os.sched_setaffinity(0, {0})
    command = ["--", "/usr/bin/python3", "-S", "-E", "/run/sleeps.py"]
    end = run("jifl", "trace", "-d", "sys:rt_sigtimedwait", "sys:newfstatat", "-f", "ndjson", *command)
    check("times are traced", end.returncode == 0 and "records lost 0, calls missed 0" in end.stderr, end.stderr)
    calls = [json.loads(line) for line in end.stdout.splitlines()]
    sleeps = [call for call in calls if call["syscall"] == "rt_sigtimedwait"]
    same("sleeps", len(sleeps), 20)
    known = [f["duration_ns"] for call in calls for f in call["functions"]]
    # Of those that return natively nothing is known.
    check("nearly all have one", sum(took is not None for took in known) > 0.9 * len(known) > 1000,
          (sum(took is not None for took in known), len(known)))
    late = [call for call in calls for f in call["functions"]
            if not call["began_ns"] <= f["began_ns"] <= call["began_ns"] + call["duration_ns"]]
    same("functions begin during their calls", late, [])
    longer = [(f, called) for call in calls for f, called in inside(call)
              if f["duration_ns"] is not None and f["duration_ns"] < sum(c["duration_ns"] or 0 for c in called)]
    same("no function takes less than what it calls", longer, [])
    times = [f["duration_ns"] for call in sleeps for f in call["functions"] if f["name"] == trace_forms.SLEEPER]
    # The counter's rate is measured.
    check("sleeping takes 10 ms", len(times) == 20 and 9_900_000 < min(times), times)
    end = run("jifl", "trace", "--threshold", "10ms", "sys:rt_sigtimedwait", "sys:newfstatat", *command)
    lines = end.stdout.splitlines()
    shown = [re.fullmatch(r"(\S.*)  (\S+) m?s", line.strip()) for line in lines]
    check("what takes longer is shown, with its time", all(shown) and all(10 <= float(line[2]) or line[0].endswith(" s")
                                                                         for line in shown), lines)
    same("among it the sleeps", sum("sys:rt_sigtimedwait" in line for line in lines), 20)
    os.sched_setaffinity(0, set(range(os.cpu_count())))


CLOCKED = """
import os, time
for i in range(400):
    before = time.monotonic_ns()
    os.getpriority(0, 0)
    print(before, time.monotonic_ns())
    if i % 20 == 0:
        time.sleep(.02)
"""


def clock():
    """The times of calls are those of the program's clock, on whichever processor they run."""
    end = run("jifl", "trace", "sys:getpriority", "-f", "ndjson", "-o", "/run/calls", "--", "/usr/bin/python3", "-S", "-E", "-c", CLOCKED)
    program = [tuple(map(int, line.split())) for line in end.stdout.splitlines()]
    calls = [json.loads(line) for line in Path("/run/calls").read_text().splitlines()]
    same("calls of the program", (len(calls), len(program)), (400, 400))
    early = [call["began_ns"] - before for call, (before, _) in zip(calls, program)]
    late = [behind - call["began_ns"] - call["duration_ns"] for call, (_, behind) in zip(calls, program)]
    figure("ns from the program's reading of the clock to the call's, and back, at least", f"{min(early)}, {min(late)}")
    # A counter is compared with the clock to some microseconds.
    check("calls begin and end between them", min(early + late) > -100_000, (sorted(early)[:5], sorted(late)[:5]))


def program():
    compare()
    clock()
    values()
    durations()
    moved()
    folded()
    longer()
    trace_forms.forms()
    one_at_a_time()
    lost()
    same("no session is left", status()["sessions"], [])


main(program)
