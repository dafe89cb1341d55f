/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A record of numbers that inserted code appends to a ring of its processor: emit/hit.c says how.
 * Or a line, which goes over the oldest one: emit/line.c. Hosts that have such records say here
 * where what stands.
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

/* What of a processor inserted code needs for a line. */
struct ir_line_cpu {
	u64 count;		/* address of the number of lines that were begun */
	u64 mask;		/* lines, a power of 2, less 1 */
	u64 lines;		/* address of the first */
	u64 number;		/* what a line's second word has of the processor */
};

#define IR_LINE_VALUES	5
/*
 * A line's check is the upper quarter of its sum and 1, times this. What is added up: its words,
 * but of the third the task and the context, each by itself.
 */
#define IR_LINE_FACTOR	0x0001000100010001ull

/* Lines of a host. */
struct ir_line {
	s32 cpu;		/* struct ir_line_cpu, from gs on */
	s32 task;		/* where the task's address stands, from gs on */
	s32 tid;		/* 4 bytes of the task */
	s32 context[2];		/* two bytes of the processor's, from gs on; the lower one first */
};

/* The insert's `imm` is the first word of a record, of 64 bits: the host says what it means. */
struct ir_hit {
	/*
	 * NULL: a record. Else a line: `values` are its numbers, and of what follows it has `stop`,
	 * `event` and `place`.
	 */
	const struct ir_line *line;
	/*
	 * Where the address of a time stands, an absolute address. From that time on there are no
	 * lines; 0: they are left to the host.
	 */
	s32 stop;
	u16 event;
	bool place;		/* the first number is the original address, before `values` */
	u64 ring;		/* address of the struct ir_hit_ring, from gs on: any 64 bits */
	u32 mask;		/* the ring's bytes, a power of 2, less 1 */
	u32 size;		/* bytes of a record */
	s32 task;		/* from gs on, where the task's address stands */
	u8 nwords;
	u8 nvalues;		/* numbers that the values leave on the stack: 0 in lines alone */
	u8 at;			/* where in the record the first of them stands */
	struct ir_hit_word words[IR_HIT_WORDS];
	/* Their reads and calls are those of the insert's condition, too, and its are theirs. */
	struct ir_terms values;
};

#endif
