# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests that cannot be: each is refused in one line that says why, and changes nothing.

usage: bad_input.py

Nothing changed: ftrace's list of sites that are switched on, the list of kprobes, the bytes of the
functions that were named, who holds the module, and sessions are the same before and after.
"""

from pathlib import Path

from contexts import MODULE, call, target_of
from kcore import kernel_memory
from lib import Device, check, complaints, interrupt, kernel_log, log_mark, main, report, run, same, session, status
from refusals import CALL, Kernel

SITES = Path("/sys/kernel/tracing/enabled_functions")
KPROBES = Path("/sys/kernel/debug/kprobes/list")
HIDDEN = Path("/proc/sys/kernel/kptr_restrict")
LOCKDOWN = Path("/sys/kernel/security/lockdown")
WORK = "fn:contexts_work"
# With and without a site, of the kernel and of a module, and what system calls come by.
LOOKED_AT = ("vfs_read", "vfs_write", "do_getpgid", "rb_next", "rb_erase", "x64_sys_call", "do_syscall_64", "net_rx_action",
             "kswapd", "contexts_work", "contexts_bare", "contexts_recurse")
BYTES = 64

# Words of `jifl count call`, what the line must have, and the exit status if it is not 2.
OPTIONS = [
    ([WORK, "--adopt", "--no-adopt"], "'--adopt' cannot be used with '--no-adopt'"),
    ([WORK, "--context", "irq", "--under", "sys:write"], "under no system call"),
    ([WORK, "--context", "softirq,irq", "--under", "sys:*"], "under no system call"),
    ([WORK, "--context", "irq", "-p", "1"], "no task's"),
    ([WORK, "--context", "noon"], "invalid value 'noon' for '--context"),
    (["sys:write", "--under", WORK], "--under is about calls of functions"),
    (["sys:write", "--only"], "--only is about functions"),
    ([WORK, "--under", "sys:wriet"], "sys:write"),
    ([WORK, "--under", "fn:contexts_worc"], "fn:contexts_work"),
    ([WORK, "-p", "0"], "no process or thread 0", 1),
    ([WORK, "-p", "-3"], "unexpected argument '-3'"),
    ([WORK, "--cgroup", "/no/such/group"], "no cgroup (of version 2) there", 1),
    ([WORK, "--for", "soon"], "is no unit of time"),
    ([WORK, "--by", "moon"], "invalid value 'moon' for '--by"),
    ([WORK, "--adopt", "--", "true"], "--adopt is about tasks"),
]
# Words that are no targets, and what the line must have.
TYPOS = [
    ("work:work_itme@jifl_contexts", "the nearest are work:work_item@jifl_contexts"),
    ("timer:timer_fucntion", "the nearest are timer:timer_function"),
    ("timer:timer_function@jifl_contex", "the nearest are timer:timer_function@jifl_contexts"),
    ("mod:jifl_context", "the nearest are mod:jifl_contexts"), ("work:", "no such function"), ("timer:", "no such function"),
    ("mod:", "no module"), ("work:*", "name one function"), ("timer:timer_*", "name one function"), ("mod:*", "narrower pattern"),
    ("wrok:work_item", "targets are system calls"), ("kthread:kswopd0", "the nearest are kthread:kswapd0"),
    ("irq:nosuch", "no such interrupt of a device"), ("softirq:TIMRE", "the nearest are softirq:TIMER"),
    ("sys:raed", "the nearest are sys:read"), ("fn", "targets are system calls"), ("", "targets are system calls"),
]


class State:
    """What a request that is refused must leave as it is."""

    def __init__(self, kernel):
        functions = {name: (kernel.all.get(name) or kernel.modules.get(name) or [0])[0] for name in LOOKED_AT}
        self.functions = {name: address for name, address in functions.items() if address}

    def now(self):
        return {"sites": SITES.read_text(), "kprobes": KPROBES.read_text(),
                "text": {name: kernel_memory([(address, BYTES)])[0].hex() for name, address in self.functions.items()},
                "holders": Path("/sys/module/jifl/refcnt").read_text(), "sessions": len(status()["sessions"])}

    def same(self, name, before):
        after = self.now()
        check(f"{name}: nothing has changed", after == before,
              {what: (before[what], after[what]) for what in before if before[what] != after[what]})


def refused(state, words, hint, code=2):
    """A command is refused in one line, and leaves nothing behind.

    Behind that line the parser of the command line has the usage.
    """
    before = state.now()
    end = run("jifl", *words)
    line, _, more = end.stderr.partition("\n")
    said = line.startswith("jifl: ") and not more or line.startswith("error: ") and "try '--help'" in more
    check(f"{' '.join(words)!r} is refused in one line", end.returncode == code and said and hint in line and not end.stdout, end)
    state.same(" ".join(words), before)


def options(state):
    for words, hint, *code in OPTIONS:
        end = [] if "--for" in words or "--" in words else ["--for", "100ms"]
        refused(state, ["count", "call", *words[:1], *end, *words[1:]], hint, *code)


def allowed():
    """What looks alike, and means something."""
    for scope, of_made in ((["--only", "--under", "sys:write"], 1), (["--only", "--under", WORK], 0), (["--under", WORK], 0),
                           (["--context", "task", "--under", "sys:write"], 1), (["--no-adopt", "--under", "sys:write"], 1)):
        owner = session("call", WORK, *scope, "-f", "json")
        made = call("task")["task"]
        got = target_of(report(interrupt(owner)[0]), "contexts_work")
        same(f"{scope}: calls, missed", (got["calls"], got["missed_by"]), (made * of_made, {}))


def typos(state):
    for word, hint in TYPOS:
        refused(state, ["count", "call", word, "--for", "100ms"], hint)


def requests(state, kernel):
    """The device's own: lists that are wrong, of which a part is right."""
    good = Device.function(kernel.all["vfs_read"][0])
    cases = {"a function and what is none": [good, Device.function(kernel.all["vfs_write"][0] + 16)],
             "a function twice": [good, good],
             "a function without a site and what is none": [Device.function(kernel.all["rb_next"][0]), Device.function(16)]}
    for name, targets in cases.items():
        before = state.now()
        with Device() as device:
            try:
                device.start_of(CALL, targets)
                check(f"{name} is refused", False)
            except OSError as error:
                check(f"{name} is refused", error.errno in (22, 95), error)
            state.same(name, before | {"holders": f"{int(before['holders']) + 1}\n"})


def hidden_addresses(state):
    """With kptr_restrict nothing can be found by name."""
    before = HIDDEN.read_text()
    HIDDEN.write_text("2")
    for words in (["count", "call", WORK, "--for", "100ms"], ["count", "call", "kthread:kswapd0", "--for", "100ms"],
                  ["count", "call", "softirq:TIMER", "--for", "100ms"], ["count", "call", "irq:*", "--for", "100ms"],
                  ["count", "call", "work:work_item@jifl_contexts", "--for", "100ms"],
                  ["count", "call", "mod:jifl_contexts", "--for", "100ms"],
                  ["count", "call", "sys:write", "--under", WORK, "--for", "100ms"],
                  ["list", "fn:vfs_read"], ["list", "softirq:"], ["list", "irq:"], ["list", "kthread:"]):
        refused(state, words, "kptr_restrict", 3)
    HIDDEN.write_text(before)
    same("and then it can", run("jifl", "count", "call", WORK, "--for", "100ms").returncode, 0)


def locked_down(state):
    """A session that runs goes on with its doors, and ends as ever. None can begin."""
    mark = log_mark()
    owners = [session("call", WORK, "-f", "json"), session("insn", "fn:contexts_bare", "-f", "json")]
    made = [call("task")["task"], call("bare-task")["task"]]
    LOCKDOWN.write_text("integrity")
    for words in (["count", "call", WORK, "--for", "100ms"], ["count", "call", "fn:rb_next", "--for", "100ms"],
                  ["count", "insn", "fn:vfs_read", "--for", "100ms"], ["count", "call", "softirq:TIMER", "--for", "100ms"],
                  ["trace", "fn:vfs_read", "--for", "100ms"]):
        refused(state, words, "lockdown", 3)
    made = [number + call(context)["task"] for number, context in zip(made, ("task", "bare-task"))]
    for owner, name, number in zip(owners, ("contexts_work", "contexts_bare"), made):
        got = target_of(report(interrupt(owner)[0]), name)
        same(f"a session of {name} that runs then: calls, missed", (got["calls"], got["missed_by"]), (number, {}))
    call("task")
    lines = [line for line in complaints(kernel_log(mark)) if "kernel lockdown forbids" not in line]
    same("the log has nothing else", lines, [])


def bad_input():
    same("the module with the contexts", run("insmod", MODULE).returncode, 0)
    # A first session has what stays: pages of the cache, and the kernel's own tables.
    for function in (WORK, "fn:contexts_bare"):
        same(f"{function} is a target", run("jifl", "count", "call", function, "--for", "100ms").returncode, 0)
    kernel = Kernel()
    state = State(kernel)
    mark = log_mark()
    first = state.now()
    options(state)
    allowed()
    typos(state)
    requests(state, kernel)
    hidden_addresses(state)
    state.same("all of it", first)
    same("the log has nothing", complaints(kernel_log(mark)), [])
    locked_down(state)
    state.same("with what was locked down", first)
    same("no session is left", status()["sessions"], [])


if __name__ == "__main__":
    main(bad_input)
