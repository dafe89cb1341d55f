/* SPDX-License-Identifier: GPL-2.0 */
/* Where routines are left. */
#ifndef JIFL_HOST_ROUTINE_H
#define JIFL_HOST_ROUTINE_H

#include "../../../engine/engine.h"

/* How a block leaves the routine that it is of. */
enum jifl_way_kind {
	JIFL_STAYS,
	JIFL_RETURNS,
	JIFL_JUMPS,		/* to another routine, which returns in its stead */
};

struct jifl_way_out {
	enum jifl_way_kind kind;
	enum ir_place place;	/* of what is done there, at the last instruction */
};

/* Under the engine lock, as symbols are looked up. */
void jifl_routine_way_out(const struct ir_block *b, struct jifl_way_out *out);

#endif
