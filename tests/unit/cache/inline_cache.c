// SPDX-License-Identifier: GPL-2.0
/* Indirect branches: inline caches, the lookup behind them, and targets beyond reach. */
#include <sys/mman.h>

#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

/* 32 functions `lea n(%rdi), %rax; ret`, 16 bytes apart. */
#define NFUNCTIONS 32
static u8 functions[16 * NFUNCTIONS] __attribute__((aligned(4096)));

/* sub $8, rsp; call *rsi (or *(rsi)); add $8, rsp; ret */
static u8 through_register[] = "\x48\x83\xec\x08\xff\xd6\x48\x83\xc4\x08\xc3";
static u8 through_memory[] = "\x48\x83\xec\x08\xff\x16\x48\x83\xc4\x08\xc3";

static u64 function(u32 n)
{
	return (u64)(unsigned long)(functions + 16 * n);
}

/* Lookups that end in retpolines, or, with jumping, a table of all addresses. */
static int begin_form(jifl_instrument_fn fn, bool jumping)
{
	static const u8 code[] = { 0x48, 0x8d, 0x47, 0, 0xc3 };
	u32 i;

	if (jumping)
		user_host_init_jumping(UNIT_CODE, UNIT_SIDE, true);
	else
		user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	for (i = 0; i < NFUNCTIONS; i++) {
		memcpy(functions + 16 * i, code, sizeof(code));
		functions[16 * i + 3] = i;
	}
	user_host_set_text(functions, sizeof(functions), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	user_host_set_text(through_register, sizeof(through_register), JIFL_TEXT_CODE, 0);
	user_host_set_text(through_memory, sizeof(through_memory), JIFL_TEXT_CODE, 0);
	mprotect(functions, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	return jifl_engine_context_create(fn, NULL);
}

static int begin(jifl_instrument_fn fn)
{
	return begin_form(fn, false);
}

static u64 dispatches(void)
{
	struct jifl_engine_stats st;

	jifl_engine_stats(&st);
	return st.dispatches;
}

static const struct cache_exit *indirect_exit(void)
{
	u32 i;

	for (i = 0; i < cache.nexits; i++)
		if (cache.exits[i].kind == CACHE_EXIT_INDIRECT)
			return &cache.exits[i];
	return NULL;
}

UNIT_TEST(growth, "cache/inline_cache: grows by one target at a time, then looks up")
{
	int context = begin(insert_block_count);
	u64 before;
	u32 i, k;

	for (i = 0; i < NFUNCTIONS; i++) {
		/* Known ones first: no dispatch for these. */
		before = dispatches();
		for (k = 0; k < i; k++)
			CHECK_EQ(user_host_call(context, through_register, 5, function(k)), 5 + k);
		CHECK_EQ(dispatches(), before);
		CHECK_EQ(user_host_call(context, through_register, 5, function(i)), 5 + i);
		/* One dispatch adds a target; the one that makes the cache full looks up. */
		CHECK_EQ(dispatches(), before + 1);
		CHECK_EQ(indirect_exit()->chained, i < CACHE_CHAIN_MAX ? i + 1 :
			 CACHE_CHAIN_MAX + 1);
		check_cache("growing");
	}
	CHECK_EQ(block_count, 6 * (NFUNCTIONS + NFUNCTIONS * (NFUNCTIONS - 1) / 2));
}

UNIT_TEST(memory, "cache/inline_cache: operands in memory are looked up")
{
	int context = begin(insert_block_count);
	u64 cell, before;
	u32 i, k;

	for (i = 0; i < NFUNCTIONS; i++) {
		before = dispatches();
		for (k = 0; k <= i; k++) {
			cell = function(k);
			CHECK_EQ(user_host_call(context, through_memory, 7,
						(u64)(unsigned long)&cell), 7 + k);
		}
		CHECK_EQ(dispatches(), before + 1);
	}
	check_cache("memory");
}

/* All sites know a target once one has met it: one dispatch for it, and no inline caches. */
static void meet_jumping(int context, const u8 *site, bool memory, u32 dispatched)
{
	u64 before, cell, argument;
	u32 i, k;

	for (i = 0; i < NFUNCTIONS; i++) {
		before = dispatches();
		for (k = 0; k <= i; k++) {
			cell = function(k);
			argument = memory ? (u64)(unsigned long)&cell : cell;
			CHECK_EQ(user_host_call(context, site, 5, argument), 5 + k);
		}
		CHECK_EQ(dispatches(), before + dispatched);
		check_cache("meeting");
	}
	CHECK(!indirect_exit(), "an inline cache");
}

UNIT_TEST(jumping, "cache/targets: where lookups jump, of registers and memory")
{
	int context = begin_form(insert_block_count, true);

	meet_jumping(context, through_register, false, 1);
	meet_jumping(context, through_memory, true, 0);
	CHECK_EQ(block_count, 2 * 6 * NFUNCTIONS * (NFUNCTIONS + 1) / 2);
}

UNIT_TEST(room, "cache/inline_cache: grows within the room that is left")
{
	u32 left, i;

	for (left = 64; left < 6000; left += 8) {
		int context = begin(NULL);

		for (i = 0; i < CACHE_CHAIN_MAX; i++)
			CHECK_EQ(user_host_call(context, through_register, 5, function(i)), 5 + i);
		/* Its block is there, so the lookup and the chain alone need room. */
		CHECK_EQ(user_host_call(context, functions + 16 * i, 5, 0), 5 + i);
		cache.cold_end = cache.cold + left;
		CHECK_EQ(user_host_call(context, through_register, 5, function(i)), 5 + i);
		CHECK(cache.cold <= cache.cold_end, "%u bytes left: %u more were taken", left,
		      cache.cold - cache.cold_end);
	}
}

static void change(bool jumping)
{
	int context = begin_form(NULL, jumping);
	u64 cell = function(1);
	u32 round;

	CHECK_EQ(user_host_call(context, through_register, 0, function(0)), 0);
	for (round = 1; round < 20; round++) {
		functions[3] = round;
		functions[16 + 3] = round + 1;
		jifl_engine_invalidate(jifl_orig_at(function(0)), 32);
		check_cache("changed");
		CHECK_EQ(user_host_call(context, through_register, 0, function(0)), round);
		CHECK(jumping || indirect_exit()->chained == 1, "%u targets",
		      indirect_exit()->chained);
		CHECK_EQ(user_host_call(context, through_memory, 0,
					(u64)(unsigned long)&cell), round + 1);
		check_cache("made anew");
	}
	/* Full, and then changed: the lookup forgets too. */
	for (round = 0; round < NFUNCTIONS; round++)
		CHECK_EQ(user_host_call(context, through_register, 100, function(round)),
			 100 + functions[16 * round + 3]);
	for (round = 0; round < NFUNCTIONS; round++) {
		functions[16 * round + 3] += 3;
		jifl_engine_invalidate(jifl_orig_at(function(round)), 5);
		CHECK_EQ(user_host_call(context, through_register, 100, function(round)),
			 100 + functions[16 * round + 3]);
	}
	check_cache("all changed");
}

UNIT_TEST(changed, "cache/inline_cache: targets that change are found again, and once")
{
	change(false);
	change(true);
}

/*
 * A function 2^45 above another: the low halves of the addresses are the same.
 * It runs natively, whatever is known of the other.
 */
/* So many sites with several targets that there are no exits left for them. */
static jifl_orig site(const u8 *sites, u32 i)
{
	return jifl_orig_at((u64)(unsigned long)(sites + 16 * i));
}

UNIT_TEST(exits, "cache/inline_cache: no room for another target")
{
	static u8 sites[16 * 512];
	enum jifl_cause cause;
	int context;
	u32 i, k;

	begin(NULL);
	user_host_init(UNIT_CODE, 65536);
	context = jifl_engine_context_create(NULL, NULL);
	for (i = 0; i < 512; i++)
		memcpy(sites + 16 * i, through_register, sizeof(through_register));
	user_host_set_text(sites, sizeof(sites), JIFL_TEXT_CODE, 0);
	mprotect((void *)((unsigned long)sites & ~4095ul), sizeof(sites) + 4096,
		 PROT_READ | PROT_WRITE | PROT_EXEC);
	for (i = 0; i < 512 && jifl_engine_enter(context, site(sites, i), &cause); i++)
		for (k = 0; k < 4 && !jifl_engine_is_full(); k++)
			CHECK_EQ(user_host_call(context, sites + 16 * i, 5, function(k)), 5 + k);
	/* An inline cache is made four times, and has ten links in all. */
	CHECK(i > 60 && i < 512 && jifl_engine_is_full(), "%u sites", i);
	/* What stands goes on. */
	for (k = 0; k < 8; k++)
		CHECK_EQ(user_host_call(context, sites, 5, function(k)), 5 + k);
	CHECK(cache.nexits <= cache.exits_max, "%u exits of %u", cache.nexits, cache.exits_max);
	check_cache("exits");
}

static void reach_far(bool jumping)
{
	int context = begin_form(NULL, jumping);
	void *page = (void *)(unsigned long)(function(0) + (1ull << 45));
	u64 far_one = function(3) + (1ull << 45), cell;
	u32 round;
	u8 *copy;

	copy = mmap(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	REQUIRE(copy == page, "mmap at %p", page);
	memcpy(copy, functions, sizeof(functions));
	copy[3 * 16 + 3] = 77;
	for (round = 0; round < 3; round++) {
		CHECK_EQ(user_host_call(context, through_register, 1, function(3)), 4);
		CHECK_EQ(user_host_call(context, through_register, 1, far_one), 78);
		cell = function(3);
		CHECK_EQ(user_host_call(context, through_memory, 1,
					(u64)(unsigned long)&cell), 4);
		cell = far_one;
		CHECK_EQ(user_host_call(context, through_memory, 1,
					(u64)(unsigned long)&cell), 78);
	}
	CHECK(user_host_exits[JIFL_CAUSE_FOREIGN] == 6, "%llu native exits",
	      user_host_exits[JIFL_CAUSE_FOREIGN]);
	check_cache("far");
	munmap(copy, 4096);
}

UNIT_TEST(far, "cache/inline_cache: addresses whose low halves are the same")
{
	reach_far(false);
	reach_far(true);
}
