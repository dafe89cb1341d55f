/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An analysis routine as it is inlined: its instructions one by one. The instructions that
 * compilers make most have their operands, so that constants can be put in.
 *
 * decode makes it (decode/routine.c), instrument specialises it for one call
 * (instrument/specialise.c), emit writes it (emit/inlined.c). It lives in the engine's scratch
 * memory, under the engine lock.
 */
#ifndef JIFL_IR_ROUTINE_H
#define JIFL_IR_ROUTINE_H

#include "ir.h"
#include "jifl_inline.h"

#define IR_ROUTINE_STEPS 40

/* What is known of an instruction beyond which registers it uses. */
enum ir_op {
	/* In the order of their numbers in opcodes (SDM vol. 2, 80 to 83 /n). */
	IR_OP_ADD, IR_OP_OR, IR_OP_ADC, IR_OP_SBB, IR_OP_AND, IR_OP_SUB, IR_OP_XOR, IR_OP_CMP,
	IR_OP_TEST,
	IR_OP_MOV,
	IR_OP_MOVZX, IR_OP_MOVSX,	/* from src_width */
	IR_OP_LEA,
	IR_OP_INC, IR_OP_DEC, IR_OP_NOT, IR_OP_NEG,
	IR_OP_SHL, IR_OP_SHR, IR_OP_SAR,
	IR_OP_OTHER,			/* nothing is known: copied as it is */
};

enum ir_value_kind {
	IR_VALUE_NONE,
	IR_VALUE_REG,
	IR_VALUE_IMM,
	IR_VALUE_MEM,		/* without base and index: at an absolute address */
};

struct ir_value {
	u8 kind;		/* enum ir_value_kind */
	u8 reg;			/* REG; MEM: base or IR_REG_NONE */
	u8 index, scale;	/* MEM; IR_REG_NONE: none */
	s64 value;		/* IMM; MEM: displacement */
};

struct ir_step {
	struct ir_insn insn;	/* as it stands in the routine */
	u8 op;			/* enum ir_op */
	u8 width, src_width;	/* bytes */
	u8 segment;		/* its prefix, 0: none */
	bool lock;
	bool changed;		/* dst and src are no longer what insn says */
	u8 to;			/* JMP, JCC: the step */
	struct ir_value dst, src;
	u16 reads, writes;	/* registers, any part of which the instruction reads or writes */
	u8 flags_touched;	/* flags that it may change */
};

struct ir_routine {
	u64 fn;
	u8 verdict;		/* enum jifl_inline: YES, or why it cannot be inlined */
	u16 nsteps;
	struct ir_step steps[IR_ROUTINE_STEPS];
};

/* What became of the inserted calls of a routine. */
struct ir_inlined {
	u64 fn;
	u64 copies;		/* places where it was inlined */
	u64 calls;		/* where it is called */
	u8 reason;		/* enum jifl_inline, of the last of these */
};
#define IR_INLINED_MAX 64	/* routines that are told apart */

static inline bool ir_op_is_other(const struct ir_step *s)
{
	return s->op == IR_OP_OTHER;
}

#endif
