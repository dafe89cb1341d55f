// SPDX-License-Identifier: GPL-2.0
/* Blocks made before anything comes to them. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

static bool is_any(const struct ir_block *b, const void *arg)
{
	(void)b;
	(void)arg;
	return true;
}

/* Of so many bytes. */
static bool is_long(const struct ir_block *b, const void *arg)
{
	return b->src_len == *(const u32 *)arg;
}

static u64 dispatches(void)
{
	struct jifl_engine_stats st;

	jifl_engine_stats(&st);
	return st.dispatches;
}

static u64 translated(void)
{
	struct jifl_engine_stats st;

	jifl_engine_stats(&st);
	return st.translated_blocks;
}

/* Warms a context with what another one has; how many were made. */
static u32 warm_like(int from, int to, struct jifl_warmed_cost *cost)
{
	u32 n = cache.nblocks, made = 0, i;

	for (i = 0; i < n; i++) {
		const struct cache_block *b = &cache.blocks[i];
		u32 len = b->src_len;

		if (b->context == from && !(b->flags & (CACHE_BLOCK_NATIVE | CACHE_BLOCK_ENTRY)))
			made += jifl_engine_warm(to, cache_orig(b->orig), is_long, &len, cost) ==
				JIFL_WARMED_MADE;
	}
	return made;
}

UNIT_TEST(warm_same, "run/warm: warmed code translates next to nothing, and counts the same")
{
	const struct target *t;
	struct jifl_warmed_cost cost = { 0 };
	u64 want, before, cold, warm, blocks, counted;
	int from, to;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	for (t = targets_plain; t->name; t++) {
		from = jifl_engine_context_create(insert_block_count, NULL);
		to = jifl_engine_context_create(insert_block_count, NULL);
		want = t->fn(t->n);
		blocks = translated();
		before = dispatches();
		counted = block_count;
		CHECK_EQ_IN(t->name, user_host_call(from, t->fn, t->n), want);
		cold = dispatches() - before;
		blocks = translated() - blocks;
		counted = block_count - counted;

		warm_like(from, to, &cost);
		CHECK_EQ_IN(t->name, jifl_engine_has(to, jifl_orig_at((u64)(unsigned long)t->fn)),
			    1);
		before = dispatches();
		warm = translated();
		want = t->fn(t->n);
		counted += block_count;
		CHECK_EQ_IN(t->name, user_host_call(to, t->fn, t->n), want);
		CHECK_EQ_IN(t->name, block_count, counted);
		/* What runs natively is found when it is reached; indirect branches are, too. */
		warm = translated() - warm;
		CHECK(warm <= 2 && warm < blocks, "%s: %llu of %llu blocks", t->name,
		      (unsigned long long)warm, (unsigned long long)blocks);
		CHECK(dispatches() - before <= cold, "%s", t->name);
		check_cache(t->name);
	}
	CHECK(cost.blocks && cost.insns > cost.blocks);
}

static bool all_leaves(jifl_orig from, jifl_orig to, bool call, void *arg)
{
	return true;
}

UNIT_TEST(warm_landings, "run/warm: no thread goes on in a block that only leaves")
{
	const jifl_orig at = jifl_orig_at((u64)(unsigned long)targets_plain[0].fn);
	struct jifl_warmed_cost cost = { 0 };
	int context, limited;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	context = jifl_engine_context_create(NULL, NULL);
	limited = jifl_engine_context_create(NULL, NULL);
	jifl_engine_context_limit(limited, all_leaves);
	jifl_engine_warm(context, at, is_any, NULL, &cost);
	jifl_engine_warm(limited, at, is_any, NULL, &cost);
	CHECK_EQ(jifl_engine_has(limited, at), 1);
	CHECK(jifl_engine_landing(context, at, false), "a block to go on in");
	CHECK_EQ(jifl_engine_landing(limited, at, false), 0);
}

UNIT_TEST(warm_answers, "run/warm: what is there, is another, or is none")
{
	const struct target *t = &targets_plain[0];
	const jifl_orig at = jifl_orig_at((u64)(unsigned long)t->fn);
	struct jifl_warmed_cost cost = { 0 };
	const u32 wrong = 0xffff;
	int context;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	context = jifl_engine_context_create(NULL, NULL);
	CHECK_EQ(jifl_engine_has(context, at), 0);
	CHECK_EQ(jifl_engine_warm(context, at, is_long, &wrong, &cost), JIFL_WARMED_OTHER);
	CHECK_EQ(jifl_engine_has(context, at), 0);
	CHECK_EQ(cost.blocks, 0);
	CHECK_EQ(jifl_engine_warm(context, at, is_any, NULL, &cost), JIFL_WARMED_MADE);
	CHECK_EQ(jifl_engine_warm(context, at, is_any, NULL, &cost), JIFL_WARMED_THERE);
	/* Out of reach, and no text. */
	CHECK_EQ(jifl_engine_warm(context, jifl_orig_at(1ull << 40), is_any, NULL, &cost),
		 JIFL_WARMED_OTHER);
	CHECK_EQ(jifl_engine_warm(context, jifl_orig_at(8), is_any, NULL, &cost),
		 JIFL_WARMED_OTHER);
	check_cache("answers");
}

UNIT_TEST(warm_full, "run/warm: a quarter of the cache stays free")
{
	const struct target *t;
	struct jifl_warmed_cost cost = { 0 };
	enum jifl_warmed warmed = JIFL_WARMED_MADE;
	int i;

	user_host_init(1 << 20, 64 << 10);
	for (i = 0; i < CACHE_CONTEXTS && warmed != JIFL_WARMED_FULL; i++) {
		int context = jifl_engine_context_create(NULL, NULL);

		for (t = targets_plain; t->name && warmed != JIFL_WARMED_FULL; t++)
			warmed = jifl_engine_warm(context, jifl_orig_at((u64)(unsigned long)t->fn),
						  is_any, NULL, &cost);
	}
	CHECK_EQ(warmed, JIFL_WARMED_FULL);
	CHECK(!jifl_engine_is_full(), "it has filled the cache");
	CHECK(cost.blocks > 100, "%llu blocks", (unsigned long long)cost.blocks);
	check_cache("full");
}
