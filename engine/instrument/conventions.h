/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What calling conventions tell liveness at the places behind which it does not look, and which
 * instructions of the text may become other ones. conventions.c has one table with the reasons,
 * and with the assembly that keeps to no convention.
 */
#ifndef JIFL_INSTRUMENT_CONVENTIONS_H
#define JIFL_INSTRUMENT_CONVENTIONS_H

#include "../ir/ir.h"

/*
 * True when flags lose their value with this instruction, which leaves for another function.
 * before: the instruction executed before it, NULL: not known.
 */
bool jifl_convention_ends_flags(const struct ir_insn *insn, const struct ir_insn *before);

/*
 * Registers that count as live behind a direct branch, whatever its present target does with them.
 */
u16 jifl_convention_keeps(const struct ir_insn *insn);

/* True when the kernel may put another instruction there while it runs, one that reads anything. */
bool jifl_convention_may_change(const struct ir_insn *insn);

#endif
