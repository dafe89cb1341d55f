// SPDX-License-Identifier: GPL-2.0
/*
 * What sessions of each kind insert into blocks, but for plugins and locks. Under the engine
 * lock.
 */
#include <linux/percpu.h>

#include "count.h"

/* The block is new: it is the first time for the call that is running. */
static void jifl_count_attribute(struct jifl_session *s)
{
	u64 call = this_cpu_read(jifl_cpu.lanes[s->lane].call);

	if (call && jifl_count_session(call) == s)
		s->blocks[jifl_count_nr(call)]++;
}

/* What IR_INSERT_ADD does, as an analysis function. */
static void jifl_count_add(u64 __percpu *cell, u64 n)
{
	this_cpu_add(*cell, n);
}

static void jifl_count_insert(struct ir_block *b, const struct jifl_session *s, u32 n)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	if (!ins)
		return;
	ins->kind = IR_INSERT_ADD;
	ins->cell = jifl_cpu_operand(lanes[s->lane].count);
	ins->imm = n;
	ins->without = (s->flags & JIFL_FLAG_NO_LIVENESS ? IR_WITHOUT_LIVENESS : 0) |
		       (s->flags & JIFL_FLAG_NO_INLINING ? IR_WITHOUT_INLINING : 0);
	if (!(s->flags & JIFL_FLAG_FUNCTION))
		return;
	ins->kind = IR_INSERT_CALL;
	ins->fn = (unsigned long)jifl_count_add;
	ins->nargs = 2;
	ins->args[0] = (u64)(s64)ins->cell.disp;
	ins->args[1] = n;
}

void jifl_count_insns(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	jifl_count_insert(b, arg, b->count);
}

/* The repetitions are what rcx loses: all of it, or what is not left. */
static void jifl_count_insert_rcx(struct ir_block *b, const struct jifl_session *s,
				  enum ir_place place, u16 at, s32 sign)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	if (!ins)
		return;
	ins->kind = IR_INSERT_ADD_REG;
	ins->cell = jifl_cpu_operand(lanes[s->lane].count);
	ins->reg = IR_RCX;
	ins->imm = sign;
}

void jifl_count_repeats(struct ir_block *b, void *arg)
{
	u16 i;

	jifl_count_insns(b, arg);
	for (i = 0; i < b->ninsns; i++) {
		if (b->insns[i].repeat == IR_REPEAT_NONE)
			continue;
		jifl_count_insert_rcx(b, arg, IR_BEFORE, i, 1);
		if (b->insns[i].repeat == IR_REPEAT_WHILE)
			jifl_count_insert_rcx(b, arg, IR_AFTER, i, -1);
	}
}

void jifl_count_blocks(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	jifl_count_insert(b, arg, 1);
}

void jifl_count_functions(struct ir_block *b, void *arg)
{
	u16 last = b->ninsns - 1;

	jifl_count_attribute(arg);
	if (jifl_ksym_starts(b->addr.v)) {
		jifl_count_insert(b, arg, 1);
		jifl_ring_insert(b, 0, (u32)b->addr.v);
	}
	if (b->insns[last].kind == IR_RET || b->insns[last].kind == IR_RET_THUNK)
		jifl_ring_insert(b, last, JIFL_RECORD_RETURN);
}

void jifl_count_path(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	jifl_ring_insert(b, 0, (u32)b->addr.v);
}

void jifl_count_profile(struct ir_block *b, void *arg)
{
	struct jifl_session *s = arg;

	jifl_count_attribute(s);
	jifl_profile_insert(s->profile, b);
}

void jifl_count_mem(struct ir_block *b, void *arg)
{
	struct jifl_session *s = arg;

	jifl_count_attribute(s);
	jifl_mem_insert(s->mem, b);
}
