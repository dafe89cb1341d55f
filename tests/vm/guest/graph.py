# SPDX-License-Identifier: MIT OR Apache-2.0
"""What functions call in tasks, softirqs and interrupts, as `jifl trace` sees it, compared with the kernel's own
function_graph tracer: the same functions in the same order.

usage: graph.py

The functions are those of the module jifl_contexts that are called in known contexts. They call functions of the
module and of the kernel, which may go either of several ways. So of each the commonest must be in both.
"""

import json
import re
from collections import Counter, defaultdict
from difflib import unified_diff
from pathlib import Path

from contexts import MODULE, call
from lib import check, ends_clean, figure, interrupt, log_mark, main, run, same, session, status

TRACING = Path("/sys/kernel/tracing")
OUT = Path("/run/graph")
# The function that each context of the module calls, with calls below it.
ROOTS = {"task": "run_task", "preempt-off": "run_preempt_off", "bh-off": "run_bh_off", "irq-off": "run_irq_off",
         "spinlock": "run_spinlock", "kthread": "work", "work": "work_item", "timer": "timer_function",
         "tasklet": "tasklet_function", "hrtimer": "hrtimer_function", "irq-work": "irq_work_function",
         "ipi": "ipi_function", "nested": "irq_work_function", "aside": "contexts_aside", "many": "contexts_many"}
# Those in hard interrupts. For the others function_graph leaves out what interrupts call.
IRQS = ("hrtimer", "irq-work", "ipi", "nested")
ROUNDS = 10     # at most, until each context's commonest sequences are in both


def sequences(lines, root):
    """Names of the functions in each call of the root, by function_graph; a processor's lines are in order."""
    found, now = [], defaultdict(list)
    for line in lines:
        entered = re.match(r"\s*(\d+)\).*\|( +)([\w.]+)(?: \[\w+\])?\(", line)
        if not entered:
            continue
        cpu, indent, name = entered.groups()
        if len(indent) == 2:
            now[cpu] = []
            if name == root:
                found.append(now[cpu])
        now[cpu].append(name)
    return map(tuple, found)


def graphs(contexts):
    """What each context's functions call, by function_graph."""
    seen = {}
    (TRACING / "current_tracer").write_text("function_graph")
    for context in contexts:
        (TRACING / "options/funcgraph-irqs").write_text("1" if context in IRQS else "0")
        (TRACING / "set_graph_function").write_text(ROOTS[context])
        (TRACING / "trace").write_text("")
        (TRACING / "tracing_on").write_text("1")
        call(context)
        (TRACING / "tracing_on").write_text("0")
        seen[context] = Counter(sequences((TRACING / "trace").read_text().splitlines(), ROOTS[context]))
    (TRACING / "current_tracer").write_text("nop")
    return seen


def traces(contexts, traceable):
    """The same by `jifl trace`, of functions that function_graph can see."""
    seen = {}
    for context in contexts:
        owner = session(f"fn:{ROOTS[context]}@jifl_contexts", "-o", OUT, "-f", "ndjson", command="trace")
        call(context)
        _, err = interrupt(owner)
        check(f"{context}: nothing is lost", owner.returncode == 0 and "records lost 0, calls missed 0" in err, err)
        named = ([function["name"].split(" ")[0] for function in json.loads(line)["functions"]]
                 for line in OUT.read_text().splitlines())
        seen[context] = Counter(tuple(name for name in names if name in traceable) for names in named)
    return seen


def commonest(seen):
    return seen.most_common(1)[0][0] if seen else ()


def are_alike(theirs, ours):
    """Which of two ways is the commoner may differ between two runs, but neither is in one only."""
    return theirs and ours and commonest(theirs) in ours and commonest(ours) in theirs


def program():
    mark = log_mark()
    same("the module comes", run("insmod", MODULE).returncode, 0)
    run("mount", "-t", "tracefs", "none", str(TRACING))
    (TRACING / "tracing_on").write_text("0")
    (TRACING / "buffer_size_kb").write_text("8192")
    traceable = {line.split()[0] for line in (TRACING / "available_filter_functions").read_text().splitlines()}
    theirs, ours = ({context: Counter() for context in ROOTS} for _ in range(2))
    left = list(ROOTS)
    for _ in range(ROUNDS):
        for seen, more in ((theirs, graphs(left)), (ours, traces(left, traceable))):
            for context in left:
                seen[context].update(more[context])
        left = [context for context in left if not are_alike(theirs[context], ours[context])]
        if not left:
            break
    for context in ROOTS:
        check(f"{context}: the same functions in the same order", are_alike(theirs[context], ours[context]),
              list(unified_diff(commonest(theirs[context]), commonest(ours[context]), "function_graph", "jifl", n=3, lineterm="")))
    figure("functions compared in order", {context: len(commonest(ours[context])) for context in ROOTS})
    (TRACING / "set_graph_function").write_text("")
    same("no session is left", status()["sessions"], [])
    same("the module goes", run("rmmod", "jifl_contexts").returncode, 0)
    ends_clean([], mark)


main(program)
