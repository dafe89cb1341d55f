/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A record of numbers that inserted code appends to a ring of its processor; emit/hit.c says how.
 * Hosts that have such records say here where what stands.
 */
#ifndef JIFL_IR_HITS_H
#define JIFL_IR_HITS_H

#include "terms.h"

#define IR_HIT_VALUES	6
#define IR_HIT_WORDS	8

/* What of a processor's ring inserted code reads and writes. */
struct ir_hit_ring {
	u64 data;		/* where it is; a record may reach beyond its end */
	u64 head;		/* bytes of all records */
	u64 limit;		/* a record has room while head is not greater */
};

/* What else stands in a record. */
enum ir_hit_how {
	IR_HIT_CLOCK,		/* 8 bytes: the processor's time stamp counter. It comes first. */
	IR_HIT_TASK,		/* 8 bytes of the task, from disp on */
	IR_HIT_STACK,		/* 8 bytes: rsp, with what inserted code has pushed */
	IR_HIT_CELL,		/* 4 bytes of the processor's, disp from gs on */
};

struct ir_hit_word {
	u8 how;			/* enum ir_hit_how */
	u8 at;			/* where in the record */
	s32 disp;
};

struct ir_hit {
	u64 ring;		/* address of the struct ir_hit_ring, from gs on: any 64 bits */
	u32 mask;		/* the ring's bytes, a power of 2, less 1 */
	u32 size;		/* bytes of a record */
	s32 task;		/* from gs on, where the task's address stands */
	u8 nwords;
	u8 nvalues;		/* numbers that the values leave on the stack */
	u8 at;			/* where in the record the first of them stands */
	struct ir_hit_word words[IR_HIT_WORDS];
	/* Their reads and calls are those of the insert's condition, too, and its are theirs. */
	struct ir_terms values;
};

#endif
