// SPDX-License-Identifier: GPL-2.0
/*
 * The tool trace: a record where a function begins and where it returns. If a session asks for
 * them, the records have arguments and results, and times. Functions are also counted where they
 * begin.
 *
 * Contexts: jifl_trace_open sleeps; the others run under the engine lock.
 */
#include <linux/percpu.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../text/function.h"
#include "../text/routine.h"
#include "../store/percpu.h"
#include "../store/ring.h"
#include "../call/count.h"
#include "../call/whose.h"
#include "tools.h"

/* A function has been entered. */
static struct ir_insert jifl_trace_entered(const struct jifl_session *s)
{
	return (struct ir_insert){
		.kind = IR_INSERT_ADD,
		.cell = jifl_cpu_operand(lanes[s->lane].count),
		.imm = 1,
	};
}

static void jifl_trace_count(struct ir_block *b, const struct jifl_session *s)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	if (!ins)
		return;
	ins->kind = IR_INSERT_ADD;
	ins->cell = jifl_cpu_operand(lanes[s->lane].count);
	ins->imm = 1;
}

/* Adds words to a record. ins may be NULL: there was no room for the record. */
static void jifl_trace_words(struct ir_insert *ins, const struct ir_fetch *words)
{
	if (!ins)
		return;
	ins->nargs = JIFL_RECORD_WORDS((u32)ins->imm);
	ins->fetched = (1u << ins->nargs) - 1;
	memcpy(ins->fetches, words, ins->nargs * sizeof(*words));
}

#define JIFL_TRACE_REG(r) { .how = IR_FETCH_REG, .base = (r), .index = IR_REG_NONE }
static const struct ir_fetch jifl_trace_tsc[] = { { .how = IR_FETCH_TSC } };

/* System V ABI, section 3.2.3. */
static const struct ir_fetch jifl_trace_arguments[] = {
	JIFL_TRACE_REG(IR_RDI), JIFL_TRACE_REG(IR_RSI), JIFL_TRACE_REG(IR_RDX),
	JIFL_TRACE_REG(IR_RCX), JIFL_TRACE_REG(IR_R8), JIFL_TRACE_REG(IR_R9),
};

/* For an entry piece. words: as many as the record has; NULL: none. */
static struct ir_insert jifl_trace_record(u32 what, const struct ir_fetch *words)
{
	struct ir_insert ins = { .convention = true };

	jifl_ring_fill(&ins, what);
	if (words)
		jifl_trace_words(&ins, words);
	return ins;
}

static void jifl_trace_enter(struct ir_block *b, const struct jifl_session *s, bool values)
{
	jifl_trace_count(b, s);
	jifl_ring_insert(b, 0, (u32)b->addr.v);
	if (values)
		jifl_trace_words(jifl_ring_insert(b, 0, JIFL_RECORD_ARGUMENTS),
				 jifl_trace_arguments);
	if (s->flags & JIFL_FLAG_CLOCK)
		jifl_trace_words(jifl_ring_insert(b, 0, JIFL_RECORD_ENTERED), jifl_trace_tsc);
}

static void jifl_trace_leave(struct ir_block *b, const struct jifl_session *s, bool values)
{
	static const struct ir_fetch returned[] = { JIFL_TRACE_REG(IR_RAX) };
	const u16 last = b->ninsns - 1;

	if (values)
		jifl_trace_words(jifl_ring_insert(b, last, JIFL_RECORD_RETURNED), returned);
	if (s->flags & JIFL_FLAG_CLOCK)
		jifl_trace_words(jifl_ring_insert(b, last, JIFL_RECORD_LEFT), jifl_trace_tsc);
	else
		jifl_ring_insert(b, last, JIFL_RECORD_RETURN);
}

/*
 * A function may end by a jump to another one, which returns in its place. To know that, symbols
 * are looked up, so it is recorded with JIFL_FLAG_CLOCK alone.
 */
static void jifl_trace_jump(struct ir_block *b)
{
	struct jifl_way_out out;

	jifl_routine_way_out(b, &out);
	if (out.kind == JIFL_JUMPS)
		jifl_trace_words(jifl_ring_record(b, out.place, b->ninsns - 1, JIFL_RECORD_JUMPED),
				 jifl_trace_tsc);
}

static void jifl_trace_instrument(struct ir_block *b, void *arg)
{
	const struct jifl_session *s = arg;
	const u8 last = b->insns[b->ninsns - 1].kind;
	const struct jifl_function *f = jifl_function_at(b->addr.v);
	/* Functions without fentry are assembly, which may not follow the calling convention. */
	const bool values = s->flags & JIFL_FLAG_VALUES && f->fentry;
	const bool starts = f->start == b->addr.v;

	jifl_count_attribute(arg);
	if (starts)
		jifl_trace_enter(b, s, values);
	if (last == IR_RET || last == IR_RET_THUNK)
		jifl_trace_leave(b, s, values);
	else if (s->flags & JIFL_FLAG_CLOCK)
		jifl_trace_jump(b);
}

/*
 * The copy of a target begins behind the beginning of the function's first block. So its records
 * are made in the entry piece, with registers and stack pointer of the function's beginning.
 */
static u32 jifl_trace_skips(const struct jifl_session *s, const struct jifl_target *t,
			    struct ir_insert *entry)
{
	u32 n = 0;

	if (!jifl_target_skipped(t))
		return 0;
	entry[n++] = jifl_trace_entered(s);
	entry[n++] = jifl_trace_record((u32)t->id, NULL);
	if (s->flags & JIFL_FLAG_VALUES && jifl_target_site_bytes(t))
		entry[n++] = jifl_trace_record(JIFL_RECORD_ARGUMENTS, jifl_trace_arguments);
	if (s->flags & JIFL_FLAG_CLOCK)
		entry[n++] = jifl_trace_record(JIFL_RECORD_ENTERED, jifl_trace_tsc);
	return n;
}

static void jifl_trace_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
			     struct ir_insert *exit, u32 *nexit)
{
	jifl_count_entry(aim, entry, nentry, exit, nexit);
	if (aim->target->kind != JIFL_TARGET_SYSCALL)
		*nentry += jifl_trace_skips(aim->session, aim->target, entry + *nentry);
}

static int jifl_trace_open(struct jifl_session *s, u64 *busy_session)
{
	const bool words = s->flags & JIFL_FLAGS_FUNCTIONS;

	return jifl_tools_take_rings(s, words ? JIFL_RING_WORDS_ORDER : JIFL_RING_ORDER, words,
				     busy_session);
}

static const struct jifl_tool_records jifl_trace_records = {
	.results = true,
};

const struct jifl_tool jifl_tool_trace = {
	.name = "trace",
	.kind = JIFL_KIND_TRACE,
	.flags = JIFL_FLAGS_FUNCTIONS | JIFL_FLAG_WAIT | JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_FOLLOWED,
	.holds = true,
	.skips = jifl_trace_skips,
	.records = &jifl_trace_records,
	.shows_addresses = true,
	.instrument = jifl_trace_instrument,
	.open = jifl_trace_open,
	.entry = jifl_trace_entry,
};
