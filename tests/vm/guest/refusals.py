# SPDX-License-Identifier: MIT OR Apache-2.0
"""Functions that cannot be targets, and calls that cannot be counted: each with its reason.

usage: refusals.py

The tables are about what host/kernel/enter/function_refuse.c and guard.c refuse. A name that stands there
and not here is an error.
"""

import mmap
import os
import re
import struct
from pathlib import Path

from lib import (DD, REASONS, Device, background, check, complaints, figure, interrupt, kernel_log, log_mark, main, module_file,
                 report, run, same, session, status, wait_for)

ROOT = Path(os.environ["JIFL_ROOT"])
MODULES = Path(module_file()).parent
TRACING = Path("/sys/kernel/tracing")
REFUSE_C = (ROOT / "host/kernel/enter/function_refuse.c").read_text()
NONE, CALL, INSN, BLOCK = 0, 1, 2, 3
LEVELS = ("task", "softirq", "irq")     # as --context has them

# The names that function_refuse.c has for each reason. `*` at the end stands for all names that begin so.
NAMES = {
    "SCHEDULE": "__schedule schedule_tail finish_task_switch __switch_to* ret_from_fork* rewind_stack_and_make_dead",
    "IDLE": """irq_enter* irq_exit* __irq_exit* __do_softirq handle_softirqs do_softirq* do_idle play_idle*
        cpu_startup_entry default_idle* arch_cpu_idle* rest_init""",
    "PATCHING": """text_poke* __text_poke* smp_text_poke* perf_event_text_poke do_sync_core ftrace_* __ftrace_*
        arch_ftrace_* register_ftrace* unregister_ftrace* __SCT__*""",
    "STOP": "stop_machine* stop_cpus* __stop_cpus stop_one_cpu* stop_two_cpus multi_cpu_stop cpu_stop*",
    "RCU_TASKS": "synchronize_rcu_tasks* call_rcu_tasks* rcu_tasks_*",
    "OWN": """unwind_next_frame unwind_get_return_address* __kernel_text_address kernel_text_address
        kallsyms_lookup_buildid perf_instruction_pointer perf_callchain_kernel fixup_exception search_exception_tables
        rethook_* rcu_read_lock_any_held rcu_lockdep_current_cpu_online
        arch_rethook_* objpool_*""",
}
NAMES = {reason: names.split() for reason, names in NAMES.items()}
# Of these some kernels have no function: other versions have, or other configurations.
NOT_EVERYWHERE = set("""smp_text_poke* stop_cpus* __stop_cpus rcu_read_lock_any_held rcu_lockdep_current_cpu_online
    objpool_*""".split())
JUMPS = Path("/sys/module/jifl/parameters/jumps")


class Kernel:
    """Functions of the running kernel, and which have an ftrace site."""

    def __init__(self):
        self.all = {}       # name: addresses
        self.modules = {}   # of modules: name: addresses
        for line in Path("/proc/kallsyms").read_text().splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW" and not name.startswith("__pfx_"):
                (self.modules if module else self.all).setdefault(name, []).append(int(address, 16))
        sites = (TRACING / "available_filter_functions").read_text().splitlines()
        self.with_site = {line.split()[0] for line in sites if "[" not in line}
        blacklist = Path("/sys/kernel/debug/kprobes/blacklist").read_text().splitlines()
        self.blacklist = {line.split("\t")[-1] for line in blacklist}

    def fitting(self, pattern):
        """Names of functions that a line of refuse.c is about: with a site, and all others."""
        plain = pattern.removesuffix("*")
        names = [name for name in self.all if ".cold" not in name and
                 (name.startswith(plain) if pattern.endswith("*") else name.split(".")[0] == plain)]
        return [name for name in names if name in self.with_site], [name for name in names if name not in self.with_site]


def answers(addresses, kind=CALL):
    """What the module says to each function, where it may leave them out.

    Names of reasons; NO: it is a target.
    """
    with Device() as device:
        try:
            device.start_of(kind, [Device.function(address, flags=Device.OPTIONAL) for address in addresses])
        except OSError as error:
            same("no function is left", error.errno, 22)
        return [REASONS[number] for number in device.refused]


def answer(address, kind=CALL, scope=0):
    """What it says to one, and with which error if it may not leave it out."""
    with Device() as device:
        try:
            device.start_of(kind, [Device.target(0, Device.FUNCTION, scope=scope, address=address)])
            return "NO", None
        except OSError as error:
            return REASONS[device.refused[0]], error.errno


EOPNOTSUPP = 95


def names_have_cases():
    """What stands in refuse.c is in the table here, with the same reason."""
    there = {}
    for name, reason in re.findall(r'\{ "(\S+)", JIFL_REFUSED_(\w+) \}', REFUSE_C):
        there.setdefault(reason, []).append(name)
    same("names that are refused", there, NAMES)


def refused_by_name(kernel):
    """Each function of these names is refused, for the reason of its name or for a stronger one.

    A pattern that no function of the kernel fits refuses nothing. Which those are is known.
    """
    absent, without = set(), []
    for reason, patterns in NAMES.items():
        for pattern in patterns:
            names, others = kernel.fitting(pattern)
            if not names + others:
                absent.add(pattern)
                continue
            got = set(answers([address for name in names for address in kernel.all[name]])) if names else set()
            # Of several functions of a name, one may have no site. What is noinstr or switches
            # stacks is known by its text, which is looked at first.
            check(f"{pattern}: {reason}", not got - {reason, "SITE", "NOINSTR", "SCHEDULE"}, (names, got))
            got = set(answers([address for name in others for address in kernel.all[name]])) if others else set()
            check(f"{pattern}, without a site: {reason}", not got - {reason, "NOINSTR", "SCHEDULE", "NATIVE", "UNKNOWN"},
                  (others, got))
            if not names:
                without.append(pattern)
    figure("names of which no function has a site here", without)
    figure("names of which there is no function here", sorted(absent))
    check("all other names are those of functions", absent <= NOT_EVERYWHERE, absent - NOT_EVERYWHERE)


def refused_by_text(kernel):
    """Blacklisted functions, functions without a site, and what is no function."""
    both = sorted(name for name in kernel.blacklist & kernel.with_site if len(kernel.all.get(name, [])) == 1)
    got = dict(zip(both, answers([kernel.all[name][0] for name in both])))
    wrong = {name: reason for name, reason in got.items() if reason not in ("NOINSTR", "SCHEDULE", "OWN")}
    check("functions on the blacklist are refused", len(both) >= 5 and not wrong, (len(both), wrong))
    figure("functions on the blacklist that have a site", len(both))
    # No site, and what stands at the beginning cannot be replaced, or the name says that it may not.
    for name in ("__fentry__", "rcu_is_watching", "cpu_init", "ring_buffer_lock_reserve", "__memcpy", "cmpxchg16b_emu",
                 "lock_acquire", "lock_release"):
        for address in kernel.all.get(name, []):
            if name in kernel.with_site:
                continue
            reason, error = answer(address)
            check(f"{name} has no door", reason in ("SITE", "NOINSTR", "NATIVE", "OWN") and error == EOPNOTSUPP,
                  (reason, error))
    # Others have no site, and a jump can stand there.
    bare = [name for name in ("rb_next", "rb_erase", "vsnprintf") if name not in kernel.with_site]
    same("functions with a jump", {name: answer(kernel.all[name][0]) for name in bare}, dict.fromkeys(bare, ("NO", None)))
    check("there are some", bare)
    begin = kernel.all["vfs_read"][0]
    with mmap.mmap(-1, 4096) as memory:
        memory[0] = 0xc3
        others = {"the middle of a function": begin + 16, "its site": begin + 1, "address 0": 0, "user space": 0x400000,
                  "a hole": (1 << 63) + 4096, "data": data_of_kernel(), "the last byte": (1 << 64) - 1}
        for what, address in others.items():
            reason, error = answer(address)
            check(f"{what} is no function", reason in ("UNKNOWN", "SITE") and error == EOPNOTSUPP, (reason, error))
    own = [addresses[0] for name, addresses in kernel.modules.items() if name.startswith("jifl_")]
    got = set(answers(own))
    check("the module's own functions", "NO" not in got and len(own) > 50, (len(own), got))


def data_of_kernel():
    """The address of a variable."""
    text = Path("/proc/kallsyms").read_text()
    return int(re.search(r"^(\w+) [dDbB] jiffies", text, re.M)[1], 16)


def refused_because_of_others(kernel):
    """A function whose site another tracer has is none (owned.py has one that is); the session's list."""
    function = "cmdline_proc_show"
    address = kernel.all[function][0]
    same("another tracer comes", run("insmod", MODULES / "jifl_direct.ko", f"function={function}").returncode, 0)
    same("its function is entered behind the site", answer(address), ("NO", None))
    same("it goes", run("rmmod", "jifl_direct").returncode, 0)
    same("its function is none that is refused", answer(address), ("NO", None))
    with Device() as device:
        device.start_of(CALL, [Device.function(address)])
        end = run("insmod", MODULES / "jifl_direct.ko", f"function={function}")
        check("nor can another tracer have a session's function", end.returncode != 0, end)


def refused_without_jumps(kernel):
    """With jumps=0 a function without a site has no door, nor has one whose site another tracer has."""
    taken, bare = kernel.all["cmdline_proc_show"][0], kernel.all["rb_next"][0]
    check("rb_next has no site", "rb_next" not in kernel.with_site)
    JUMPS.write_text("0")
    same("another tracer comes", run("insmod", MODULES / "jifl_direct.ko", "function=cmdline_proc_show").returncode, 0)
    same("jumps=0: its function", answer(taken), ("TAKEN", EOPNOTSUPP))
    same("jumps=0: a function without a site", answer(bare), ("SITE", EOPNOTSUPP))
    same("jumps=0: both beside one with a site", answers([kernel.all["version_proc_show"][0], taken, bare]), ["NO", "TAKEN", "SITE"])
    for name, words in (("cmdline_proc_show", "another tracer has its fentry site"), ("rb_next", "it has no call of the tracer")):
        end = run("jifl", "count", "call", f"fn:{name}", "--for", "100ms")
        check(f"jumps=0: {name} is refused in one line", end.returncode == 1 and end.stderr.count("\n") == 1 and
              words in end.stderr, end)
    same("it goes", run("rmmod", "jifl_direct").returncode, 0)
    same("jumps=0: a function that has its site", answer(taken), ("NO", None))
    JUMPS.write_text("1")
    same("with jumps again", answer(bare), ("NO", None))


def refused_because_of_scope(kernel):
    """A function is entered with what it calls, or without: for all sessions at a time."""
    for name in ("do_getpgid", "rb_next"):
        address = kernel.all[name][0]
        for first in (0, Device.ONLY):
            with Device() as device:
                device.start_of(CALL, [Device.target(0, Device.FUNCTION, scope=first, address=address)])
                same(f"{name} in scope {first}, then in the other", answer(address, scope=Device.ONLY - first), ("SCOPE", EOPNOTSUPP))
                same(f"{name} in scope {first}, then in the same", answer(address, scope=first), ("NO", None))


def refused_because_of_a_livepatch(kernel):
    """A function that is livepatched: refused alone, left out of a glob."""
    livepatch = Path("/sys/kernel/livepatch/jifl_livepatch")
    if not livepatch.parent.exists():
        return
    patched, other = (kernel.all[f"{name}_proc_show"][0] for name in ("cmdline", "version"))
    same("the livepatch loads", run("insmod", MODULES / "jifl_livepatch.ko").returncode, 0)
    wait_for("the livepatch", lambda: (livepatch / "transition").read_text() == "0\n", 120)
    same("its function is refused", answer(patched), ("PATCHED", EOPNOTSUPP))
    same("with another one, it alone", answers([other, patched, other + 16])[:2], ["NO", "PATCHED"])
    end = run("jifl", "count", "call", "fn:cmdline_proc_show", "--for", "100ms")
    check("in one line", end.returncode == 1 and end.stderr.count("\n") == 1 and "a live patch" in end.stderr, end)
    owner = session("call", "fn:*_proc_show", "-p", os.getpid(), "-f", "json")
    for _ in range(5):
        Path("/proc/version").read_text()
        same("the livepatch takes effect", Path("/proc/cmdline").read_text(), "patched\n")
    out, err = interrupt(owner)
    if check("a glob with it is counted", owner.returncode == 0, err):
        data = report(out)
        same("the others are counted", data["by_name"]["version_proc_show"]["calls"], 5)
        check("it is left out", "cmdline_proc_show" not in data["by_name"], data["by_name"])
        same("and said to be", [count for why, count in data["functions"]["left_out"].items() if "live patch" in why],
             [1])
    (livepatch / "enabled").write_text("0")
    wait_for("the end of the livepatch", lambda: not livepatch.exists() and run("rmmod", "jifl_livepatch").returncode == 0,
             120)
    same("its function is none that is refused", answer(patched), ("NO", None))


def malformed(kernel):
    """Lists that are wrong."""
    address = kernel.all["vfs_read"][0]
    good = Device.function(address)
    cases = {"a function twice": [good, good],
             "a function with a number": [Device.target(5, Device.FUNCTION, address=address)],
             "a function with an unknown scope": [Device.target(0, Device.FUNCTION, scope=2, address=address)],
             "a system call alone": [Device.target(39, scope=1)],
             "functions of two scopes": [Device.target(0, Device.FUNCTION, scope=1, address=address),
                                         Device.function(kernel.all["vfs_write"][0])],
             "a function with unknown flags": [Device.function(address, flags=1 << 3)],
             "a function whose name does not end": [Device.target(0, Device.FUNCTION, address=address, name=b"x" * 64)],
             "a system call with flags": [Device.target(39, flags=1)],
             "no function that can be entered": [Device.function(address + 16, flags=1)]}
    with Device() as device:
        for what, targets in cases.items():
            try:
                device.start_of(CALL, targets)
                error = None
            except OSError as caught:
                error = caught.errno
            same(f"{what} is refused", error, 22)
        same("no session is left of these", device.sessions(), 0)
        # The others stay in their places.
        device.start_of(CALL, [Device.function(address + 16, flags=1), good, Device.target(39)])
        same("one is left out", [REASONS[number] for number in device.refused], ["UNKNOWN", "NO", "NO"])
        os.getpid()
        same("and has no figures", device_error(lambda: device.stat_of(0)), 2)
        check("the others have", struct.unpack_from("<8xQ", device.stat_of(2))[0] >= 1, device.stat_of(2))


def device_error(function):
    """The error with which it fails."""
    try:
        function()
    except OSError as error:
        return error.errno
    return None


def command_says_why(kernel):
    """Each refusal is one line with the function and the reason; nothing is changed."""
    cases = [("fn:memcpy", "cannot be a target: it has no call of the tracer", 1),
             ("fn:unwind_next_frame", "cannot be a target: ", 1),
             ("fn:multi_cpu_stop", "cannot be a target: it stops the machine", 1),
             ("fn:vfs_reed", "no such function; the nearest are fn:vfs_read", 2),
             ("fn:vfs_read@nfsd", "no module nfsd has functions here", 2),
             ("fn:vfs_read.cold", "a part of a function", 2), ("mod:jifl", "JIFL needs its own functions", 2),
             ("mod:nothing", "no module nothing has functions here", 2), ("fn:", "no such function", 2),
             ("fn:*", "functions match; each call of each of them", 2)]
    for word, words, code in cases:
        end = run("jifl", "count", "call", word, "--for", "100ms")
        check(f"{word} is refused in one line", end.returncode == code and end.stderr.count("\n") == 1 and
              words in end.stderr and not end.stdout, end)
    for words in (["trace"], ["why"], ["mem"], ["lock"], ["record"], ["prof"], ["cover"], ["branch"], ["dump"],
                  ["count", "opcode"], ["count", "hist:retval"]):
        for word, hint in (("fn:vfs_reed", "no such function"), ("fn:*", "functions match; each call of each")):
            end = run("jifl", *words, word, "--for", "100ms")
            check(f"{' '.join(words)} {word} is refused in one line", end.returncode == 2 and
                  end.stderr.count("\n") == 1 and hint in end.stderr, end)
    end = run("jifl", "count", "call", "fn:*stop*", "-f", "json", "--for", "200ms")
    if check("a glob leaves out what cannot be entered", end.returncode == 0, end):
        left_out = report(end.stdout)["functions"]["left_out"]
        check("and says how many, and why", left_out.get("it stops the machine", 0) > 0, left_out)
    Path("/proc/sys/kernel/kptr_restrict").write_text("2")
    end = run("jifl", "count", "call", "fn:vfs_read", "--for", "100ms")
    check("hidden addresses are told", end.returncode == 3 and "kptr_restrict" in end.stderr and
          end.stderr.count("\n") == 1, end)
    Path("/proc/sys/kernel/kptr_restrict").write_text("0")
    same("nothing is left of these", status()["sessions"], [])


# --- guards: calls that pass natively, and are counted as missed --------------------------------


def while_counting(names, action, kernel, *scope):
    """Counts functions, which need not all exist, while something is done; their rows by name."""
    words = [f"fn:{name}@vmlinux" for name in names if name in kernel.with_site]
    if not check(f"one of {names} is there", words):
        return {}
    owner = session("call", *words, "-f", "json", *scope)
    action()
    data = report(interrupt(owner)[0])
    return data["by_name"]


def sums(rows):
    """Of all rows: calls counted, and missed by cause."""
    causes = {}
    for row in rows.values():
        for cause, count in row["missed_by"].items():
            causes[cause] = causes.get(cause, 0) + count
    return sum(row["calls"] for row in rows.values()), causes


def nmis():
    """NMIs ask all processors for their stacks (sysrq l). Those that are not idle print them."""
    spinners = [spinner() for _ in range(os.cpu_count())]
    for _ in range(5):
        Path("/proc/sysrq-trigger").write_text("l")
    for process in spinners:
        process.kill()
        process.communicate()


def spinner():
    """A process that never sleeps."""
    return background("/bin/sh", "-c", "while :; do :; done")


def moves():
    """Tasks that run are moved between processors, by the stopper."""
    process = spinner()
    for n in range(20):
        os.sched_setaffinity(process.pid, {n % os.cpu_count()})
        run("sleep", "0.05")
    process.kill()
    process.communicate()


def sleep():
    """The processors are idle."""
    run("sleep", "1")


def work():
    """New code is translated, in another session."""
    run("jifl", "count", "insn", "sys:*", "-f", "json", "--", *DD)


# Of one byte, each with a record; and by others.
READS, OTHERS = 1000, 50

# Functions, what is done while they are counted, and why calls of them are missed. Of functions
# that always run where they cannot be counted none is. (The processor that asks the others for
# their stacks shows its own without an NMI.)
GUARDS = {
    "nmi": (["show_regs", "show_stack", "show_trace_log_lvl", "nmi_cpu_backtrace"], nmis, False),
    "idle": (["tick_nohz_idle_enter", "tick_nohz_idle_stop_tick", "tick_nohz_idle_exit", "cpuidle_select",
              "menu_select"], sleep, True),
    "stopper": (["migration_cpu_stop", "__migrate_task"], moves, False),
    "own": (["_raw_spin_lock", "copy_from_kernel_nofault"], work, False),
}


def guards(kernel):
    """Each guard has a case: calls are missed with the guard's name, and none is counted."""
    for cause, (names, action, always) in GUARDS.items():
        rows = while_counting(names, action, kernel)
        counted, causes = sums(rows)
        figure(f"{cause}: counted, missed", (counted, causes))
        check(f"{cause}: calls are missed so", causes.get(cause, 0) > 0, (names, rows))
        if always:
            same(f"{cause}: none is counted", counted, 0)


def known_stack(kernel):
    """What a program of a place calls is the module's own, also on a stack that has come by a door.

    The door must lead straight to a piece: a call that is not the module's own makes that.
    """
    event = TRACING / "events/refusals/first/enable"

    def probe():
        (TRACING / "kprobe_events").write_text("p:refusals/first vfs_read first=+u0(%si):x64\n")
        event.write_text("1")
        run("dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={OTHERS}")
        event.write_text("0")
        (TRACING / "kprobe_events").write_text("")
        end = run("jifl", "probe", "fn:vfs_read", "--record", "first=*(u64 *)buf", "--", "dd", "if=/dev/zero",
                  "of=/dev/null", "bs=1", f"count={READS}")
        same("a probe that reads a program's memory", end.returncode, 0)

    counted, causes = sums(while_counting(["copy_from_user_nofault"], probe, kernel))
    figure("own, by a program: counted, missed", (counted, causes))
    check("a program's calls are missed", causes.get("own", 0) >= READS, (counted, causes))
    check("and not counted; calls by others are", OTHERS <= counted < READS, (counted, causes))


# Functions that run in one context alone.
IN_CONTEXT = {
    "softirq": ["run_timer_softirq", "rcu_core", "__run_timers", "tasklet_action_common"],
    "irq": ["hrtimer_interrupt", "update_process_times", "scheduler_tick", "sched_tick"],
}


def not_guarded(kernel):
    """Calls in softirqs and interrupts are counted, also of idle processors; no others."""
    for context, names in IN_CONTEXT.items():
        for asked in LEVELS:
            counted, causes = sums(while_counting(names, sleep, kernel, "--context", asked))
            figure(f"functions of {context}, --context {asked}: counted, missed", (counted, causes))
            check(f"functions of {context}, --context {asked}", (counted > 0) == (asked == context), (counted, causes))
            # A function inside another one's call is counted, too.
            same(f"functions of {context}, --context {asked}: missed", causes, {})


def refusals():
    mark = log_mark()
    kernel = Kernel()
    names_have_cases()
    refused_by_name(kernel)
    refused_by_text(kernel)
    refused_because_of_others(kernel)
    refused_without_jumps(kernel)
    refused_because_of_scope(kernel)
    refused_because_of_a_livepatch(kernel)
    malformed(kernel)
    command_says_why(kernel)
    lines = kernel_log(mark)    # NMIs write much
    guards(kernel)
    known_stack(kernel)
    not_guarded(kernel)
    same("the module has nothing to say", complaints(lines), [])
    same("no session is left", status()["sessions"], [])


if __name__ == "__main__":
    main(refusals)
