/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An analysis routine made for one call (JIFL paper, section 3.5.2). The constants of the call are
 * put into its instructions, decisions that depend on them are made, and what nobody needs is left
 * out.
 */
#ifndef JIFL_INSTRUMENT_SPECIALISE_H
#define JIFL_INSTRUMENT_SPECIALISE_H

#include "../ir/routine.h"

/* Steps and, for each step, constants that must be put into registers before it. */
#define SPECIAL_ITEMS (2 * IR_ROUTINE_STEPS)

enum special_kind {
	SPECIAL_STEP,		/* as step says */
	SPECIAL_CONSTANT,	/* reg = value */
	SPECIAL_JUMP,		/* to item `to`, always; SPECIAL_END: to the end */
	SPECIAL_JCC,		/* to item `to`, if step's condition holds */
	SPECIAL_CALL,		/* call `value` */
};

#define SPECIAL_END 0xff

struct special_item {
	u8 kind;		/* enum special_kind */
	u8 reg;
	u8 to;
	u64 value;
	struct ir_step step;
};

struct special {
	u16 nitems;
	bool full;
	bool calls;		/* calls other functions */
	u16 needs;		/* registers of looked-up arguments, where it uses them */
	u16 registers;		/* registers that it changes */
	u8 flags;		/* flags that it changes */
	struct special_item items[SPECIAL_ITEMS];
};

/* Specialises r for the call ins, into s. */
void jifl_specialise(const struct ir_routine *r, const struct ir_insert *ins, struct special *s);

#endif
