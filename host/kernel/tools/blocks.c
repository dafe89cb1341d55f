// SPDX-License-Identifier: GPL-2.0
/*
 * What sessions of each kind insert into blocks, but for plugins and locks. Under the engine
 * lock.
 */
#include <linux/percpu.h>

#include "../kernel.h"
#include "../text/function.h"
#include "../text/routine.h"
#include "../store/percpu.h"
#include "../store/ring.h"
#include "../call/count.h"
#include "../session/session.h"
#include "mem/mem.h"
#include "blocks.h"
#include "profile.h"

/* The block is new: it is the first time for the call that is running. */
static void jifl_count_attribute(struct jifl_session *s)
{
	u64 call = this_cpu_read(jifl_cpu.lanes[s->lane].call);

	if (call && jifl_count_session(call) == s)
		jifl_count_aim(s, call)->blocks++;
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

/* The words behind a record; NULL: there was no room for it. */
static void jifl_count_words(struct ir_insert *ins, const struct ir_lookup *words)
{
	if (!ins)
		return;
	ins->nargs = JIFL_RECORD_WORDS((u32)ins->imm);
	ins->looked_up = (1u << ins->nargs) - 1;
	memcpy(ins->lookups, words, ins->nargs * sizeof(*words));
}

#define JIFL_REG(r) { .how = IR_LOOK_REG, .base = (r), .index = IR_REG_NONE }
static const struct ir_lookup jifl_tsc[] = { { .how = IR_LOOK_TSC } };

static void jifl_count_enter(struct ir_block *b, const struct jifl_session *s, bool values)
{
	/* System V ABI, section 3.2.3. */
	static const struct ir_lookup arguments[] = {
		JIFL_REG(IR_RDI), JIFL_REG(IR_RSI), JIFL_REG(IR_RDX), JIFL_REG(IR_RCX),
		JIFL_REG(IR_R8), JIFL_REG(IR_R9),
	};

	jifl_count_insert(b, s, 1);
	jifl_ring_insert(b, 0, (u32)b->addr.v);
	if (values)
		jifl_count_words(jifl_ring_insert(b, 0, JIFL_RECORD_ARGUMENTS), arguments);
	if (s->flags & JIFL_FLAG_CLOCK)
		jifl_count_words(jifl_ring_insert(b, 0, JIFL_RECORD_ENTERED), jifl_tsc);
}

static void jifl_count_leave(struct ir_block *b, const struct jifl_session *s, bool values)
{
	static const struct ir_lookup returned[] = { JIFL_REG(IR_RAX) };
	const u16 last = b->ninsns - 1;

	if (values)
		jifl_count_words(jifl_ring_insert(b, last, JIFL_RECORD_RETURNED), returned);
	if (s->flags & JIFL_FLAG_CLOCK)
		jifl_count_words(jifl_ring_insert(b, last, JIFL_RECORD_LEFT), jifl_tsc);
	else
		jifl_ring_insert(b, last, JIFL_RECORD_RETURN);
}

/* JIFL_FLAG_CLOCK: it may jump to another, which returns for it. Symbols are looked up for that. */
static void jifl_count_jump(struct ir_block *b)
{
	struct jifl_way_out out;

	jifl_routine_way_out(b, &out);
	if (out.kind == JIFL_JUMPS)
		jifl_count_words(jifl_ring_record(b, out.place, b->ninsns - 1, JIFL_RECORD_JUMPED),
				 jifl_tsc);
}

void jifl_count_functions(struct ir_block *b, void *arg)
{
	const struct jifl_session *s = arg;
	const u8 last = b->insns[b->ninsns - 1].kind;
	const struct jifl_function *f = jifl_function_at(b->addr.v);
	/* Assembly has agreements of its own. */
	const bool values = s->flags & JIFL_FLAG_VALUES && f->fentry;
	const bool starts = f->start == b->addr.v;

	jifl_count_attribute(arg);
	if (starts)
		jifl_count_enter(b, s, values);
	if (last == IR_RET || last == IR_RET_THUNK)
		jifl_count_leave(b, s, values);
	else if (s->flags & JIFL_FLAG_CLOCK)
		jifl_count_jump(b);
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
