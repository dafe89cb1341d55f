// SPDX-License-Identifier: GPL-2.0
/* Inline caches are put in order by their hits. */
#include <sys/mman.h>

#include "../inserts.h"
#include "../invariants.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

/* Functions `lea n(%rdi), %rax; ret` and sites `sub $8, rsp; call *rsi; add $8, rsp; ret`. */
enum { FUNCTIONS = 8, SITES = JIFL_TRAINING_SITES + 4 };
static u8 code[16 * (FUNCTIONS + SITES)] __attribute__((aligned(4096)));

static u64 function(u32 n)
{
	return (u64)(unsigned long)(code + 16 * n);
}

static const u8 *site(u32 n)
{
	return code + 16 * (FUNCTIONS + n);
}

static int begin(void)
{
	static const u8 lea[] = { 0x48, 0x8d, 0x47, 0, 0xc3 };
	static const u8 through[] = "\x48\x83\xec\x08\xff\xd6\x48\x83\xc4\x08\xc3";
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	for (i = 0; i < FUNCTIONS; i++) {
		memcpy(code + 16 * i, lea, sizeof(lea));
		code[16 * i + 3] = i;
	}
	for (i = 0; i < SITES; i++)
		memcpy(code + 16 * (FUNCTIONS + i), through, sizeof(through));
	user_host_set_text(code, sizeof(code), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	return jifl_engine_context_create(insert_block_count, NULL);
}

static void call(int context, u32 n, u32 f, u32 times)
{
	while (times--)
		CHECK_EQ(user_host_call(context, site(n), 5, function(f)), 5 + code[16 * f + 3]);
}

static u64 dispatches(void)
{
	struct jifl_engine_stats st;

	jifl_engine_stats(&st);
	return st.dispatches;
}

/* The last made of site n, by its block. */
static const struct cache_exit *exit_of(int context, u32 n)
{
	u32 block = jifl_cache_find(context, jifl_orig_at((u64)(unsigned long)site(n))), i;

	for (i = 0; i < cache.nexits; i++)
		if (cache.exits[i].kind == CACHE_EXIT_INDIRECT && cache.exits[i].block == block)
			return &cache.exits[i];
	REQUIRE(false, "site %u has no exit", n);
	return NULL;
}

/* The cells with which it trains; JIFL_TRAINING_SITES: none. */
static u32 slot_of(int context, u32 n)
{
	u32 exit = (u32)(exit_of(context, n) - cache.exits), i;

	for (i = 0; i < JIFL_TRAINING_SITES; i++)
		if (cache.training[i] == exit)
			break;
	return i;
}

static bool is_training(int context, u32 n)
{
	return slot_of(context, n) < JIFL_TRAINING_SITES;
}

/* Its functions as digits, the first compared first; that they are is check_cache's. */
static u32 order(int context, u32 n)
{
	const struct cache_exit *x = exit_of(context, n);
	u32 i, digits = 0;

	check_cache("order");
	for (i = 0; i < x->chained && i < CACHE_CHAIN_MAX; i++)
		digits = 10 * digits +
			 (cache.exits[x->next + i].target - (u32)function(0)) / 16;
	return digits;
}

UNIT_TEST(skewed, "cache/training: the target that comes most often is compared first")
{
	int context = begin();
	u64 before;
	u32 i;

	call(context, 0, 1, 200);
	CHECK(!is_training(context, 0));
	for (i = 2; i < 5; i++)
		call(context, 0, i, 1);
	CHECK(is_training(context, 0));
	CHECK_EQ(order(context, 0), 1234);
	before = dispatches();
	for (i = 0; i < JIFL_TRAINING_HITS / 8; i++) {
		call(context, 0, 1, 1);
		call(context, 0, 2, 4);
		call(context, 0, 3, 8 - !i);	/* one was its first */
		call(context, 0, 4, 3);
	}
	CHECK_EQ(dispatches(), before);
	CHECK_EQ(order(context, 0), 1234);
	/* One more than it takes, if its first was not counted. */
	call(context, 0, 3, 2);
	CHECK_EQ(dispatches(), before + 1);
	CHECK_EQ(order(context, 0), 3241);
	CHECK(!is_training(context, 0));
	for (i = 1; i < 5; i++)
		call(context, 0, i, 3 * JIFL_TRAINING_HITS);
	CHECK_EQ(dispatches(), before + 1);
}

UNIT_TEST(again, "cache/training: a new target begins it again, the lookup comes behind it")
{
	int context = begin();
	u64 before;

	call(context, 0, 1, 1);
	call(context, 0, 2, 1 + 2 * JIFL_TRAINING_HITS);
	CHECK_EQ(order(context, 0), 21);
	call(context, 0, 3, 1 + 2 * JIFL_TRAINING_HITS);
	CHECK_EQ(order(context, 0), 321);
	call(context, 0, 1, 3 * JIFL_TRAINING_HITS);
	CHECK_EQ(order(context, 0), 321);
	call(context, 0, 4, 2);
	call(context, 0, 5, 2);
	CHECK(is_training(context, 0));
	call(context, 0, 1, 1 + JIFL_TRAINING_HITS);
	CHECK_EQ(order(context, 0), 1324);
	before = dispatches();
	call(context, 0, 5, 3 * JIFL_TRAINING_HITS);
	CHECK_EQ(dispatches(), before);
}

/* A thread in a chain that was longer has counted in a cell of no target. */
UNIT_TEST(stray, "cache/training: a cell that is not the site's moves none of its targets")
{
	int context = begin();
	u64 before;
	u32 first;

	call(context, 0, 1, 2);
	call(context, 0, 2, 2);
	REQUIRE(is_training(context, 0));
	first = slot_of(context, 0) * CACHE_CHAIN_MAX;
	jifl_host_training_set(first + 3, 1, -1);
	jifl_host_training_set(first, 1, 0);
	call(context, 0, 1, 1);
	CHECK(!is_training(context, 0));
	CHECK_EQ(order(context, 0), 12);
	before = dispatches();
	call(context, 0, 1, 3);
	call(context, 0, 2, 3);
	CHECK_EQ(dispatches(), before);
}

static void change(u32 f)
{
	code[16 * f + 3]++;
	jifl_engine_invalidate(jifl_orig_at(function(f)), 5);
}

UNIT_TEST(changed, "cache/training: targets and sites that change meanwhile")
{
	int context = begin();

	call(context, 0, 1, 1);
	call(context, 0, 2, 10);
	change(2);
	call(context, 0, 1, 5);
	call(context, 0, 2, 1 + JIFL_TRAINING_HITS);
	change(1);
	CHECK_EQ(order(context, 0), 21);
	call(context, 0, 1, 2);
	change(2);
	call(context, 0, 2, 2);
	CHECK_EQ(order(context, 0), 21);
	/* The site itself: its cells are free, and it begins anew. */
	call(context, 0, 3, 1);
	CHECK(is_training(context, 0));
	jifl_engine_invalidate(jifl_orig_at((u64)(unsigned long)site(0)), 1);
	call(context, 0, 3, 1);
	CHECK(!is_training(context, 0));
	call(context, 0, 1, 1);
	CHECK(is_training(context, 0));
	CHECK_EQ(order(context, 0), 31);
}

UNIT_TEST(many, "cache/training: for more sites than cells the first ends early")
{
	int context = begin();
	u32 i, training = 0;

	for (i = 0; i < SITES; i++) {
		call(context, i, 1, 1);
		call(context, i, 2, 4);
	}
	for (i = 0; i < SITES; i++) {
		CHECK_EQ(is_training(context, i), i >= SITES - JIFL_TRAINING_SITES);
		training += is_training(context, i);
		CHECK_EQ(order(context, i), is_training(context, i) ? 12 : 21);
	}
	CHECK_EQ(training, JIFL_TRAINING_SITES);
	for (i = 0; i < SITES; i++)
		call(context, i, 2, 1 + JIFL_TRAINING_HITS);
	for (i = 0; i < SITES; i++) {
		CHECK(!is_training(context, i));
		CHECK_EQ(order(context, i), 21);
	}
}

UNIT_TEST(gone, "cache/training: contexts that are destroyed and resets give cells back")
{
	int context = begin(), other = jifl_engine_context_create(NULL, NULL);
	u32 i, chain;

	for (i = 0; i < JIFL_TRAINING_SITES; i++) {
		call(context, i, 1, 1);
		call(context, i, 2, 1);
	}
	chain = exit_of(context, 0)->next;
	jifl_engine_context_destroy(context);
	for (i = 0; i < JIFL_TRAINING_SITES; i++) {
		call(other, i, 1, 1);
		call(other, i, 2, 1);
	}
	for (i = 0; i < JIFL_TRAINING_SITES; i++)
		CHECK(is_training(other, i) && !is_training(context, i));
	/* Nobody came there: nothing was made anew. */
	CHECK_EQ(exit_of(context, 0)->next, chain);
	check_cache("destroyed");
	jifl_engine_reset();
	for (i = 0; i < JIFL_TRAINING_SITES; i++)
		CHECK_EQ(cache.training[i], CACHE_NONE);
	call(other, 0, 1, 1);
	call(other, 0, 2, 1);
	CHECK(is_training(other, 0));
}
