/* SPDX-License-Identifier: GPL-2.0 */
/* The places at which a routine is left. */
#ifndef JIFL_HOST_ROUTINE_H
#define JIFL_HOST_ROUTINE_H

#include "../../../engine/engine.h"

/* How a block leaves its routine. */
enum jifl_way_kind {
	JIFL_STAYS,
	JIFL_RETURNS,
	JIFL_JUMPS,		/* to another routine, which returns for this one */
};

struct jifl_way_out {
	enum jifl_way_kind kind;
	enum ir_place place;	/* place of the inserts there, at the last instruction */
};

/* Under the engine lock, because it looks up symbols. */
void jifl_routine_way_out(const struct ir_block *b, struct jifl_way_out *out);
/* Is it the beginning of another routine than the block's? Likewise. */
bool jifl_routine_is_another(const struct ir_block *b, unsigned long target);
/*
 * Does the block go on at what stands behind it, without a branch? That may be another routine: on
 * 6.1 __put_user_8 runs into __put_user_nocheck_8. Inserts there have the place IR_AFTER.
 */
bool jifl_routine_goes_on(const struct ir_block *b);

#endif
