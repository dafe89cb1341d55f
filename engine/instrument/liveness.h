/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Liveness in a block: which flags and registers still matter before each instruction, so that
 * inserted code saves no others (JIFL paper, section 3.5.1). ahead.c looks on behind the end of
 * the block. Where ahead.c ends, conventions.c says what may be trusted.
 *
 * All registers are live before an instruction that may fault, because its fixup may need any of
 * them. This also holds for the code that is looked at behind the block.
 */
#ifndef JIFL_INSTRUMENT_LIVENESS_H
#define JIFL_INSTRUMENT_LIVENESS_H

#include "../ir/ir.h"

struct jifl_liveness {
	/*
	 * Live right before instruction i. Entry ninsns: after the block. The entry behind that:
	 * at the target of the block's branch, if something is inserted on the edge of the taken
	 * branch. IR_DF among the flags says that DF may be set there.
	 */
	u8 flags[IR_BLOCK_INSNS + 2];
	u16 regs[IR_BLOCK_INSNS + 2];
	bool without_regs;	/* registers were not asked for: all are live */
};

/* Registers that are live at that entry. */
static inline u16 jifl_liveness_regs(const struct jifl_liveness *l, u16 entry)
{
	return l->without_regs ? 0xffff : l->regs[entry];
}

/* The entry for inserts at that place. */
static inline u16 jifl_liveness_at(u16 at, enum ir_place place)
{
	return at + (place == IR_AFTER ? 1 : place == IR_TAKEN ? 2 : 0);
}

/*
 * What the caller wants to know about registers; the rest counts as live. More knowledge costs
 * more decoding.
 */
enum jifl_liveness_of {
	JIFL_LIVENESS_FLAGS,	/* nothing */
	JIFL_LIVENESS_BLOCK,	/* what the block itself says */
	JIFL_LIVENESS_AHEAD,	/* what the code behind the block says, too */
};

/* Fills l for b. */
void jifl_liveness_compute(struct ir_block *b, enum jifl_liveness_of of, struct jifl_liveness *l);

/*
 * The first instruction of b before which, by the block alone, no flag is live; ninsns: there is
 * none. JIFL_LIVENESS_FLAGS finds the same, and costs four times as much.
 */
u16 jifl_liveness_flags_dead(const struct ir_block *b);

/*
 * Of the instructions `from` to `to`, the one before which an insert costs least; the first, if
 * several cost the same. Counts the flags that the insert has to save, and the registers, if it
 * calls.
 */
u16 jifl_liveness_cheapest(const struct jifl_liveness *l, u16 from, u16 to, bool calls);

#endif
