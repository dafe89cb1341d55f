# SPDX-License-Identifier: MIT OR Apache-2.0
"""Computes from the output of `jifl dump` what instructions do to memory: for calls with simple
code.
"""

import re


def is_memory(name, operand):
    """Is the operand one in memory?

    One at an absolute address is a mere symbol or number, like a branch's target.
    """
    if re.match("j|call|loop", name) and not operand.startswith("*"):
        return False
    return operand.lstrip("*")[:1] not in ("", "$", "%") or "(" in operand or "%gs:" in operand


def named(text):
    """(reads, writes) of memory by an instruction in the syntax of the GNU tools.

    It knows those that the calls below have.
    """
    name, _, operands = re.sub(r"^(lock|data16|cs|ds|notrack) ", "", text).partition(" ")
    operands = re.split(r",(?![^(]*\))", operands)
    places = [is_memory(name, operand) for operand in operands]
    if not any(places) or re.match("lea|nop", name):
        return 0, 0
    if re.match("mov|set", name):
        return (0, 1) if places[-1] else (1, 0)
    if not places[-1] or re.match("cmp|test|push|call|jmp", name) and not name.startswith("cmpxchg"):
        return 1, 0
    if re.match("(add|sub|inc|dec|and|or|xor|xadd|cmpxchg|xchg|bt[rsc]|s[ah][lr])", name):
        return 1, 1
    raise RuntimeError(f"what does {text} do?")


def implied(text):
    """(reads, writes) of the stack that no operand says."""
    name, _, operand = text.partition(" ")
    if re.match("push|call", name):
        return 0, 1
    if re.match("pop|leave|ret", name) or name == "jmp" and operand.endswith("_return_thunk"):
        return 1, 0
    return 0, 0


def all_of(text):
    """Both."""
    (reads, writes), (more_reads, more_writes) = named(text), implied(text)
    return reads + more_reads, writes + more_writes


def executed(blocks, times, touches):
    """(reads, writes) of blocks that were executed so many times, by (address, bytes).

    The blocks are as `jifl dump` has them.
    """
    reads = writes = 0
    for block in blocks:
        n = times.get((int(block["orig"], 16), len(block["src"]) // 2), 0)
        for segment in block["segments"]:
            if n and segment["kind"] == "original" and "native" not in block["flags"]:
                r, w = touches(segment["original"])
                reads, writes = reads + r * n, writes + w * n
    return reads, writes
