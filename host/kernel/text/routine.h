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
/*
 * Does the block lead into another routine that stands behind it? Assembly does (__put_user_8 into
 * __put_user_nocheck_8). Inserts there have the place IR_AFTER. Likewise.
 */
bool jifl_routine_falls_out(const struct ir_block *b);

#endif
