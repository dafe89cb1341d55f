// SPDX-License-Identifier: GPL-2.0
/* From cache addresses back to original ones; the map itself: invariants.c. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

static u64 returns_to[16];
static u32 nreturns;

target_fn unit_hook_pointer = unit_hook;

unsigned long unit_hook(unsigned long n)
{
	if (nreturns < JIFL_ARRAY_LEN(returns_to))
		returns_to[nreturns++] = (u64)(unsigned long)__builtin_return_address(0);
	return n * 3;
}

/* Return addresses on the stack are exact, and are the native ones. */
UNIT_TEST(returns, "cache/where: return addresses are the original's")
{
	const struct insert_mode *mode;
	u64 native[3];
	jifl_orig orig;
	u32 i;

	CHECK_EQ(target_hooks(5), 3 * (5 + 6 + 7));
	memcpy(native, returns_to, sizeof(native));
	for (mode = insert_modes; mode->name; mode++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		nreturns = 0;
		CHECK_EQ(user_host_call(jifl_engine_context_create(mode->fn, NULL),
					target_hooks, 5), 3 * (5 + 6 + 7));
		for (i = 0; i < 3; i++) {
			CHECK_EQ_IN(mode->name, jifl_engine_where(returns_to[i], &orig),
				    JIFL_WHERE_EXACT);
			CHECK_EQ_IN(mode->name, orig.v, native[i]);
		}
		check_cache(mode->name);
	}
}

UNIT_TEST(outside, "cache/where: addresses that are no code")
{
	jifl_orig orig;
	u64 base;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	base = (u64)(unsigned long)user_host_code();
	CHECK_EQ(jifl_engine_where(base - 1, &orig), JIFL_WHERE_OUTSIDE);
	CHECK_EQ(jifl_engine_where(base + UNIT_CODE, &orig), JIFL_WHERE_OUTSIDE);
	CHECK_EQ(jifl_engine_where((u64)(unsigned long)target_hooks, &orig), JIFL_WHERE_OUTSIDE);
	user_host_call(jifl_engine_context_create(NULL, NULL), target_hooks, 1);
	CHECK_EQ(jifl_engine_where(base + cache.hot - 1, &orig), JIFL_WHERE_INSIDE);
	CHECK_EQ(jifl_engine_where(base + cache.hot, &orig), JIFL_WHERE_OUTSIDE);
	CHECK_EQ(jifl_engine_where(base + cache.hot_end - 1, &orig), JIFL_WHERE_OUTSIDE);
	CHECK_EQ(jifl_engine_where(base + cache.hot_end, &orig), JIFL_WHERE_INSIDE);
}

static u32 stores;

/* As many stores as fill the wanted number of bytes (12 or 9 each). */
static void insert_stores(struct ir_block *b, void *arg)
{
	static u64 cell;
	u32 i;

	for (i = 0; i < stores; i++) {
		struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, 0);

		ins->kind = IR_INSERT_STORE;
		ins->cell = user_host_operand(&cell);
	}
}

/*
 * Inserted code longer than a byte of the map says: exact at its start and
 * behind it, wherever the pieces of the map end. 85 stores are 1020 bytes, 4 * 255.
 */
UNIT_TEST(long_runs, "cache/where: long inserted code")
{
	u32 start, exact, off;
	jifl_orig orig;

	user_host_poison = false;	/* nothing but stores */
	for (stores = 1; stores < 100; stores++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		user_host_call(jifl_engine_context_create(insert_stores, NULL), target_hooks, 1);
		start = cache.blocks[0].start;
		exact = 0;
		for (off = 0; off <= stores * 12; off++)
			if (jifl_engine_where(cache_address(start + off), &orig) ==
			    JIFL_WHERE_EXACT) {
				CHECK_EQ(orig.v, (u64)(unsigned long)target_hooks);
				CHECK(off == 0 || off == stores * 12, "%u of %u", off, stores * 12);
				exact++;
			}
		CHECK(exact == 2, "%u stores: exact at %u places", stores, exact);
	}
}
