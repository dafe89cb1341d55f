# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many instructions x64_sys_call executes to reach a system call's handler.

The kernel replaced its system call table by a switch, compiled into compares and jumps, whose
length differs from call to call. JIFL counts instructions from the handler on. So this part of the
native cost is computed separately: this file follows the live machine code, which objdump
disassembles.
"""

import re
import subprocess
import tempfile

CONDITIONS = {
    "je": lambda a, b: a == b,
    "jne": lambda a, b: a != b,
    "ja": lambda a, b: a > b,
    "jae": lambda a, b: a >= b,
    "jb": lambda a, b: a < b,
    "jbe": lambda a, b: a <= b,
}


def disassemble(code, address):
    """Returns {address: (mnemonic, operands, next address)}."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(code)
        f.flush()
        text = subprocess.run(
            ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn",
             f"--adjust-vma={address:#x}", f.name],
            check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^\s*([0-9a-f]+):\s+(.*?)\s*$", text, re.M)
    found = {}
    for i, (at, insn) in enumerate(rows):
        insn = re.sub(r"^((cs|ds|data16|repz|notrack)\s+)+", "", insn)
        mnemonic, _, operands = insn.partition(" ")
        after = int(rows[i + 1][0], 16) if i + 1 < len(rows) else None
        found[int(at, 16)] = (mnemonic.split(",")[0], operands.strip(), after)
    return found


def path_length(insns, start, size, nr):
    """Instructions executed by x64_sys_call(regs, nr), the handler's own not among them.

    insns: disassemble()'s. start, size: of the function. Raises ValueError at
    an instruction it does not know: it must never guess.
    """
    pc, count, compared = start, 0, None
    while True:
        mnemonic, operands, after = insns[pc]
        count += 1
        if mnemonic.startswith("nop") or mnemonic in ("endbr64", "xchg", "push", "pop", "sub", "add"):
            pc = after
        elif mnemonic == "cmp":
            match = re.fullmatch(r"\$0x([0-9a-f]+),%esi", operands)
            if not match:
                raise ValueError(f"{pc:#x}: {mnemonic} {operands}")
            compared = int(match[1], 16)
            pc = after
        elif (mnemonic, operands) == ("test", "%esi,%esi"):
            compared = 0
            pc = after
        elif mnemonic in CONDITIONS:
            taken = CONDITIONS[mnemonic](nr, compared)
            pc = int(operands.split()[0], 16) if taken else after
        elif mnemonic == "call":
            pc = after
        elif mnemonic == "jmp":
            target = int(operands.split()[0], 16)
            if not start <= target < start + size:
                return count  # the handler is tail-called and returns for us
            pc = target
        elif mnemonic.startswith("ret"):
            return count
        else:
            raise ValueError(f"{pc:#x}: {mnemonic} {operands}")
