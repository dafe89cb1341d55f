/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Liveness in a block: which flags and registers still matter before each
 * instruction, so that inserted code saves no others (JIFL paper, section 3.5.1).
 * Behind its end ahead.c looks on; where that ends, conventions.c says what to trust.
 *
 * All registers are live before an instruction that may fault, for its fixup may need
 * any of them; that is so in what is looked at behind the block, too.
 */
#ifndef JIFL_INSTRUMENT_LIVENESS_H
#define JIFL_INSTRUMENT_LIVENESS_H

#include "../ir/ir.h"

struct jifl_liveness {
	/*
	 * Live right before instruction i; entry ninsns: after the block; the one behind
	 * that: where its branch goes when it is taken, if something is inserted there. IR_DF
	 * among the flags says that it may be set there.
	 */
	u8 flags[IR_BLOCK_INSNS + 2];
	u16 regs[IR_BLOCK_INSNS + 2];
	bool without_regs;	/* nothing was asked of them: all are live */
};

/* Registers that are live at that entry. */
static inline u16 jifl_liveness_regs(const struct jifl_liveness *l, u16 entry)
{
	return l->without_regs ? 0xffff : l->regs[entry];
}

/* The entry for what is inserted there. */
static inline u16 jifl_liveness_at(u16 at, enum ir_place place)
{
	return at + (place == IR_AFTER ? 1 : place == IR_TAKEN ? 2 : 0);
}

/* What is to be known of registers; the rest counts as live. More costs more decoding. */
enum jifl_liveness_of {
	JIFL_LIVENESS_FLAGS,	/* nothing */
	JIFL_LIVENESS_BLOCK,	/* what the block itself says */
	JIFL_LIVENESS_AHEAD,	/* what is behind it, too */
};

/* Fills l for b. */
void jifl_liveness_compute(struct ir_block *b, enum jifl_liveness_of of, struct jifl_liveness *l);

/*
 * The first instruction of b before which, by the block alone, no flag is live; ninsns: there is none. As
 * JIFL_LIVENESS_FLAGS finds, which costs four times as much.
 */
u16 jifl_liveness_flags_dead(const struct ir_block *b);

/*
 * Of the instructions `from` to `to` that before which an insert costs least, the first of
 * these: by the flags that it has to save, and the registers, if it calls.
 */
u16 jifl_liveness_cheapest(const struct jifl_liveness *l, u16 from, u16 to, bool calls);

#endif
