/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A condition of an insert, as ops of a stack machine: numbers of 64 bits, one op after the other;
 * a skip leads forward only. The insert runs if the number that is left is not 0. A host that has
 * such programs checks them: the depth of the stack before each op is one number, and at the end it
 * is 1.
 */
#ifndef JIFL_IR_TERMS_H
#define JIFL_IR_TERMS_H

#include "../base/types.h"

#define IR_TERMS_MAX	40
#define IR_TERMS_STACK	16

enum ir_term_op {
	IR_TERM_CONST,		/* push imm */
	IR_TERM_REG,		/* push register arg (enum ir_reg, not rsp) as the kernel left it */
	IR_TERM_CELL,		/* push width bytes (4, 8) of this processor's, imm from gs on */
	IR_TERM_ASK,		/* push what the routine at imm leaves in rax, all it changes */
	IR_TERM_LOAD,		/* top = width bytes at top + imm */
	IR_TERM_EXTEND,		/* top = its low width bytes */
	IR_TERM_BITS,		/* top = arg bits of it, from bit imm on */
	IR_TERM_NEGATE,
	IR_TERM_INVERT,		/* top = ~top */
	IR_TERM_NOT,		/* top = !top */
	/* Each takes two numbers, left before right, and pushes one. */
	IR_TERM_ADD,
	IR_TERM_SUB,
	IR_TERM_MUL,
	IR_TERM_AND,
	IR_TERM_OR,
	IR_TERM_XOR,
	IR_TERM_SHL,		/* right is a CONST */
	IR_TERM_SHR,
	IR_TERM_EQ,
	IR_TERM_NE,
	IR_TERM_LT,
	IR_TERM_LE,
	/* If top is 0, or not 0, skip arg ops and keep it, else take it. */
	IR_TERM_SKIP_ZERO,
	IR_TERM_SKIP_NONZERO,
};

struct ir_term {
	u8 op;			/* enum ir_term_op */
	u8 width;		/* LOAD, EXTEND: 1, 2, 4, 8 */
	bool is_signed;		/* LOAD, EXTEND, BITS, SHR, LT, LE */
	u32 arg;
	u64 imm;
};

struct ir_terms {
	u16 n;
	u16 reads;		/* registers */
	bool calls;		/* there is a LOAD, or an ASK */
	/*
	 * For LOADs, by the logarithm of their width: a routine that reads memory at rax into rax,
	 * zeroes above it. It changes rax and flags alone. Behind its call is an instruction of
	 * 5 bytes that does nothing and ends with a s32. If the memory cannot be read, the routine
	 * returns that many bytes behind this instruction. (Flags would not tell: what returns lead
	 * through, where a mitigation has it so, changes them.)
	 */
	const u64 *load;
	struct ir_term terms[IR_TERMS_MAX];
};

#endif
