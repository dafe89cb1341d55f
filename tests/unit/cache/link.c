// SPDX-License-Identifier: GPL-2.0
/* Links between blocks: made in both directions, undone, made again. */
#include "../inserts.h"
#include "../invariants.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

#define BYTES(s) (s), sizeof(s) - 1

/* Generated code, in a page of its own. */
static u8 text[4096] __attribute__((aligned(4096)));

static u64 at(u32 offset)
{
	return (u64)(unsigned long)text + offset;
}

static void put(u32 offset, const void *bytes, u32 n)
{
	memcpy(text + offset, bytes, n);
}

/* jmp or call (opcode) from offset to offset. */
static void put_branch(u32 offset, u8 opcode, u32 to)
{
	s32 rel = (s32)(to - (offset + 5));

	text[offset] = opcode;
	memcpy(text + offset + 1, &rel, 4);
}

static int begin_text(jifl_instrument_fn fn)
{
	memset(text, 0xcc, sizeof(text));
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	return jifl_engine_context_create(fn, NULL);
}

static int begin(jifl_instrument_fn fn)
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	return begin_text(fn);
}

/* Not executed: only translated, one by one. */
static u32 make(int context, u32 offset)
{
	enum jifl_cause cause;

	jifl_engine_enter(context, jifl_orig_at(at(offset)), &cause);
	return jifl_cache_find(context, jifl_orig_at(at(offset)));
}

/* The direct exit to an offset. */
static const struct cache_exit *exit_to(u32 offset)
{
	u32 i;

	for (i = 0; i < cache.nexits; i++)
		if (cache.exits[i].kind == CACHE_EXIT_DIRECT &&
		    cache.exits[i].target == (u32)at(offset))
			return &cache.exits[i];
	REQUIRE(false, "no exit to %u", offset);
	return NULL;
}

/* Its branch leads to code other than its own stub. */
static bool is_linked(const struct cache_exit *x)
{
	return goes_to(x->site) != x->stub;
}

UNIT_TEST(both_ways, "cache/link: exits find blocks, and blocks exits that wait")
{
	int context = begin(NULL);

	/* 0: je 100; ret    100: je 0; ret    200: je 100; ret */
	put(0, BYTES("\x74\x62\xc3"));
	put(100, BYTES("\x74\x9a\xc3"));
	put(200, BYTES("\x74\x9a\xc3"));
	make(context, 0);
	CHECK_EQ(cache.nblocks, 2);	/* je and what follows it */
	CHECK(!is_linked(exit_to(100)), "an exit waits");
	make(context, 100);
	CHECK(is_linked(exit_to(100)), "a waiting exit is linked");
	CHECK(is_linked(exit_to(0)), "an exit to a block that is there is linked");
	make(context, 200);
	CHECK_EQ(cache.links, 3);
	check_cache("three blocks");
}

UNIT_TEST(one_unit, "cache/link: one unit, straight ahead")
{
	int context = begin(NULL);
	jifl_orig orig;
	u32 first;

	/* 0: nop; jmp 50   50: call 100; jmp 20   20: test; je 0; ret   100: ret */
	put(0, BYTES("\x90\xeb\x2f"));
	put_branch(50, 0xe8, 100);
	put_branch(55, 0xe9, 20);
	put(20, BYTES("\x85\xc0\x74\xe8\xc3"));
	put(100, BYTES("\xc3"));
	first = make(context, 0);
	CHECK_EQ(first, 0);
	/* 0, 50, 55, 20, 24 */
	CHECK_EQ(cache.nblocks, 5);
	/* A place where an int3 can be put: a nop. */
	CHECK_EQ(cache.blocks[0].len, 1);
	CHECK_EQ(cache.blocks[2].len, 1);
	CHECK_EQ(cache.blocks[3].orig, (u32)at(20));
	/* No jump is left: call, test, je, ret, and two nops. */
	CHECK(cache.hot <= 3 + 5 + 2 + 3 + 6 + 1 + 2, "%u bytes", cache.hot);
	CHECK(is_linked(exit_to(0)), "the way back");
	/* The nop stands for the last instruction. What left no code stands before it. */
	CHECK_EQ(jifl_engine_where_insn(cache_address(0), &orig), JIFL_WHERE_EXACT);
	CHECK_EQ(orig.v, at(1));
	CHECK_EQ(jifl_engine_where(cache_address(0), &orig), JIFL_WHERE_EXACT);
	CHECK_EQ(orig.v, at(0));
	/* Where the call returns to. */
	CHECK_EQ(jifl_engine_where(cache_address(cache.blocks[2].start), &orig),
		 JIFL_WHERE_EXACT);
	CHECK_EQ(orig.v, at(55));
	CHECK_EQ(jifl_engine_where(cache_address(cache.blocks[3].start), &orig),
		 JIFL_WHERE_EXACT);
	CHECK_EQ(orig.v, at(20));
	check_cache("one unit");
}

/* With so few buckets, exits of several contexts wait in one. */
UNIT_TEST(contexts, "cache/link: exits wait for their own context's block")
{
	int contexts[200];
	u32 i;

	user_host_init(UNIT_CODE, 65536);
	for (i = 0; i < JIFL_ARRAY_LEN(contexts); i++)
		contexts[i] = begin_text(NULL);
	put(0, BYTES("\x74\x62\xc3"));
	put(100, BYTES("\xc3"));
	for (i = 0; i < JIFL_ARRAY_LEN(contexts); i++)
		make(contexts[i], 0);
	for (i = 0; i < JIFL_ARRAY_LEN(contexts); i++) {
		make(contexts[i], 100);
		CHECK_EQ(cache.links, i + 1);
		check_cache("contexts");
	}
}

/* Loops to themselves, in one block and in two. */
UNIT_TEST(self, "cache/link: blocks that jump to themselves")
{
	int context = begin(NULL);

	put(0, BYTES("\xeb\xfe"));
	make(context, 0);
	CHECK_EQ(cache.nblocks, 1);
	CHECK(is_linked(exit_to(0)), "jmp .");
	put(10, BYTES("\x90\xeb\x01\xcc\xeb\xfa"));	/* 10: nop; jmp 14; 14: jmp 10 */
	make(context, 10);
	CHECK(is_linked(exit_to(10)), "through another");
	check_cache("loops");
}

/*
 * 0: add $1, eax; call 100; add $2, eax; ret    100: add $16, eax; ret
 * The middle is changed under it.
 */
UNIT_TEST(invalidate, "cache/link: changed code is translated anew and linked again")
{
	int context = begin(insert_block_count);
	struct jifl_engine_stats st;
	u64 dispatches;

	insert_begin();
	put(0, BYTES("\x31\xc0\x83\xc0\x01"));
	put_branch(5, 0xe8, 100);
	put(10, BYTES("\x83\xc0\x02\xc3"));
	put(100, BYTES("\x83\xc0\x10\xc3"));
	CHECK_EQ(user_host_call(context, text, 0), 0x13);
	CHECK_EQ(user_host_call(context, text, 0), 0x13);
	check_cache("before");
	jifl_engine_stats(&st);
	dispatches = st.dispatches;
	CHECK_EQ(user_host_call(context, text, 0), 0x13);
	jifl_engine_stats(&st);
	CHECK_EQ(st.dispatches, dispatches);

	/* A byte of the callee: only its block goes. */
	text[102] = 0x20;
	jifl_engine_invalidate(jifl_orig_at(at(102)), 1);
	check_cache("dropped");
	jifl_engine_stats(&st);
	CHECK_EQ(st.invalidated, 1);
	CHECK(!is_linked(exit_to(100)), "an exit waits");
	CHECK_EQ(user_host_call(context, text, 0), 0x23);
	CHECK(is_linked(exit_to(100)), "linked again");
	check_cache("made again");
	jifl_engine_stats(&st);
	dispatches = st.dispatches;
	block_count = 0;
	CHECK_EQ(user_host_call(context, text, 0), 0x23);
	CHECK_EQ(block_count, 7);
	jifl_engine_stats(&st);
	CHECK_EQ(st.dispatches, dispatches);

	/* Next to blocks: nothing goes. Across their borders: both go. */
	jifl_engine_invalidate(jifl_orig_at(at(14)), 86);
	jifl_engine_stats(&st);
	CHECK_EQ(st.invalidated, 1);
	jifl_engine_invalidate(jifl_orig_at(at(9)), 2);
	jifl_engine_stats(&st);
	CHECK_EQ(st.invalidated, 3);
	check_cache("more dropped");
	CHECK_EQ(user_host_call(context, text, 0), 0x23);
	check_cache("at last");
}

/*
 * 0: mov $1, eax; test edi, edi; jne 40; call 100; 14: nop (5); add $2, eax; ret
 * 40: ret   100: add $16, eax; ret
 * Code lies in one unit, so nothing but a trap leads out of what has changed.
 */
UNIT_TEST(falls, "cache/link: code that is run into from the block before is changed")
{
	static const u8 add64[] = { 0x83, 0xc0, 0x40, 0x90, 0x90 };
	int context = begin(insert_block_count);
	u64 traps;

	insert_begin();
	put(0, BYTES("\xb8\x01\0\0\0\x85\xff\x75\x1f"));
	put_branch(9, 0xe8, 100);
	put(14, BYTES("\x0f\x1f\x44\0\0\x83\xc0\x02\xc3"));
	put(40, BYTES("\xc3"));
	put(100, BYTES("\x83\xc0\x10\xc3"));
	CHECK_EQ(user_host_call(context, text, 0), 0x13);
	CHECK_EQ(user_host_call(context, text, 1), 1);
	put(14, add64, sizeof(add64));
	jifl_engine_invalidate(jifl_orig_at(at(14)), 5);
	check_cache("dropped");
	CHECK_EQ(user_host_call(context, text, 0), 0x53);
	CHECK_EQ(user_host_call(context, text, 1), 1);
	traps = user_host_traps;
	CHECK_EQ(user_host_call(context, text, 0), 0x53);
	CHECK_EQ(user_host_traps, traps);
	check_cache("made again");
}

static u64 changes;

/* Called from the middle of the code below: changes what follows. */
static void change_behind(void)
{
	static const u8 add64[] = { 0x83, 0xc0, 0x40, 0x90, 0x90 };

	if (changes++)
		return;
	put(14, add64, sizeof(add64));
	jifl_engine_invalidate(jifl_orig_at(at(14)), 5);
}

/* The thread is inside the block that changes: what it comes to next is new. */
UNIT_TEST(inside, "cache/link: a thread inside changed code sees the change")
{
	int context = begin(insert_block_count);

	insert_begin();
	changes = 0;
	/* mov $1, eax; push rax; call *rdi; nop; pop rax; nop (5); add $2, eax; ret */
	put(0, BYTES("\xb8\x01\0\0\0\x50\xff\xd7\x90\x58\x90\x90\x90\x90"));
	put(14, BYTES("\x0f\x1f\x44\0\0\x83\xc0\x02\xc3"));
	CHECK_EQ(user_host_call(context, text, (u64)(unsigned long)change_behind), 0x43);
	CHECK_EQ(user_host_traps, 1);
	CHECK_EQ(user_host_call(context, text, (u64)(unsigned long)change_behind), 0x43);
	CHECK_EQ(user_host_traps, 1);
	check_cache("changed inside");
}

static u64 begun;

/* Called twice in a block, at its start and before its third instruction. */
static void change_inserts(u64 start)
{
	begun += start;
	if (!start && !changes++)
		jifl_engine_retire(jifl_orig_at(at(0)), 10);
}

static void insert_changing(struct ir_block *b, void *arg)
{
	u16 i;

	for (i = 0; i <= 2; i += 2) {
		struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, i);

		ins->kind = IR_INSERT_CALL;
		ins->fn = (u64)(unsigned long)change_inserts;
		ins->nargs = 1;
		ins->args[0] = !i;
	}
}

/* What is inserted changes while a thread is in the block, and not the bytes. */
UNIT_TEST(retired, "cache/link: a thread inside a block that is retired ends it")
{
	int context = begin(insert_changing);
	struct jifl_engine_stats st;

	changes = begun = 0;
	/* mov $1, eax; nop; add $2, eax; ret */
	put(0, BYTES("\xb8\x01\0\0\0\x90\x83\xc0\x02\xc3"));
	CHECK_EQ(user_host_call(context, text, 0), 3);
	CHECK_EQ(begun, 1);
	CHECK_EQ(user_host_traps, 0);
	jifl_engine_stats(&st);
	CHECK_EQ(st.invalidated, 1);
	CHECK_EQ(user_host_call(context, text, 0), 3);
	CHECK_EQ(begun, 2);
	jifl_engine_stats(&st);
	CHECK_EQ(st.invalidated, 1);
	check_cache("retired");
}

/* A jump behind the call below becomes a nop. */
static void open_jump(void)
{
	static const u8 nop[] = { 0x0f, 0x1f, 0x44, 0, 0 };

	if (changes++)
		return;
	put(8, nop, sizeof(nop));
	jifl_engine_invalidate(jifl_orig_at(at(8)), sizeof(nop));
}

/*
 * 0: mov $1, eax; push rax; call *rdi; 8: jmp 40; 13: pop rax; add $64, eax; ret
 * 40: pop rax; add $2, eax; ret
 * The jump has left no code of its own: its target lies behind the call.
 */
UNIT_TEST(empty, "cache/link: a block without code changes under a call that returns to it")
{
	int context = begin(NULL);

	changes = 0;
	put(0, BYTES("\xb8\x01\0\0\0\x50\xff\xd7"));
	put_branch(8, 0xe9, 40);
	put(13, BYTES("\x58\x83\xc0\x40\xc3"));
	put(40, BYTES("\x58\x83\xc0\x02\xc3"));
	CHECK_EQ(user_host_call(context, text, (u64)(unsigned long)open_jump), 0x41);
	CHECK_EQ(user_host_traps, 1);
	CHECK_EQ(user_host_call(context, text, (u64)(unsigned long)open_jump), 0x41);
	CHECK_EQ(user_host_traps, 1);
	check_cache("an empty block");
}

static void remove_probe(void)
{
	text[8] = 0x90;
	jifl_engine_invalidate(jifl_orig_at(at(8)), 1);
}

/*
 * An int3 has no copy. The copy of the call has a branch behind it, for good. A thread that
 * returns to that branch meets no trap.
 */
UNIT_TEST(probed, "cache/link: a call is translated while a probe stands behind it")
{
	int context = begin(insert_block_count);

	insert_begin();
	/* The code of the test before, with the probe in the place of its first nop. */
	put(0, BYTES("\xb8\x01\0\0\0\x50\xff\xd7\xcc\x58\x90\x90\x90\x90"));
	put(14, BYTES("\x0f\x1f\x44\0\0\x83\xc0\x02\xc3"));
	CHECK_EQ(user_host_call(context, text, (u64)(unsigned long)remove_probe), 3);
	CHECK(is_linked(exit_to(8)), "linked when the probe is gone");
	check_cache("the probe is gone");
	changes = 0;
	CHECK_EQ(user_host_call(context, text, (u64)(unsigned long)change_behind), 0x43);
	CHECK(is_linked(exit_to(8)), "linked again");
	CHECK_EQ(user_host_traps, 0);
	check_cache("changed behind the branch");
}

/* A native block, too, is looked at again when its bytes change. */
UNIT_TEST(native, "cache/link: what could not be translated can be later")
{
	int context = begin(insert_block_count);

	insert_begin();
	put(0, BYTES("\xb8\x05\0\0\0\x41\x50\x41\x5c\xc3"));
	text[5] = 0x0f;			/* ud2, executed by no one */
	text[6] = 0x0b;
	make(context, 0);
	make(context, 5);
	CHECK_EQ(cache.blocks[cache.nblocks - 1].flags, CACHE_BLOCK_NATIVE);
	check_cache("native");
	put(5, BYTES("\x83\xc0\x03\xc3"));
	jifl_engine_invalidate(jifl_orig_at(at(5)), 2);
	CHECK_EQ(user_host_call(context, text, 0), 8);
	CHECK_EQ(user_host_call(context, text, 0), 8);
	CHECK_EQ(block_count, 6);
	check_cache("translated");
}
