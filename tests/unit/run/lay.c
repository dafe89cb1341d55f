// SPDX-License-Identifier: GPL-2.0
/* Layouts: blocks made anew in another order. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"
#include "../../../engine/decode/decode.h"

#define CHAIN 200	/* more than a unit has */

static bool is_any(const struct ir_block *b, const void *arg)
{
	(void)b;
	(void)arg;
	return true;
}

static u32 below(u32 n)
{
	static u64 state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (u32)(state >> 33) % n;
}

/* The two ways on from the block at addr; v 0: none. False: nothing is copied there. */
static bool ways_on(jifl_orig addr, jifl_orig way[2])
{
	static struct ir_block b;
	const struct ir_insn *last;
	const unsigned long cookie = jifl_host_lock();
	const bool whole = jifl_decode_block(addr, &b) == JIFL_CAUSE_NONE;

	jifl_host_unlock(cookie);
	if (!whole)
		return false;
	last = &b.insns[b.ninsns - 1];
	way[0] = last->kind == IR_JMP ? last->target : b.next;
	way[1] = last->kind == IR_JCC ? last->target : jifl_orig_at(0);
	return true;
}

static bool in_chain(const jifl_orig *chain, u32 n, jifl_orig addr)
{
	while (n--)
		if (chain[n].v == addr.v)
			return true;
	return false;
}

/* A chain from addr on, over blocks that the context has, with random ways at branches. */
static u32 random_chain(int context, jifl_orig addr, jifl_orig *chain)
{
	jifl_orig way[2];
	u32 n = 0, pick;

	while (n < CHAIN && addr.v && jifl_engine_has(context, addr) &&
	       !in_chain(chain, n, addr)) {
		chain[n++] = addr;
		if (!ways_on(addr, way))
			break;
		pick = below(2);
		addr = way[pick].v ? way[pick] : way[!pick];
	}
	return n;
}

static const struct cache_block *block_of(int context, jifl_orig addr)
{
	return &cache.blocks[jifl_cache_find(context, addr)];
}

/* Lays random chains over all that the context has. Returns the number of blocks laid. */
static u32 lay_all(const char *name, int context, struct jifl_warmed_cost *cost)
{
	static jifl_orig chain[CHAIN];
	const u32 nblocks = cache.nblocks;
	enum jifl_warmed result;
	u32 i, n, k, laid, all = 0;

	for (i = 0; i < nblocks; i++) {
		const struct cache_block *b = &cache.blocks[i];

		if (b->context != context || b->flags & (CACHE_BLOCK_NATIVE | CACHE_BLOCK_ENTRY) ||
		    below(2))
			continue;
		n = random_chain(context, cache_orig(b->orig), chain);
		if (!n)
			continue;
		laid = jifl_engine_lay(context, chain, n, is_any, NULL, 0, &result, cost);
		CHECK(laid && laid <= n && result == JIFL_WARMED_MADE, "%s: %u of %u", name, laid, n);
		for (k = 1; k < laid; k++)
			CHECK_EQ_IN(name, block_of(context, chain[k])->start,
				    block_of(context, chain[k - 1])->start +
				    block_of(context, chain[k - 1])->len);
		all += laid;
	}
	return all;
}

/* What a run has counted. */
struct counted {
	u64 blocks, insns, taken, not_taken;
};

static struct counted counted_in(const struct target *t, int context)
{
	const u64 want = t->fn(t->n);
	const struct counted before = { block_count, ins_count, edges.taken, edges.not_taken };

	CHECK_EQ_IN(t->name, user_host_call(context, t->fn, t->n), want);
	return (struct counted){
		block_count - before.blocks, ins_count - before.insns,
		edges.taken - before.taken, edges.not_taken - before.not_taken,
	};
}

/* Is what it counts the same in each run? Others count by chance, or by addresses. */
static bool is_exact(jifl_instrument_fn fn)
{
	return !fn || fn == insert_block_count || fn == insert_ins_count || fn == insert_edges;
}

/* Returns the number of blocks laid. */
static u32 same_in(const struct target *t, jifl_instrument_fn fn, struct jifl_warmed_cost *cost)
{
	const int context = jifl_engine_context_create(fn, NULL);
	struct counted first, now;
	u32 round, laid = 0;

	counted_in(t, context);
	first = counted_in(t, context);
	for (round = 0; round < 3; round++) {
		laid += lay_all(t->name, context, cost);
		now = counted_in(t, context);
		check_cache(t->name);
		if (!is_exact(fn))
			continue;
		CHECK_EQ_IN(t->name, now.blocks, first.blocks);
		CHECK_EQ_IN(t->name, now.insns, first.insns);
		CHECK_EQ_IN(t->name, now.taken, first.taken);
		CHECK_EQ_IN(t->name, now.not_taken, first.not_taken);
	}
	return laid;
}

UNIT_TEST(lay_same, "run/lay: code in any order has the same results and counts")
{
	static const struct target *tables[] = {
		targets_plain, targets_slow, targets_thunk, targets_kernel, targets_asm,
	};
	struct jifl_warmed_cost cost = { 0 };
	const struct insert_mode *mode;
	const struct target *t;
	u32 i, laid;

	for (mode = insert_modes; mode->name; mode++) {
		for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
			user_host_init(4 * UNIT_CODE, 4 * UNIT_SIDE);
			insert_begin();
			laid = 0;
			for (t = tables[i]; t->name; t++)
				laid += same_in(t, mode->fn, &cost);
			CHECK(laid, "%s", mode->name);
		}
	}
	CHECK(cost.blocks && cost.insns > cost.blocks);
}

/* Is `to` where arg says? It is outside of the context then. */
static bool is_that(jifl_orig from, jifl_orig to, bool call, void *arg)
{
	(void)from;
	(void)call;
	return to.v == *(const u64 *)arg;
}

UNIT_TEST(lay_limited, "run/lay: what is outside of a limited context is not laid")
{
	static u64 outside;
	const struct target *t = targets_plain;
	const jifl_orig chain[] = { jifl_orig_at((u64)(unsigned long)t->fn) };
	struct jifl_warmed_cost cost = { 0 };
	enum jifl_warmed result;
	int context;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	context = jifl_engine_context_create(insert_block_count, &outside);
	jifl_engine_context_limit(context, is_that);
	outside = chain[0].v;
	CHECK_EQ(jifl_engine_lay(context, chain, 1, is_any, NULL, 0, &result, &cost), 0);
	CHECK_EQ(result, JIFL_WARMED_OTHER);
	outside = 0;
	CHECK_EQ(jifl_engine_lay(context, chain, 1, is_any, NULL, 0, &result, &cost), 1);
	CHECK_EQ(result, JIFL_WARMED_MADE);
	CHECK_EQ_IN(t->name, user_host_call(context, t->fn, t->n), t->fn(t->n));
	check_cache(t->name);
}
