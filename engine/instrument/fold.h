/* SPDX-License-Identifier: GPL-2.0 */
/* What is known about registers and flags before an instruction of an analysis routine. */
#ifndef JIFL_INSTRUMENT_FOLD_H
#define JIFL_INSTRUMENT_FOLD_H

#include "../ir/routine.h"

struct fold_state {
	bool reached;
	u16 known;		/* registers */
	u8 flags_known, flags;	/* of IR_FLAGS */
	u64 values[16];
};

void fold_set(struct fold_state *state, u8 reg, u64 value);
void fold_forget(struct fold_state *state, u16 regs);
void fold_forget_flags(struct fold_state *state);

/* Keeps in `into` what is known on both ways to a place. True when `into` has changed. */
bool fold_meet(struct fold_state *into, const struct fold_state *from);

/* What is known after a plain instruction. */
void fold_step(const struct ir_step *s, struct fold_state *state);

/* Whether a conditional jump branches. 1: yes, 0: no, -1: not known. */
int fold_condition(const struct fold_state *state, u8 cc);

/*
 * Puts what is known into the operands, as far as instructions can express it. Returns the
 * registers that the instruction reads now.
 */
u16 fold_operands(struct ir_step *s, const struct fold_state *state);

#endif
