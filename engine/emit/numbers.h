/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers of the ops that terms.c and numbers.c compile: where they are, and how they are made. */
#ifndef JIFL_EMIT_NUMBERS_H
#define JIFL_EMIT_NUMBERS_H

#include "terms.h"

enum number_kind {
	NUMBER_CONST,
	NUMBER_KEPT,		/* a register, as the kernel left it */
	NUMBER_TEMP,
	NUMBER_FLAGS,		/* 1 if condition code cc holds, else 0 */
};

struct number {
	u8 kind;		/* enum number_kind */
	u8 reg;
	u8 cc;
	u64 imm;
};

/* A branch to an op that has no code yet. */
struct skip {
	u32 field;		/* its rel32 */
	u16 to;			/* the op */
	u8 below;		/* numbers below its own */
	u8 reg;			/* its number is in here; IR_REG_NONE: it is not needed */
	bool bound;
};

struct gen {
	struct x86_writer *w;
	const struct ir_terms *t;
	const struct emit_saved *saved;
	struct terms_code *code;
	u8 order[16], norder;	/* temporaries, the cheapest first */
	struct number stack[IR_TERMS_STACK];
	u32 depth;
	struct skip skips[IR_TERMS_MAX];
	u32 nskips;
	u32 passes[IR_TERMS_MAX], npasses; /* rel32s: the condition holds */
	bool numbers;		/* the numbers at the end are kept, not asked whether they are 0 */
	bool refused;
};

static inline struct ir_value number_in_reg(u8 reg)
{
	return (struct ir_value){ .kind = IR_VALUE_REG, .reg = reg, .index = IR_REG_NONE };
}

static inline struct ir_value number_constant(s64 value)
{
	return (struct ir_value){ .kind = IR_VALUE_IMM, .value = value };
}

static inline struct number *number_top(struct gen *g)
{
	return &g->stack[g->depth - 1];
}

/* A register that holds no number; the ops are refused if there is none. */
u8 number_temporary(struct gen *g);
/* Puts the number into the register. */
void number_put(struct gen *g, const struct number *n, u8 reg);
/* From here on the number is in a temporary. */
void number_to_temporary(struct gen *g, struct number *n);
/* A register that holds the number, to be read. */
u8 number_to_register(struct gen *g, struct number *n);
/* The right operand of an instruction: a constant of 32 bits, or a register. */
struct ir_value number_operand(struct gen *g, struct number *n);
/* Of the n numbers at the bottom of the stack none is in rax from here on. */
void number_leave_rax(struct gen *g, u32 n);
/* An instruction that changes the register. */
void number_op(struct gen *g, u8 code, u8 width, u8 reg, struct ir_value src);
/* An op that is no skip. */
void emit_number(struct gen *g, const struct ir_term *t);

#endif
