// SPDX-License-Identifier: GPL-2.0
/*
 * Records of random numbers before each instruction; see inserts.h. Behind each stands a call with
 * all registers, which computes the same from the ops. Some have no such call, so that registers
 * are dead there.
 */
#include <stdlib.h>

#include "inserts.h"
#include "terms.h"
#include "unit.h"

u64 hits_recorded, hits_left, hits_wrong;

enum { VALUES_AT = 64, RING = 1 << 12, CLOCK_AT = 8, CELL_AT = 16, TASK_AT = 24, STACK_AT = 32 };

/* With room for a record beyond its end. The second: of inserts that nobody checks. */
static u64 bytes[2][(RING + 512) / sizeof(u64)];
static struct ir_hit_ring rings[2];
static u64 counts[2], counted, left_calls, left_known, unknown, unknown_known;
static const u8 *task = terms_memory;
static struct context seen;

/* What is inserted somewhere. There are many, but only so many are kept. */
enum { KEPT = 1 << 13 };
struct inserted {
	u64 seed;
	bool has_condition;
	struct ir_terms condition;
	struct ir_hit hit;
};

void hits_begin(void)
{
	u32 i;

	memset(bytes, 0, sizeof(bytes));
	memset(counts, 0, sizeof(counts));
	for (i = 0; i < 2; i++)
		rings[i] = (struct ir_hit_ring){ .data = (u64)(unsigned long)bytes[i],
						 .limit = i ? ~0ull : 0 };
	hits_recorded = hits_left = hits_wrong = 0;
	counted = left_calls = left_known = unknown = unknown_known = 0;
}

/* --- as analysis routines, without vector registers ------------------------------------------- */

#pragma GCC push_options
#pragma GCC target("general-regs-only")

static void copy(void *to, const void *from, u64 n)
{
	asm volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (n) : : "memory");
}

/* Called where a record is left to the host; the second where nobody checks it. */
static void left(const struct inserted *in, const struct context *c)
{
	left_calls++;
	copy(&seen, c, sizeof(seen));
}

static void left_unchecked(const struct inserted *in, const struct context *c)
{
	counts[1]++;
}

static bool was_seen(const struct context *c)
{
	const u64 *a = (const u64 *)c, *b = (const u64 *)&seen;
	u32 i;

	for (i = 0; i < sizeof(*c) / sizeof(*a) && a[i] == b[i]; i++)
		;
	return i == sizeof(*c) / sizeof(*a);
}

static bool is_record(const struct inserted *in, const struct context *c, const u64 *values)
{
	const u64 *at = &bytes[0][counted % RING / sizeof(u64)];
	u64 wanted, i;

	copy(&wanted, terms_memory + 40, sizeof(wanted));
	if (at[0] != (in->hit.size | (u64)(u32)in->seed << 32) || !at[CLOCK_AT / 8] ||
	    at[TASK_AT / 8] != wanted)
		return false;
	/* By what was pushed, and by the red zone. */
	if (c->sp - at[STACK_AT / 8] > 512)
		return false;
	copy(&wanted, terms_memory + 4, sizeof(wanted));
	if ((u32)at[CELL_AT / 8] != (u32)wanted)
		return false;
	for (i = 0; i < in->hit.nvalues; i++)
		if (at[VALUES_AT / 8 + i] != values[i])
			return false;
	return true;
}

/* What must have happened: 1 a record, 0 nothing, -1 it was left; -2 the condition is unknown. */
static s32 wanted_of(const struct inserted *in, const struct context *c, u64 *values)
{
	u64 stack[IR_TERMS_STACK];

	if (in->has_condition && !terms_numbers(&in->condition, c, stack))
		return -2;
	if (in->has_condition && !stack[0])
		return 0;
	if (!terms_numbers(&in->hit.values, c, values) || rings[0].head > rings[0].limit)
		return -1;
	return 1;
}

static void check(const struct context *c, const struct inserted *in, u64 seed)
{
	/* What was before the insert. */
	const u64 head = rings[0].head;
	u64 values[IR_TERMS_STACK];
	bool right = true;
	s32 wanted;

	if (in->seed == seed) {
		rings[0].head = counted;
		wanted = wanted_of(in, c, values);
		rings[0].head = head;
		right = head == counted + (wanted > 0 ? in->hit.size : 0) &&
			counts[0] == hits_recorded + (wanted > 0) &&
			left_calls == left_known + (wanted == -1) &&
			unknown == unknown_known + (wanted == -2) &&
			(wanted <= 0 || is_record(in, c, values)) &&
			(wanted != -1 || was_seen(c));
		if (!right && !hits_wrong++)
			unit_fail(__FILE__, __LINE__, "hits", "seed %#llx: %d", seed, wanted);
	}
	counted = head;
	hits_recorded = counts[0];
	left_known = hits_left = left_calls;
	unknown_known = unknown;
	/* Now and then there is no room for the next one. */
	rings[0].limit = head - (seed % 3 == 0 && head);
}

#pragma GCC pop_options

/* --- inserts ---------------------------------------------------------------------------------- */

static void make(struct inserted *in, u64 mixed, bool checked)
{
	static const struct ir_hit_word words[] = {
		{ IR_HIT_CLOCK, CLOCK_AT, 0 }, { IR_HIT_TASK, TASK_AT, 40 },
		{ IR_HIT_STACK, STACK_AT, 0 }, { IR_HIT_CELL, CELL_AT, 0 },
	};
	struct ir_hit *hit = &in->hit;
	u64 seed = in->seed;

	in->has_condition = mixed >> 40 & 1;
	do {
		*hit = (struct ir_hit){ .ring = (u64)(unsigned long)&rings[!checked],
					.mask = RING - 1, .at = VALUES_AT,
					.task = (s32)(unsigned long)&task,
					.nvalues = 1 + (mixed >> 42) % 4 };
		hit->size = VALUES_AT + hit->nvalues * sizeof(u64);
		hit->nwords = JIFL_ARRAY_LEN(words);
		memcpy(hit->words, words, sizeof(words));
		hit->words[3].disp = (s32)(unsigned long)terms_memory + 4;
		terms_set_loads(&hit->values);
		terms_set_loads(&in->condition);
		seed += 1ull << 50;
		if (!terms_make_numbers(&hit->values, seed, hit->nvalues) ||
		    !terms_make_numbers(&in->condition, ~seed, 1))
			continue;
		hit->values.reads |= in->has_condition ? in->condition.reads : 0;
		hit->values.calls |= in->has_condition && in->condition.calls;
		in->condition.reads = hit->values.reads;
		in->condition.calls = hit->values.calls;
		if (jifl_engine_takes_hit(hit, in->has_condition ? &in->condition : NULL))
			return;
	} while (true);
}

void insert_hits(struct ir_block *b, void *arg)
{
	/* Not in the program: tables are made for all of its addresses (host/user/targets.c). */
	static struct inserted *all;
	static u32 next;
	struct inserted *in;
	struct ir_insert *ins;
	bool checked;
	u64 mixed;
	u16 i;

	if (!rings[0].data)
		hits_begin();
	if (!all)
		all = calloc(KEPT, sizeof(*all));
	for (i = 0; i < b->ninsns && ir_block_has_room(b, IR_INSERT_LONG + 1); i++) {
		mixed = (b->insns[i].addr.v + (insert_seed << 32)) * 0x9e3779b97f4a7c15;
		/* They are long, and a test's cache is small. */
		if (mixed >> 46 & 7)
			continue;
		in = &all[next++ % KEPT];
		in->seed = b->insns[i].addr.v + (insert_seed << 32);
		checked = mixed >> 44 & 3;
		make(in, mixed, checked);
		ins = ir_block_insert_long(b, IR_BEFORE, i);
		ins->kind = IR_INSERT_HIT;
		ins->hit = &in->hit;
		ins->imm = (s32)in->seed;
		ins->counter = (u64)(unsigned long)&counts[!checked];
		ins->fn = (u64)(unsigned long)(checked ? left : left_unchecked);
		ins->args[0] = (u64)(unsigned long)in;
		ins->args[1] = b->insns[i].addr.v;
		ins->terms = in->has_condition ? &in->condition : NULL;
		ins->unknown = checked ? (u64)(unsigned long)&unknown :
					 (u64)(unsigned long)&counts[1];
		ins->keeps = (u16)(mixed >> 48);
		ins->keeps_flags = mixed >> 41 & 1;
		if (!checked)
			continue;
		ins = ir_block_insert(b, IR_BEFORE, i);
		ins->kind = IR_INSERT_CALL;
		ins->fn = (u64)(unsigned long)check;
		ins->nargs = 3;
		ins->fetched = 1;
		ins->fetches[0] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT,
						     .disp = (s32)b->insns[i].addr.v };
		ins->args[1] = (u64)(unsigned long)in;
		ins->args[2] = in->seed;
	}
}
