/* SPDX-License-Identifier: GPL-2.0 */
/* Plans few records that tell all addresses that a block accesses; see plan.c. */
#ifndef JIFL_HOST_MEM_PLAN_H
#define JIFL_HOST_MEM_PLAN_H

#include "../../../../engine/engine.h"
#include "../../../../include/uapi/jifl.h"

#define JIFL_MEM_ACCESSES	(4 * IR_BLOCK_INSNS)
#define JIFL_MEM_RECORDS	64
#define JIFL_MEM_WORDS		IR_CALL_ARGS

/* A word of a record of the block, or JIFL_ACCESS_NO_WORD, JIFL_ACCESS_STACK. */
struct jifl_mem_word {
	u8 record;		/* its index among the block's */
	u8 word;
};

struct jifl_mem_access {
	s32 disp;
	u16 size;
	u16 offset;		/* of the instruction, in the block's code */
	u8 flags;		/* JIFL_ACCESS_* */
	u8 insn_len;		/* bytes */
	struct jifl_mem_word base, repeats, left;
};

struct jifl_mem_record {
	u16 from, at;		/* before any instruction in this range; ninsns: the end */
	u32 nwords;
	struct ir_fetch words[JIFL_MEM_WORDS];
};

struct jifl_mem_plan {
	u32 naccesses, nrecords;
	bool full;		/* there was no room for all */
	struct jifl_mem_access accesses[JIFL_MEM_ACCESSES];
	struct jifl_mem_record records[JIFL_MEM_RECORDS];
};

/* Fills p for b. The same code has the same plan. Not reentrant: under the engine lock. */
void jifl_mem_plan(const struct ir_block *b, struct jifl_mem_plan *p);

#endif
