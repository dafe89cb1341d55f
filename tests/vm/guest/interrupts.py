# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interrupts, NMIs, signals, tracers and filters meet instrumented system calls.

usage: interrupts.py EVENTS SAMPLER PERIOD

EVENTS prints the same as natively, also while SAMPLER interrupts all CPUs every PERIOD nanoseconds.
The call chains that the interrupts find are whole, and name only functions of the kernel.
"""

import bisect
import os
import re
import threading
import time
from pathlib import Path

from lib import (SLOWNESS, check, figure, interrupt, kernel_log, log_mark, main, report, run, same, session,
                 status)
from levels import targets_everywhere

# Where a chain of the kernel ends.
ENDS = ("entry_SYSCALL_64", "asm_", "ret_from_fork", "error_entry", "common_interrupt", "entry_INT80",
        "entry_SYSENTER", "secondary_startup", "syscall_return_via_sysret",
        "swapgs_restore", "restore_regs", "native_iret", "paranoid_", "error_return", "rewind_stack")


# Where nobody can go on, natively neither: code that the unwinder has no data for. And
# the dispatcher's first instructions, before it switches interrupts off.
STOPS = ("__x86_indirect_thunk", "image", "jifl_dispatch_")


# What is counted, and whether all CPUs are asked for their stacks meanwhile: system calls, functions
# that interrupts call, the sampler's own among these, and each function of the kernel for itself.
CALLS, BODIES = ["sys:*"], ["fn:*", "--only", "--yes"]


# While a function's return is being hooked, or comes back by its hook, its caller is not known for a
# few instructions: the trampoline stands on the stack, and no record of it. So it is with kretprobes.
HOOKING = ("rethook_hook", "arch_rethook_")


class Symbols:
    """The kernel's functions, by address."""

    def __init__(self):
        found = []
        for line in Path("/proc/kallsyms").read_text().splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                found.append((int(address, 16), " ".join([name, *module])))
        found.sort()
        self.starts = [address for address, _ in found]
        self.names = [name for _, name in found]

    def name(self, ip):
        """The function at ip; an image, a BPF program's, where there is none far and wide."""
        i = bisect.bisect_right(self.starts, ip) - 1
        return self.names[i] if ip - self.starts[i] < 65536 else "image"


def code_cache():
    """Where the code cache is: the largest area of the modules' part of the address space."""
    areas = []
    for line in Path("/proc/vmallocinfo").read_text().splitlines():
        start, end = (int(address, 16) for address in line.split()[0].split("-"))
        if start >= 0xffffffff80000000:
            areas.append(range(start, end))
    cache = max(areas, key=len)
    check("the code cache is found", len(cache) > status()["code_size"], areas)
    return cache


def sampled(sampler, period, *words):
    """The command's end, what it printed, and the chains that were seen meanwhile."""
    end = run(sampler, period, *words, timeout=300)
    chains = []
    for line in end.stderr.splitlines():
        if line.startswith("chain "):
            count, *ips = line.split()[1:]
            chains.append((int(count), [int(ip, 16) for ip in ips]))
    return end, chains


def judge(title, chains, rarely=50):
    """Counts of samples, and of those whose chain ends before the entry, for no known reason.

    Of so many samples one may stop where none can go on.
    """
    symbols, cache = Symbols(), code_cache()
    total = sum(count for count, _ in chains)
    inside, broken, stopped = [], {}, 0
    for count, ips in chains:
        names = [symbols.name(ip) for ip in ips]
        inside += [hex(ip) for ip in ips if ip in cache]
        if names[-1].startswith(ENDS):
            continue
        if names[-1].startswith(STOPS) or any(name.startswith(HOOKING) for name in names):
            stopped += count
        else:
            chain = " <- ".join([*names[:4], "...", names[-1]])
            broken[chain] = broken.get(chain, 0) + count
    worst = sorted(broken.items(), key=lambda item: -item[1])[:12]
    figure(title, f"{total} samples, {len(chains)} chains, {stopped} stop where none can go on, "
           f"{sum(broken.values())} elsewhere before the entry: {worst}")
    check(f"{title}: hardly any stops", stopped < total / rarely, (stopped, total))
    same(f"{title}: addresses of the code cache", inside[:20], [])
    return total, sum(broken.values())


def storms(events, sampler, period):
    native = run(events)
    check("works natively", native.returncode == 0 and native.stdout.endswith("done\n"), native)
    end, chains = sampled(sampler, period, events)
    same("works natively when sampled", (end.returncode, end.stdout), (0, native.stdout))
    natively = judge("natively", chains)
    cases = [("insn", CALLS, True), ("block", CALLS, False), ("insn", targets_everywhere(), True)]
    # With checks of its own a kernel takes minutes for all functions: test_only has them.
    cases += [("call", BODIES, True)] if SLOWNESS == 1 else []
    for kind, targets, asked in cases:
        what = f"{kind} {targets[0]}"
        owner = session(kind, *targets, "-f", "json")
        if asked:
            end = run(events)
            same(f"{what}: the same", (end.returncode, end.stdout), (0, native.stdout))
        end, chains = sampled(sampler, period, events)
        same(f"{what}, sampled: the same", (end.returncode, end.stdout), (0, native.stdout))
        total, broken = judge(what, chains, 50 if targets is CALLS else 20)
        check(f"{what}: there were many samples", total > 500, total)
        check(f"{what}: chains are as whole as natively",
              broken / total <= natively[1] / natively[0] + 0.001, (broken, total, natively))
        if asked:
            nmis(events)
        data = report(interrupt(owner)[0])
        calls = sum(target["calls"] for target in data["targets"])
        check(f"{what}: calls were counted", calls > 1000, calls)
        figure(f"{what}: calls, missed", (calls, data["missed_by"]))
    same("no session is left", status()["sessions"], [])


def nmis(events):
    """All CPUs are asked for their stacks by NMIs, while they work."""
    over = threading.Event()
    rounds = 0

    def load():
        end = run(events)
        check("under NMIs: it works", end.returncode == 0 and end.stdout.endswith("done\n"), end)
        over.set()

    Path("/proc/sys/kernel/printk").write_text("1")
    worker = threading.Thread(target=load)
    worker.start()
    while not over.is_set():
        Path("/proc/sysrq-trigger").write_text("l")
        rounds += 1
        time.sleep(0.05)
    worker.join()
    lines = kernel_log()
    rips = [line for line in lines if "RIP: 0010:" in line]
    # Trampolines of ftrace have no name natively, either; where stacks are walked all the time,
    # ours are met.
    cache = code_cache()
    nameless = [line for line in rips if (ip := re.search("0010:(0x[0-9a-f]+)", line)) and int(ip[1], 16) in cache]
    if os.cpu_count() > 1:
        check("NMIs met the kernel", rips, rounds)
        same("places are named", nameless, [])
    figure("NMIs", f"{rounds} rounds, {len(rips)} in the kernel")


def program(events, sampler, period):
    mark = log_mark()
    # 1 shows addresses to us, 0 hides them from all in some files.
    Path("/proc/sys/kernel/kptr_restrict").write_text("1")
    Path("/proc/sys/kernel/perf_cpu_time_max_percent").write_text("0")
    storms(events, sampler, period)
    # Stacks were asked for, with fd_install and the like in them. Of data races, those of the
    # kernel's own are not ours to judge.
    same("the kernel's log has nothing worse than stacks",
         [line for line in kernel_log(mark) if re.search(r"WARNING:|BUG[: ]|Oops|\bstalls?\b|\blockup\b", line)
          and ("KCSAN" not in line or "jifl" in line)], [])


main(program)
