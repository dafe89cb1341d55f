/* SPDX-License-Identifier: GPL-2.0 */
/* The conditions with which programs begin, for inserted code. */
#ifndef JIFL_HOST_PROBE_FRONT_H
#define JIFL_HOST_PROBE_FRONT_H

#include <linux/types.h>
#include "../../../../engine/engine.h"

struct jifl_probe;
struct jifl_programs;

/* Of a program; it does not change while the session is there. */
struct jifl_front {
	u16 shown;		/* registers that the program is given, even if nobody needs them */
	bool shown_flags;	/* likewise flags */
	/* The condition is one of inserted code: `terms`. */
	bool is_made;
	bool counts;		/* and the execution is counted if it holds: nothing else is done */
	/* Inserted code does all that the program does: it counts, and records numbers. */
	bool records;
	/* They go to the flight recorder: `cell` is one of that. */
	bool has_cell;
	s32 cell;
	u32 from;		/* the op behind that condition; 0: there is none */
	struct ir_terms terms;
	struct ir_hit hit;	/* records */
};

/*
 * Makes p->fronts, one for each program, and p->inlined if one records for the session's reader.
 * -ENOMEM, -EINTR. Sleeps.
 */
int jifl_fronts_open(struct jifl_probe *p, const struct jifl_programs *programs);
/* Undoes that, whole or not; code is inserted no more. Sleeps. */
void jifl_fronts_close(struct jifl_probe *p);

#endif
