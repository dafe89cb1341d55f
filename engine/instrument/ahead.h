/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Liveness beyond a block: what a few instructions behind its end say of flags and
 * registers, over direct branches, remembered by address.
 *
 * What is said holds although the text that was looked at may change later, and
 * nobody drops the block for it: conventions.c says how.
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
 * Of what is asked about, what is live behind insn, which ends a block; next: where it
 * goes on without branching, v 0: nowhere. before: what is executed before insn, or NULL.
 */
struct jifl_live jifl_ahead_behind(const struct ir_insn *insn, const struct ir_insn *before,
				   jifl_orig next, struct jifl_live asked);

/* The same where insn, which branches on a condition, goes when that holds. */
struct jifl_live jifl_ahead_taken(const struct ir_insn *insn, struct jifl_live asked);

/* Registers that insn reads and writes, for liveness: with what may stand there instead. */
void jifl_ahead_registers(struct ir_insn *insn);

/* Forgets what was seen: text has gone, or others' stands there. */
void jifl_ahead_forget(void);

/* That compiled functions begin with a nop of 5 bytes, and nothing else does. */
void jifl_ahead_set_fentry(bool fentry);

#endif
