// SPDX-License-Identifier: GPL-2.0
/*
 * Records of random numbers before each instruction, and lines; see inserts.h. Behind each stands a
 * call with all registers, which computes the same from the ops. Some have no such call, so that
 * registers are dead there.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "inserts.h"
#include "terms.h"
#include "unit.h"

u64 hits_recorded, hits_left, hits_wrong;

enum { VALUES_AT = 64, RING = 1 << 12, CLOCK_AT = 8, CELL_AT = 16, TASK_AT = 24, STACK_AT = 32 };

/* With room for a record beyond its end. The second: of inserts that nobody checks. */
static u64 bytes[2][(RING + 512) / sizeof(u64)];
/*
 * In memory that is there twice, where 32 bits reach it, and at `apart` from there. An insert has
 * one of the two addresses.
 */
static struct cells {
	struct ir_hit_ring rings[2];
	u64 counts[2];
} *cells;
static u64 apart;
#define rings	(cells->rings)
#define counts	(cells->counts)
/* Likewise. */
enum { LINES = 64, TID_AT = 40, CONTEXT_AT = 4 };
static u64 lines[2][LINES][8];
static u64 nlines[2], nlines_known, line_after;
static struct ir_line_cpu line_cpus[2];
/* The second: by what lies between the two bytes of a context. */
static struct ir_line line_of[2][2];
static u64 stop_time, *stop = &stop_time;
static u64 counted, left_calls, left_known, unknown, unknown_known;
static const u8 *task = terms_memory;
static struct context seen;

/* What is inserted somewhere. There are many, but only so many are kept. */
enum { KEPT = 1 << 13 };
struct inserted {
	u64 seed;
	u64 place;
	bool has_condition;
	struct ir_terms condition;
	struct ir_hit hit;
};

static void make_cells(void)
{
	const int fd = memfd_create("cells", 0);
	void *far;

	REQUIRE(fd >= 0 && !ftruncate(fd, sizeof(*cells)));
	cells = mmap(NULL, sizeof(*cells), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_32BIT, fd, 0);
	far = mmap(NULL, sizeof(*cells), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQUIRE(cells != MAP_FAILED && far != MAP_FAILED);
	apart = (u64)(unsigned long)far - (u64)(unsigned long)cells;
	REQUIRE(jifl_fits_s32((s64)(unsigned long)cells) &&
		!jifl_fits_s32((s64)(unsigned long)far));
	close(fd);
}

void hits_begin(void)
{
	u32 i, gap;

	if (!cells)
		make_cells();
	memset(bytes, 0, sizeof(bytes));
	memset(cells, 0, sizeof(*cells));
	for (i = 0; i < 2; i++)
		rings[i] = (struct ir_hit_ring){ .data = (u64)(unsigned long)bytes[i],
						 .limit = i ? ~0ull : 0 };
	for (i = 0; i < 2; i++) {
		nlines[i] = 0;
		line_cpus[i] = (struct ir_line_cpu){ .count = (u64)(unsigned long)&nlines[i],
						     .mask = LINES - 1,
						     .lines = (u64)(unsigned long)lines[i],
						     .number = 3ull << 48 };
		for (gap = 0; gap < 2; gap++)
			line_of[i][gap] = (struct ir_line){
				.cpu = (s32)(unsigned long)&line_cpus[i],
				.task = (s32)(unsigned long)&task, .tid = TID_AT,
				.context = { (s32)(unsigned long)terms_memory + CONTEXT_AT,
					     (s32)(unsigned long)terms_memory + CONTEXT_AT + 1 +
					     (s32)gap },
			};
	}
	nlines_known = 0;
	stop_time = ~0ull;
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
	if (at[0] != (u64)(s64)(s32)in->seed || !at[CLOCK_AT / 8] ||
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

static bool is_line(const struct inserted *in, const u64 *values)
{
	const u64 n = nlines[0] - 1, *at = lines[0][n % LINES];
	u64 sum = 1, word, i, k = 0;
	u8 context_of[2];
	u16 context;
	u32 tid;

	copy(&tid, terms_memory + TID_AT, sizeof(tid));
	for (i = 0; i < 2; i++)
		copy(&context_of[i], (void *)(unsigned long)in->hit.line->context[i], 1);
	context = (u16)(context_of[0] | context_of[1] << 8);
	if (at[0] < line_after || at[0] > __rdtsc())
		return false;
	if (at[1] != ((u32)n | (u64)in->hit.event << 32 | 3ull << 48))
		return false;
	if ((at[2] & 0xffffffffffffull) != (tid | (u64)context << 32))
		return false;
	sum += at[0] + at[1] + tid + context;
	for (i = 0; i < IR_LINE_VALUES; i++) {
		if (in->hit.place && !i)
			word = (u64)(s64)(s32)in->place;
		else
			word = k < in->hit.nvalues ? values[k++] : 0;
		if (at[3 + i] != word)
			return false;
		sum += word;
	}
	return at[2] >> 48 == sum * IR_LINE_FACTOR >> 48;
}

/*
 * What must have happened: 1 a record or line, 2 only the count, 0 nothing, -1 it was left; -2 the
 * condition is unknown.
 */
static s32 wanted_of(const struct inserted *in, const struct context *c, u64 *values)
{
	u64 stack[IR_TERMS_STACK];

	if (in->has_condition && !terms_numbers(&in->condition, c, stack))
		return -2;
	if (in->has_condition && !stack[0])
		return 0;
	if (in->hit.values.n && !terms_numbers(&in->hit.values, c, values))
		return -1;
	if (in->hit.line)
		return !stop_time ? -1 : stop_time == 1 ? 2 : 1;
	return rings[0].head > rings[0].limit ? -1 : 1;
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
		right = head == counted + (wanted > 0 && !in->hit.line ? in->hit.size : 0) &&
			nlines[0] == nlines_known + (wanted == 1 && in->hit.line) &&
			counts[0] == hits_recorded + (wanted > 0) &&
			left_calls == left_known + (wanted == -1) &&
			unknown == unknown_known + (wanted == -2) &&
			(wanted != 1 || (in->hit.line ? is_line(in, values) :
							is_record(in, c, values))) &&
			(wanted != -1 || was_seen(c));
		if (!right && !hits_wrong++)
			unit_fail(__FILE__, __LINE__, "hits", "seed %#llx: %d", seed, wanted);
	}
	counted = head;
	nlines_known = nlines[0];
	line_after = __rdtsc();
	hits_recorded = counts[0];
	left_known = hits_left = left_calls;
	unknown_known = unknown;
	stop_time = seed % 5 > 1 ? ~0ull : seed % 5;
	/* Now and then there is no room for the next one. */
	rings[0].limit = head - (seed % 3 == 0 && head);
}

#pragma GCC pop_options

/* --- inserts ---------------------------------------------------------------------------------- */

/* Reads and calls are of both. */
static bool join(struct inserted *in)
{
	struct ir_hit *hit = &in->hit;

	hit->values.reads |= in->has_condition ? in->condition.reads : 0;
	hit->values.calls |= in->has_condition && in->condition.calls;
	in->condition.reads = hit->values.reads;
	in->condition.calls = hit->values.calls;
	return jifl_engine_takes_hit(hit, in->has_condition ? &in->condition : NULL);
}

static void make_line(struct inserted *in, u64 mixed, bool checked)
{
	struct ir_hit *hit = &in->hit;
	u64 seed = in->seed;

	do {
		*hit = (struct ir_hit){ .line = &line_of[!checked][mixed >> 50 & 1],
					.stop = (s32)(unsigned long)&stop,
					.event = (u16)(mixed >> 52), .place = mixed >> 51 & 1 };
		hit->nvalues = (mixed >> 42) % (IR_LINE_VALUES + 1 - hit->place);
		terms_set_loads(&hit->values);
		terms_set_loads(&in->condition);
		seed += 1ull << 50;
	} while ((hit->nvalues && !terms_make_numbers(&hit->values, seed, hit->nvalues)) ||
		 !terms_make_numbers(&in->condition, ~seed, 1) || !join(in));
}

static void make(struct inserted *in, u64 mixed, bool checked)
{
	static const struct ir_hit_word words[] = {
		{ IR_HIT_CLOCK, CLOCK_AT, 0 }, { IR_HIT_TASK, TASK_AT, 40 },
		{ IR_HIT_STACK, STACK_AT, 0 }, { IR_HIT_CELL, CELL_AT, 0 },
	};
	struct ir_hit *hit = &in->hit;
	u64 seed = in->seed;

	in->has_condition = mixed >> 40 & 1;
	if (mixed >> 39 & 1) {
		make_line(in, mixed, checked);
		return;
	}
	do {
		*hit = (struct ir_hit){ .ring = (u64)(unsigned long)&rings[!checked],
					.mask = RING - 1, .at = VALUES_AT,
					.task = (s32)(unsigned long)&task,
					.nvalues = 1 + (mixed >> 42) % 4 };
		hit->ring += mixed >> 36 & 1 ? apart : 0;
		hit->size = VALUES_AT + hit->nvalues * sizeof(u64);
		hit->nwords = JIFL_ARRAY_LEN(words);
		memcpy(hit->words, words, sizeof(words));
		hit->words[3].disp = (s32)(unsigned long)terms_memory + 4;
		terms_set_loads(&hit->values);
		terms_set_loads(&in->condition);
		seed += 1ull << 50;
	} while (!terms_make_numbers(&hit->values, seed, hit->nvalues) ||
		 !terms_make_numbers(&in->condition, ~seed, 1) || !join(in));
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

	if (!cells)
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
		in->place = b->insns[i].addr.v;
		checked = mixed >> 44 & 3;
		make(in, mixed, checked);
		ins = ir_block_insert_long(b, IR_BEFORE, i);
		ins->kind = IR_INSERT_HIT;
		ins->hit = &in->hit;
		ins->imm = (s32)in->seed;
		ins->counter = (u64)(unsigned long)&counts[!checked];
		ins->counter += mixed >> 37 & 1 ? apart : 0;
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
