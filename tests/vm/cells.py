# SPDX-License-Identifier: MIT OR Apache-2.0
"""The matrix of machines: properties that change the code that a kernel runs, or when it runs it.

A cell is one kernel with one value of each dimension. All cells together are hundreds of boots;
first(N) gives the N cells that matter most.
"""

import itertools
from dataclasses import astuple, dataclass

SMP = [2, 1, 4]
# A parameter of kernels with PREEMPT_DYNAMIC, which all of Debian's have.
PREEMPT = ["voluntary", "full", "none"]
# What the series from 7.0 on know.
PREEMPT_OF_7 = ["lazy", "full"]
KASLR = [False, True]

# Name: CPU model, kernel parameters. They decide which forms of indirect branches
# and returns the kernel patches into its text.
MITIGATIONS = {
    "auto": ("max", ""),
    "off": ("max", "mitigations=off"),
    "retpoline": ("max", "spectre_v2=retpoline"),
    "its": ("max", "indirect_target_selection=force"),
    "stuffing": ("Skylake-Server", "retbleed=stuff"),   # call depth tracking
    "unret": ("EPYC-Rome", ""),                         # untrained returns
}
NOT_IN = {"stuffing": "6.1"}    # the series that lacks it


@dataclass(frozen=True)
class Cell:
    """One machine."""
    kernel: str
    smp: int
    preempt: str
    mitigation: str
    kaslr: bool

    def __str__(self):
        return f"{self.kernel}-cpus{self.smp}-{self.preempt}-{self.mitigation}" + ("-kaslr" if self.kaslr else "")

    def machine(self):
        """Arguments for harness.vm."""
        cpu, parameters = MITIGATIONS[self.mitigation]
        # KVM has its own idea of a CPU; these are models that QEMU translates.
        options = ["--accel", "tcg", "--cpu", cpu, *(["--kaslr"] if self.kaslr else [])]
        return {"kernel": self.kernel, "smp": self.smp, "append": f"preempt={self.preempt} {parameters}".strip(),
                "options": options}


def named(name):
    """The cell that str() calls so."""
    kernel, smp, preempt, mitigation, *kaslr = name.split("-")
    return Cell(kernel, int(smp.removeprefix("cpus")), preempt, mitigation, kaslr == ["kaslr"])


def preemptions(kernel):
    """What the kernel's parameter preempt= can be."""
    return PREEMPT_OF_7 if kernel.startswith("7.") else PREEMPT


def everything(kernels):
    cells = (Cell(*values) for kernel in kernels
             for values in itertools.product([kernel], SMP, preemptions(kernel), MITIGATIONS, KASLR))
    return [cell for cell in cells if cell.kernel != NOT_IN.get(cell.mitigation)]


def ordered(kernels):
    """All cells: the first few have each value once, and the next ones each pair of values.

    The order is the same in each run.
    """
    left = everything(kernels)
    values, pairs = set(), set()

    def gain(cell):
        own = set(enumerate(astuple(cell)))
        return len(own - values), len(set(itertools.combinations(sorted(own, key=str), 2)) - pairs)

    while left:
        best = max(left, key=gain)
        own = set(enumerate(astuple(best)))
        values |= own
        pairs |= set(itertools.combinations(sorted(own, key=str), 2))
        left.remove(best)
        yield best


def first(count, kernels):
    return list(itertools.islice(ordered(kernels), count))
