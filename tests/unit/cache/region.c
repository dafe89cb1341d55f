// SPDX-License-Identifier: GPL-2.0
/* Memory of the cache: too little of it, and its use anew. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

static const struct target *const tables[] = { targets_plain, targets_thunk, targets_asm };

static void run_all(int context, const char *when)
{
	const struct target *t;
	u32 i, round;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++)
		for (t = tables[i]; t->name; t++)
			for (round = 0; round < 2; round++)
				CHECK_EQ_IN(when, user_host_call(context, t->fn, t->n),
					    t->fn(t->n));
}

/* user_host_call ends the program if a function cannot be entered. */
static bool can_enter(int context, const void *fn)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;

	if (jifl_engine_enter(context, jifl_orig_at((u64)(unsigned long)fn), &cause))
		return true;
	CHECK_EQ(cause, JIFL_CAUSE_MEMORY);
	return false;
}

static void run_what_fits(int context, const char *when)
{
	const struct target *t;
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++)
		for (t = tables[i]; t->name; t++)
			if (can_enter(context, t->fn))
				CHECK_EQ_IN(when, user_host_call(context, t->fn, t->n),
					    t->fn(t->n));
}

UNIT_TEST(full, "cache/region: with too little memory code runs natively, and right")
{
	static const struct { u32 code; u64 side; const char *name; } sizes[] = {
		{ 4096, 4 << 20, "one page of code" },
		{ 4096, 65536, "as little as there may be" },
		{ 8192, 4 << 20, "two pages" },
		{ 65536, 4 << 20, "little code" },
		{ 4 << 20, 65536, "few side tables" },
		{ 65536, 65536, "little of both" },
		{ 80000 & ~4095u, 300000, "odd sizes" },
		{ 131072, 4 << 20, "more code" },
		{ 4 << 20, 131072, "more side tables" },
	};
	const struct insert_mode *mode;
	struct jifl_engine_stats st;
	char when[80];
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(sizes); i++) {
		for (mode = insert_modes; mode->name; mode++) {
			snprintf(when, sizeof(when), "%s, %s", sizes[i].name, mode->name);
			user_host_init(sizes[i].code, sizes[i].side);
			run_what_fits(jifl_engine_context_create(mode->fn, NULL), when);
			check_cache(when);
			jifl_engine_stats(&st);
			CHECK(st.code_used <= sizes[i].code && st.side_used <= sizes[i].side,
			      "%s: %llu and %llu used", when, st.code_used, st.side_used);
			CHECK(jifl_engine_is_full() == (st.full != 0) || jifl_engine_is_full(),
			      "%s", when);
			if (st.full)
				CHECK(user_host_exits[JIFL_CAUSE_MEMORY], "%s: not counted", when);
		}
	}
	/* And in some of them it does get full. */
	user_host_init(65536, 65536);
	run_what_fits(jifl_engine_context_create(insert_poison, NULL), "full");
	CHECK(jifl_engine_is_full());
	jifl_engine_stats(&st);
	CHECK(st.full, "nothing was refused");
}

UNIT_TEST(refused, "cache/region: configurations that cannot work are refused")
{
	struct jifl_config good = user_host_config(UNIT_CODE, UNIT_SIDE), c;

	CHECK_EQ(jifl_engine_init(&good), 0);
	c = good;
	c.code_size = 2048;
	CHECK_EQ(jifl_engine_init(&c), -JIFL_EINVAL);
	c = good;
	c.side_size = 1000;
	CHECK_EQ(jifl_engine_init(&c), -JIFL_EINVAL);
	c = good;
	c.side = NULL;
	CHECK_EQ(jifl_engine_init(&c), -JIFL_EINVAL);
	c = good;
	c.code_base = 1ull << 40;
	CHECK_EQ(jifl_engine_init(&c), -JIFL_EINVAL);
	c = good;
	c.code_base = 0x7ffff000;
	CHECK_EQ(jifl_engine_init(&c), -JIFL_EINVAL);
}

/* Sizes of side memory that are no multiple of anything: tables do not overlap. */
UNIT_TEST(shares, "cache/region: side tables fit into their memory")
{
	u64 size;
	u8 *side, *end;

	for (size = 65536; size < 65536 + 2048; size += 4) {
		user_host_init(65536, size);
		side = (u8 *)cache.blocks;
		end = (u8 *)(cache.blocks + cache.blocks_max);
		CHECK(end <= (u8 *)cache.exits, "%llu: blocks", size);
		end = (u8 *)(cache.exits + cache.exits_max);
		CHECK(end <= cache.map, "%llu: exits", size);
		end = cache.map + cache.map_max;
		CHECK(end <= (u8 *)cache.hash, "%llu: map", size);
		end = (u8 *)(cache.hash + (1ull << cache.hash_bits));
		CHECK(end <= (u8 *)cache.waiting, "%llu: hash", size);
		end = (u8 *)(cache.waiting + (1ull << cache.hash_bits));
		CHECK(end <= side + size, "%llu: waiting", size);
		CHECK((u64)(unsigned long)cache.hash % 4 == 0, "%llu: alignment", size);
	}
}

UNIT_TEST(reset, "cache/region: after a reset everything begins anew")
{
	const struct insert_mode *mode;
	struct jifl_engine_stats st;
	int contexts[INSERT_MODES];
	u32 round, i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	for (i = 0; insert_modes[i].name; i++)
		contexts[i] = jifl_engine_context_create(insert_modes[i].fn, NULL);
	for (round = 0; round < 3; round++) {
		for (i = 0, mode = insert_modes; mode->name; mode++, i++)
			run_all(contexts[i], mode->name);
		check_cache("used");
		jifl_engine_reset();
		check_cache("after a reset");
		jifl_engine_stats(&st);
		CHECK_EQ(st.blocks, 0);
		CHECK_EQ(st.code_used, 0);
		CHECK(!jifl_engine_is_full());
		for (i = 0; i < UNIT_CODE; i++)
			if (user_host_code()[i] != 0xcc)
				break;
		CHECK(i == UNIT_CODE, "code at %#x is left over", i);
	}
}
