# SPDX-License-Identifier: MIT OR Apache-2.0
"""What memory the kernel uses, to see that it is given back."""

import contextlib
import os
import re
from pathlib import Path

THREAD_STACK = 5 * 4096  # and its guard page


def vmalloc():
    """Pages of vmalloc and module areas by caller, but for threads' stacks."""
    pages = {}
    for line in Path("/proc/vmallocinfo").read_text().splitlines():
        words = line.split()
        caller = words[2].partition("+")[0] if len(words) > 2 and not words[2].startswith("pages") else "?"
        # Freed, of which only the addresses are not yet: "unpurged vm_area".
        if caller in ("kernel_clone", "dup_task_struct", "copy_process", "unpurged"):
            continue
        # Of a thread that an instrumented call made: its caller is an address of the code cache.
        if caller.startswith("0x") and int(words[1]) == THREAD_STACK:
            continue
        pages[caller] = pages.get(caller, 0) + int(words[1]) // 4096
    return pages


def slab():
    """KiB of kernel memory that is in use, by the lines of /proc/meminfo."""
    for cache in Path("/sys/kernel/slab").iterdir():
        # One of a module that has gone may go late.
        with contextlib.suppress(FileNotFoundError):
            (cache / "shrink").write_text("1")
    text = Path("/proc/meminfo").read_text()
    return {name: int(re.search(rf"^{name}: +(\d+)", text, re.M).group(1)) for name in ["SUnreclaim", "Percpu"]}


def objects():
    """By cache: objects that are in use, and by how much that number may be too high.

    The kernel takes all objects of a processor's own slab for used ones. slab() has emptied these, but
    each file that is opened here has the processor take one again, of some caches.
    """
    slab()
    lines = (line.split() for line in Path("/proc/slabinfo").read_text().splitlines()[2:])
    return {name: (int(number), os.cpu_count() * int(each)) for name, number, _, _, each, *_ in lines}
