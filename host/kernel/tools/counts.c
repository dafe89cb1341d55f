// SPDX-License-Identifier: GPL-2.0
/*
 * The tools none, layout, call, insn and block. Each call of a target is added to its figures
 * (call/stats.c). With insn and block each block adds to the count of the running call.
 *
 * Contexts: instrumenting runs under the engine lock; opening sleeps.
 */
#include <linux/percpu.h>

#include "../kernel.h"
#include "../store/percpu.h"
#include "../call/count.h"
#include "../call/whose.h"
#include "tools.h"

/* What IR_INSERT_ADD does, as an analysis function. */
static void jifl_counts_add(u64 __percpu *cell, u64 n)
{
	this_cpu_add(*cell, n);
}

static void jifl_counts_insert(struct ir_block *b, const struct jifl_session *s, u32 n)
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
	ins->fn = (unsigned long)jifl_counts_add;
	ins->nargs = 2;
	ins->args[0] = (u64)(s64)ins->cell.disp;
	ins->args[1] = n;
}

static void jifl_counts_insns(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	jifl_counts_insert(b, arg, b->count);
}

static u32 jifl_counts_skips(const struct jifl_session *s, const struct jifl_target *t,
			     struct ir_insert *entry)
{
	const u32 skipped = jifl_count_skipped(t);

	*entry = (struct ir_insert){
		.kind = IR_INSERT_ADD,
		.cell = jifl_cpu_operand(lanes[s->lane].count),
		.imm = skipped,
	};
	return skipped ? 1 : 0;
}

/* The number of repetitions is what rcx loses: its value before, less what is left after. */
static void jifl_counts_insert_rcx(struct ir_block *b, const struct jifl_session *s,
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

static void jifl_counts_repeats(struct ir_block *b, void *arg)
{
	u16 i;

	jifl_counts_insns(b, arg);
	for (i = 0; i < b->ninsns; i++) {
		if (b->insns[i].repeat == IR_REPEAT_NONE)
			continue;
		jifl_counts_insert_rcx(b, arg, IR_BEFORE, i, 1);
		if (b->insns[i].repeat == IR_REPEAT_WHILE)
			jifl_counts_insert_rcx(b, arg, IR_AFTER, i, -1);
	}
}

static void jifl_counts_blocks(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	/* The rest of that block follows. */
	if (!b->in_piece)
		jifl_counts_insert(b, arg, 1);
}

/* --- the tools ---------------------------------------------------------------------- */

#define JIFL_COUNTS_EFFECTS (JIFL_FLAG_FUNCTION | JIFL_FLAG_NO_LIVENESS | JIFL_FLAG_NO_INLINING)

const struct jifl_tool jifl_tool_none = {
	.name = "none",
	.kind = JIFL_KIND_NONE,
	.flags = JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_UNCOUNTED,
	.alone = true,
	.holds = true,
	.entry = jifl_count_entry,
};

const struct jifl_tool jifl_tool_layout = {
	.name = "layout",
	.kind = JIFL_KIND_LAYOUT,
	.flags = JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_UNCOUNTED,
	.alone = true,
	.holds = true,
	.lays = true,
	.entry = jifl_count_entry,
};

const struct jifl_tool jifl_tool_call = {
	.name = "call",
	.kind = JIFL_KIND_CALL,
	.flags = JIFL_FLAGS_BY | JIFL_FLAGS_VALUE,
	.calls = JIFL_CALLS_COUNTED,
	.alone = true,
	.holds = true,
	.entry = jifl_count_entry,
};

static int jifl_counts_open_insn(struct jifl_session *s, u64 *busy_session)
{
	if (s->flags & JIFL_FLAG_REPEATS)
		s->instrument = jifl_counts_repeats;
	return 0;
}

const struct jifl_tool jifl_tool_insn = {
	.name = "insn",
	.kind = JIFL_KIND_INSN,
	.flags = JIFL_FLAG_REPEATS | JIFL_COUNTS_EFFECTS | JIFL_FLAGS_BY | JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_FOLLOWED,
	.counts_insns = true,
	.alone = true,
	.holds = true,
	.skips = jifl_counts_skips,
	.instrument = jifl_counts_insns,
	.open = jifl_counts_open_insn,
	.entry = jifl_count_entry,
};

const struct jifl_tool jifl_tool_block = {
	.name = "block",
	.kind = JIFL_KIND_BLOCK,
	.flags = JIFL_COUNTS_EFFECTS | JIFL_FLAGS_BY | JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_FOLLOWED,
	.alone = true,
	.holds = true,
	.instrument = jifl_counts_blocks,
	.entry = jifl_count_entry,
};
