// SPDX-License-Identifier: GPL-2.0
/* Contexts: numbers, and code that belongs to one of them. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

UNIT_TEST(numbers, "run/contexts: as many as there is room for")
{
	int i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	for (i = 0; i < CACHE_CONTEXTS; i++)
		CHECK_EQ(jifl_engine_context_create(NULL, NULL), i);
	CHECK_EQ(jifl_engine_context_create(NULL, NULL), -JIFL_ENOSPC);
	jifl_engine_context_destroy(5);
	CHECK_EQ(jifl_engine_context_create(NULL, NULL), 5);
}

UNIT_TEST(thousands, "run/contexts: thousands run the same code, each its own copy")
{
	const struct target *t = &targets_plain[0];
	u64 want = t->fn(t->n), once;
	int i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	user_host_call(jifl_engine_context_create(insert_block_count, NULL), t->fn, t->n);
	once = block_count;
	for (i = 1; i < 3000; i++)
		CHECK_EQ(user_host_call(jifl_engine_context_create(insert_block_count, NULL),
					t->fn, t->n), want);
	CHECK_EQ(block_count, 3000 * once);
	CHECK(!jifl_engine_is_full());
	check_cache("thousands");
}

/* The number of a destroyed context is not given away while its blocks stand. */
UNIT_TEST(reuse, "run/contexts: a new context does not find an old one's blocks")
{
	const struct target *t = &targets_plain[0];
	int old, new;
	u64 counted;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	old = jifl_engine_context_create(insert_block_count, NULL);
	user_host_call(old, t->fn, t->n);
	counted = block_count;
	CHECK(counted, "nothing was counted");
	jifl_engine_context_destroy(old);
	new = jifl_engine_context_create(NULL, NULL);
	CHECK(new != old);
	CHECK_EQ(user_host_call(new, t->fn, t->n), t->fn(t->n));
	CHECK_EQ(block_count, counted);
	check_cache("reuse");
	jifl_engine_context_destroy(new);
	jifl_engine_reset();
	CHECK_EQ(jifl_engine_context_create(NULL, NULL), old);
}

static void note_arg(struct ir_block *b, void *arg)
{
	*(u64 *)arg += b->count;
}

UNIT_TEST(callback, "run/contexts: the callback gets each block once, and its argument")
{
	const struct target *t = &targets_plain[0];
	struct jifl_engine_stats st;
	u64 seen = 0;
	int context;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	context = jifl_engine_context_create(note_arg, &seen);
	user_host_call(context, t->fn, t->n);
	jifl_engine_stats(&st);
	CHECK_EQ(seen, st.translated_insns);
	user_host_call(context, t->fn, t->n + 1);
	CHECK_EQ(seen, st.translated_insns);
}
