/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The program that is being written to program_text, for the files that write it:
 *
 *	program.c	the whole: blocks and subroutines
 *	flow.c		jumps, calls and returns
 *	sequences.c	instructions that belong together
 *	insns.c		one instruction; those that no table describes
 *	table.c		those that a table describes
 *	operands.c	their operands
 *	draft.c		labels, thunks, memory
 *
 * Flags are tracked while code is written: `valid` are those whose values are defined.
 * Before an instruction reads one that is not, and at the end of each block, an instruction
 * that defines all of them is put.
 *
 * Kept for the program's own use: rsp; r15, which points to the data.
 */
#ifndef JIFL_UNIT_DRAFT_H
#define JIFL_UNIT_DRAFT_H

#include "../../../../engine/ir/ir.h"
#include "../../unit.h"
#include "../state.h"
#include "program.h"

enum { MAX_BLOCKS = 24, NSUBS = 4 };
enum { DATA_USED = PROGRAM_DATA - 128, SLOTS = PROGRAM_DATA - 64 };
enum { FLAGS_AT = PROGRAM_DATA - 8 };
/* Of thunks: those of registers come before it. */
enum { RETURN_THUNK = 16 };

/* Labels: blocks, then subroutines, then the exit. */
enum { LABEL_SUB = MAX_BLOCKS, LABEL_EXIT = LABEL_SUB + NSUBS, NLABELS };

#define RAX (1u << IR_RAX)
#define RDX (1u << IR_RDX)

struct draft {
	u64 seed;		/* of what is decided next */
	u32 len;
	u8 valid;
	u16 avoid;		/* registers not to be changed */
};
extern struct draft draft;

/* Begins a program; resolves its labels, each of which has been put by then. */
void draft_begin(u64 seed);
void draft_end(void);

/* Puts a label here; and a rel32 to a label that may not be known yet. */
void draft_label(u32 here);
void draft_rel32(u32 to);

/* The thunk of a register, or RETURN_THUNK. */
u8 *draft_thunk(u8 reg);

struct operand {
	bool memory;
	u8 reg;
	u8 mode;		/* of memory: operand_modrm */
	u32 offset;
};

struct operand operand_reg(u8 reg);
/* Memory of a random mode. */
struct operand operand_mem(void);
/* REX.B */
u8 operand_base_bit(const struct operand *op);
/* Puts ModRM, SIB and displacement; behind: bytes of the immediate. */
void operand_modrm(u8 reg, const struct operand *op, u32 behind);

/* Puts a random instruction of the table; none if it would change what is to be avoided. */
void draft_table_insn(void);
/* Puts one to n random instructions. */
void draft_some(u32 n);
/* Puts a random sequence. */
void draft_sequence(void);
/* Puts a jmp or call (what: 4 or 2) to a label through a register, a thunk or memory. */
void draft_indirect(u32 to, u8 what);
/* Puts a call of a random subroutine. */
void draft_call(void);
void draft_ret(void);

static inline u32 rnd(u32 n)
{
	return state_random(&draft.seed) % n;
}

static inline void byte(u8 b)
{
	REQUIRE(draft.len < PROGRAM_TEXT - 64, "the program is too long");
	program_text[draft.len++] = b;
}

static inline void bytes(const void *p, u32 n)
{
	while (n--)
		byte(*(const u8 *)p), p = (const u8 *)p + 1;
}

#define CODE(s) bytes(s, sizeof(s) - 1)

static inline void imm32(u32 v)
{
	bytes(&v, 4);
}

/* disp32 from the end of an instruction that has `behind` bytes after it */
static inline void rip_disp(const void *to, u32 behind)
{
	imm32((u32)((long)to - (long)(program_text + draft.len + 4 + behind)));
}

/* A register that may be changed. */
static inline u8 dest(void)
{
	u8 r;

	do
		r = rnd(15);
	while (r == IR_RSP || (draft.avoid & (1u << r)));
	return r;
}

/* An instruction after which all flags are defined; may change a register. */
static inline void define_flags(void)
{
	u8 r = dest();

	byte(0x48 | r >> 3);
	byte(0x83);
	byte((rnd(2) ? 0xf8 : 0xc0) | (r & 7));		/* cmp or add $imm8 */
	byte(rnd(256));
	draft.valid = IR_FLAGS;
}

static inline void need_flags(u8 flags)
{
	if (flags & ~draft.valid)
		define_flags();
}

#endif
