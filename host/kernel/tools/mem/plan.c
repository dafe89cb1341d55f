// SPDX-License-Identifier: GPL-2.0
/*
 * Plans few records that tell all addresses that a block accesses.
 *
 * An address is base + index * scale + displacement. If no instruction writes base and index
 * between accesses, base + index * scale is recorded once, as a word, for all accesses that differ
 * only in the displacement. Words that can be read at the same place share a record, which is at
 * the cheapest such place. Each record has the stack pointer. The plan knows how pushes and similar
 * instructions move it, so accesses of the stack need no words. Neither do accesses at fixed
 * addresses.
 *
 * A place is the number of the instruction that follows it; the block's end is a place, too.
 */
#include <linux/minmax.h>
#include <linux/string.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "plan.h"

#define NO_KEY		0xff
#define MAX_KEYS	(3 * IR_BLOCK_INSNS)

/* A needed word: base + index * scale. */
struct jifl_plan_key {
	struct ir_fetch fetch;
	u16 base_from, index_from; /* places where the registers got these values */
	u16 from, at;		/* it can be read from `from` on, and is first used at `at` */
	struct jifl_mem_word word;
};

/* The plan in work; under the engine lock. */
static struct {
	const struct ir_block *b;
	struct jifl_mem_plan *p;
	struct jifl_plan_key keys[MAX_KEYS];
	u32 nkeys;
	/* For each access: its keys, or NO_KEY; and its instruction. */
	u8 base[JIFL_MEM_ACCESSES], repeats[JIFL_MEM_ACCESSES], left[JIFL_MEM_ACCESSES];
	u16 at[JIFL_MEM_ACCESSES];
	u16 written[16];	/* place since which each register has its value */
	bool backwards;
	/*
	 * For each place: since `from`, rsp has its value, which is `moved` bytes above its value
	 * at `base`. At `base` rsp last changed by an unknown amount.
	 */
	struct jifl_plan_stack {
		u16 from, base;
		s32 moved;
	} stack[IR_BLOCK_INSNS + 1];
} plan;

static u16 jifl_plan_written(u8 reg)
{
	return reg == IR_REG_NONE ? 0 : plan.written[reg];
}

/* The key of these registers at place `at`, which is made if it does not exist. */
static u8 jifl_plan_key_of(u8 base, u8 index, u8 scale, u16 at)
{
	const bool alone = index == IR_REG_NONE && base != IR_RSP;
	struct jifl_plan_key *key;
	u32 i;

	for (i = 0; i < plan.nkeys; i++) {
		key = &plan.keys[i];
		if (key->fetch.base == base && key->fetch.index == index &&
		    key->fetch.scale == scale && key->base_from == jifl_plan_written(base) &&
		    key->index_from == jifl_plan_written(index))
			return i;
	}
	if (plan.nkeys == MAX_KEYS) {
		plan.p->full = true;
		return NO_KEY;
	}
	key = &plan.keys[plan.nkeys++];
	*key = (struct jifl_plan_key){
		.fetch = { .how = alone ? IR_FETCH_REG : IR_FETCH_ADDRESS, .base = base,
			   .index = index, .scale = scale },
		.base_from = jifl_plan_written(base),
		.index_from = jifl_plan_written(index),
		.from = max(jifl_plan_written(base), jifl_plan_written(index)),
		.at = at,
	};
	return i;
}

static void jifl_plan_add_access(u16 i, const struct ins_memory *m)
{
	const struct ir_insn *insn = &plan.b->insns[i];
	const u8 bit = jifl_engine_bit_register(insn);
	u32 n = plan.p->naccesses;
	struct jifl_mem_access *a = &plan.p->accesses[n];

	if (n == JIFL_MEM_ACCESSES || m->disp != (s32)m->disp || m->segment == INS_SEGMENT_FS) {
		plan.p->full = true;
		return;
	}
	plan.p->naccesses++;
	*a = (struct jifl_mem_access){
		.disp = (s32)m->disp,
		.size = m->size,
		.insn_len = insn->len,
		.offset = insn->addr.v - plan.b->addr.v,
		.flags = (m->loads ? JIFL_ACCESS_LOAD : 0) | (m->stores ? JIFL_ACCESS_STORE : 0) |
			 (m->segment == INS_SEGMENT_GS ? JIFL_ACCESS_PERCPU : 0) |
			 (insn->repeat && plan.backwards ? JIFL_ACCESS_BACKWARDS : 0),
		.base = { .word = JIFL_ACCESS_NO_WORD },
		.repeats = { .word = JIFL_ACCESS_NO_WORD },
		.left = { .word = JIFL_ACCESS_NO_WORD },
	};
	plan.at[n] = i;
	plan.base[n] = plan.repeats[n] = plan.left[n] = NO_KEY;
	if (m->base == IR_RSP && m->index == IR_REG_NONE)
		a->base.word = JIFL_ACCESS_STACK;
	else if (m->base != IR_REG_NONE || m->index != IR_REG_NONE)
		plan.base[n] = jifl_plan_key_of(m->base, m->index, m->scale, i);
	/* It has no repetitions. */
	if (bit != IR_REG_NONE && !JIFL_HOST_PLANTED(bits_in_first_word)) {
		a->flags |= JIFL_ACCESS_BITS;
		plan.repeats[n] = jifl_plan_key_of(bit, IR_REG_NONE, 0, i);
	}
	if (insn->repeat)
		plan.repeats[n] = jifl_plan_key_of(IR_RCX, IR_REG_NONE, 0, i);
}

/* Notes that registers have the values that instruction i wrote, from place i + 1 on. */
static void jifl_plan_move_on(u16 i)
{
	const struct ir_insn *insn = &plan.b->insns[i];
	const struct jifl_plan_stack *before = &plan.stack[i];
	u16 reads, writes;
	u8 reg;
	s32 by;

	jifl_engine_uses(insn, &reads, &writes);
	for (reg = 0; reg < 16; reg++)
		if (writes & 1u << reg && !JIFL_HOST_PLANTED(bases_kept))
			plan.written[reg] = i + 1;
	plan.stack[i + 1] = *before;
	if (!jifl_engine_stack_moves(insn, &by))
		plan.stack[i + 1] = (struct jifl_plan_stack){ .from = i + 1, .base = i + 1 };
	else if (by)
		plan.stack[i + 1] = (struct jifl_plan_stack){ .from = i + 1, .base = before->base,
							      .moved = before->moved + by };
	plan.backwards = (plan.backwards || insn->sets_df) && !insn->clears_df;
}

/* repe and repne may stop early: the rest in rcx tells when. */
static void jifl_plan_add_left(u16 i, u32 first)
{
	u8 key;

	if (plan.b->insns[i].repeat != IR_REPEAT_WHILE)
		return;
	key = jifl_plan_key_of(IR_RCX, IR_REG_NONE, 0, i + 1);
	for (; first < plan.p->naccesses; first++)
		plan.left[first] = key;
}

static void jifl_plan_look_through(void)
{
	struct ins_memory m[4];
	u32 n, k, first;
	u16 i;

	for (i = 0; i < plan.b->ninsns; i++) {
		first = plan.p->naccesses;
		n = jifl_engine_accesses(&plan.b->insns[i], m, ARRAY_SIZE(m));
		for (k = 0; k < n; k++)
			jifl_plan_add_access(i, &m[k]);
		jifl_plan_move_on(i);
		jifl_plan_add_left(i, first);
	}
}

/* Adds a record at a place from `from` up to `at`, where rsp has its value of `at`. */
static struct jifl_mem_record *jifl_plan_add_record(u16 from, u16 at)
{
	struct jifl_mem_record *r;

	if (plan.p->nrecords == JIFL_MEM_RECORDS) {
		plan.p->full = true;
		return NULL;
	}
	r = &plan.p->records[plan.p->nrecords++];
	*r = (struct jifl_mem_record){ .from = max(from, plan.stack[at].from), .at = at };
	return r;
}

/* Keys are in the order of their first use. Each joins the last record, or begins a new one. */
static void jifl_plan_make_records(void)
{
	struct jifl_mem_record *r = NULL;
	struct jifl_plan_key *key;
	u32 i;

	for (i = 0; i < plan.nkeys; i++) {
		key = &plan.keys[i];
		if (r && r->nwords < JIFL_MEM_WORDS && key->from <= r->at)
			r->from = max(r->from, key->from);
		else
			r = jifl_plan_add_record(key->from, key->at);
		if (!r)
			return;
		key->word = (struct jifl_mem_word){ .record = r - plan.p->records,
						    .word = r->nwords };
		r->words[r->nwords++] = key->fetch;
	}
}

/* The last record up to `at`, or else the first; stack: only those that tell rsp at `at`. */
static struct jifl_mem_record *jifl_plan_record_for(u16 at, bool stack)
{
	struct jifl_mem_record *r, *best = NULL;
	u32 i;

	for (i = 0; i < plan.p->nrecords; i++) {
		r = &plan.p->records[i];
		if (stack && plan.stack[r->at].base != plan.stack[at].base)
			continue;
		if (!best || (r->at <= at && (best->at > at || r->at >= best->at)))
			best = r;
	}
	return best ?: jifl_plan_add_record(0, at);
}

static void jifl_plan_tell_one(u32 n)
{
	struct jifl_mem_access *a = &plan.p->accesses[n];
	const bool stack = a->base.word == JIFL_ACCESS_STACK;
	const u16 at = plan.at[n];
	struct jifl_mem_record *r;

	if (plan.repeats[n] != NO_KEY)
		a->repeats = plan.keys[plan.repeats[n]].word;
	if (plan.left[n] != NO_KEY)
		a->left = plan.keys[plan.left[n]].word;
	if (plan.base[n] != NO_KEY) {
		a->base = plan.keys[plan.base[n]].word;
		return;
	}
	r = jifl_plan_record_for(at, stack);
	if (!r)
		return;
	a->base.record = r - plan.p->records;
	if (stack)
		a->disp += plan.stack[at].moved - plan.stack[r->at].moved;
}

void jifl_mem_plan(const struct ir_block *b, struct jifl_mem_plan *p)
{
	u32 n;

	plan.b = b;
	plan.p = p;
	plan.nkeys = 0;
	plan.backwards = false;
	memset(plan.written, 0, sizeof(plan.written));
	memset(&plan.stack[0], 0, sizeof(plan.stack[0]));
	p->naccesses = p->nrecords = 0;
	p->full = false;
	jifl_plan_look_through();
	jifl_plan_make_records();
	for (n = 0; n < p->naccesses; n++)
		jifl_plan_tell_one(n);
}
