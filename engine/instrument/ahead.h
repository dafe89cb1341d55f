/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Liveness beyond a block: what a few instructions behind its end say about flags and registers,
 * over direct branches, remembered by address.
 *
 * The answer holds although the text that was looked at may change later, and nobody drops the
 * block when it does: conventions.c says why.
 *
 * Not reentrant: works in static memory, under the engine lock.
 */
#ifndef JIFL_INSTRUMENT_AHEAD_H
#define JIFL_INSTRUMENT_AHEAD_H

#include "../ir/ir.h"

/* What is live, or is asked about. */
struct jifl_live {
	u16 regs;		/* a bit for each enum ir_reg */
	u8 flags;		/* enum ir_flag, but for IR_DF */
};

/*
 * Of what is asked about, what is live behind insn, which ends a block. next: where insn goes on
 * without branching, v 0: nowhere. before: the instruction that is executed before insn, or NULL.
 */
struct jifl_live jifl_ahead_after(const struct ir_insn *insn, const struct ir_insn *before,
				   jifl_orig next, struct jifl_live asked);

/* The same at the target of insn, which branches on a condition, when it branches. */
struct jifl_live jifl_ahead_taken(const struct ir_insn *insn, struct jifl_live asked);

/*
 * The registers that insn reads and writes, for liveness. Includes what other instructions at its
 * place may read.
 */
void jifl_ahead_registers(struct ir_insn *insn);

/* Forgets what was seen: text has gone, or other text stands in its place. */
void jifl_ahead_forget(void);

/* Tells whether compiled functions, and nothing else, begin with a nop of 5 bytes. */
void jifl_ahead_set_fentry(bool fentry);

#endif
