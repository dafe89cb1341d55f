// SPDX-License-Identifier: GPL-2.0
/* Entry pieces: inserts before a function and after its return. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

static u64 entered, left;
static u64 inside;

__attribute__((target("general-regs-only"), noinline)) static void on_entry(u64 *cell)
{
	*cell += 1 + 100 * inside;
}

static u64 make(int context, const void *fn, u32 nentry, u32 nexit)
{
	struct ir_insert entry[3] = { 0 }, exit[3] = { 0 };
	enum jifl_cause cause;

	entry[0].kind = IR_INSERT_ADD;
	entry[0].cell = user_host_operand(&inside);
	entry[0].imm = 1;
	entry[1].kind = IR_INSERT_CALL;
	entry[1].fn = (u64)(unsigned long)poison;
	entry[2].kind = IR_INSERT_CALL;
	entry[2].fn = (u64)(unsigned long)on_entry;
	entry[2].nargs = 1;
	entry[2].args[0] = (u64)(unsigned long)&entered;
	exit[0].kind = IR_INSERT_CALL;
	exit[0].fn = (u64)(unsigned long)on_entry;
	exit[0].nargs = 1;
	exit[0].args[0] = (u64)(unsigned long)&left;
	exit[1] = entry[1];
	exit[2] = entry[0];
	exit[2].imm = -1;
	return jifl_engine_entry_create(context, jifl_orig_at((u64)(unsigned long)fn),
					entry, nentry, exit, nexit, &cause);
}

UNIT_TEST(pieces, "run/entry: functions keep arguments, results and stack")
{
	static const u32 with[][2] = { { 0, 0 }, { 3, 0 }, { 0, 3 }, { 3, 3 }, { 1, 1 } };
	const struct insert_mode *mode;
	const struct target *t;
	target_fn fn;
	int context;
	u64 piece;
	u32 i;

	for (mode = insert_modes; mode->name; mode++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		insert_begin();
		context = jifl_engine_context_create(mode->fn, NULL);
		for (t = targets_plain; t->name; t++) {
			for (i = 0; i < JIFL_ARRAY_LEN(with); i++) {
				inside = entered = left = 0;
				piece = make(context, t->fn, with[i][0], with[i][1]);
				REQUIRE(piece);
				fn = (target_fn)(unsigned long)piece;
				CHECK_EQ_IN(t->name, fn(t->n), t->fn(t->n));
				CHECK_EQ_IN(t->name, fn(t->n), t->fn(t->n));
				if (with[i][0] == 3 && with[i][1] == 3) {
					CHECK_EQ(entered, 2 * 101);
					CHECK_EQ(left, 2 * 101);
					CHECK_EQ(inside, 0);
				}
			}
		}
		CHECK_EQ(poison_misaligned, 0);
		check_cache(mode->name);
	}
}

UNIT_TEST(where, "run/entry: where an entry piece's addresses stand")
{
	const u64 fn = (u64)(unsigned long)targets_plain[0].fn;
	u64 piece, after, addr;
	jifl_orig orig;
	u32 exact = 0;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	piece = make(jifl_engine_context_create(NULL, NULL), (const void *)(unsigned long)fn, 3, 3);
	after = piece + cache.blocks[cache.nblocks - 1].src_len;
	for (addr = piece; addr < cache_address(cache.hot); addr++) {
		if (jifl_engine_where(addr, &orig) == JIFL_WHERE_EXACT) {
			CHECK_EQ(addr, after);
			exact++;
		}
		CHECK_EQ(orig.v, addr < after ? fn : cache.return_site);
	}
	CHECK_EQ(exact, 1);
}

UNIT_TEST(changed, "run/entry: a piece follows its function when that changes")
{
	static u8 text[16] = { 0xb8, 7, 0, 0, 0, 0xc3 };
	u64 (*fn)(void);
	u64 piece;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(text, sizeof(text), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	piece = make(jifl_engine_context_create(NULL, NULL), text, 0, 3);
	fn = (u64 (*)(void))(unsigned long)piece;
	CHECK_EQ(fn(), 7);
	text[1] = 8;
	jifl_engine_invalidate(jifl_orig_at((u64)(unsigned long)text), 1);
	CHECK_EQ(fn(), 8);
	CHECK_EQ(fn(), 8);
	check_cache("changed");
}

/* With endbr: the piece begins with it, and nothing else changes. */
UNIT_TEST(endbr, "run/entry: endbr64 where the host wants it")
{
	struct jifl_config config = user_host_config(UNIT_CODE, UNIT_SIDE);
	const struct target *t = &targets_plain[0];
	u64 piece;

	config.endbr = true;
	REQUIRE(!jifl_engine_init(&config));
	piece = make(jifl_engine_context_create(NULL, NULL), (const void *)t->fn, 3, 3);
	CHECK(!memcmp((const void *)(unsigned long)piece, "\xf3\x0f\x1e\xfa", 4));
	CHECK_EQ(((target_fn)(unsigned long)piece)(t->n), t->fn(t->n));
}

/* lea 5(%rdi), %rax; lea (%rax,%rdi,2), %rax; ret */
static u8 beginning[16] = { 0x48, 0x8d, 0x47, 0x05, 0x48, 0x8d, 0x04, 0x78, 0xc3 };
static u64 counted, in_pieces;

static void count_insns(struct ir_block *b, void *arg)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	ins->kind = IR_INSERT_ADD;
	ins->cell = user_host_operand(&counted);
	ins->imm = b->count;
	in_pieces += b->in_piece;
}

static u64 make_beginning(int context, u32 len, enum jifl_cause *cause)
{
	struct ir_insert entry[2] = { 0 };

	entry[0].kind = IR_INSERT_ADD;
	entry[0].cell = user_host_operand(&entered);
	entry[0].imm = 1;
	entry[1].kind = IR_INSERT_STORE;
	entry[1].cell = user_host_operand(&counted);
	return jifl_engine_entry_create_beginning(context,
						  jifl_orig_at((u64)(unsigned long)beginning), len,
						  entry, 2, cause);
}

UNIT_TEST(beginnings_apart, "run/entry: a piece with the first instructions is no block of theirs")
{
	const u64 text = (u64)(unsigned long)beginning;
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	u64 piece, end, addr, exact = 0;
	jifl_orig orig;
	int context;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_set_text(beginning, sizeof(beginning), JIFL_TEXT_CODE, JIFL_CAUSE_NONE);
	context = jifl_engine_context_create(count_insns, NULL);
	CHECK_EQ(make_beginning(context, 5, &cause), 0);
	CHECK_EQ(cause, JIFL_CAUSE_STALE);
	piece = make_beginning(context, 8, &cause);
	REQUIRE(piece);
	CHECK_EQ(in_pieces, 1);
	CHECK_EQ(jifl_cache_find(context, jifl_orig_at(text)), CACHE_NONE);
	CHECK_EQ(((u64 (*)(u64))(unsigned long)piece)(3), 14);
	CHECK_EQ(entered, 1);
	CHECK_EQ(counted, 3);
	/* A call by a copy comes to a block of its own, which says nothing of a piece. */
	CHECK_EQ(user_host_call(context, beginning, 4), 17);
	CHECK_EQ(entered, 1);
	CHECK_EQ(counted, 6);
	CHECK_EQ(in_pieces, 1);
	/* Threads stand before both instructions, but nowhere among the inserts. */
	end = piece + cache.blocks[jifl_cache_find(context, jifl_orig_at(text + 8)) + 1].len;
	for (addr = piece; addr < end; addr++)
		if (jifl_engine_where_insn(addr, &orig) == JIFL_WHERE_EXACT)
			CHECK_EQ(orig.v, text + 4 * exact++);
	CHECK(exact >= 2);
	CHECK(!jifl_engine_is_start(piece + 1));
	CHECK(jifl_engine_is_beginning(piece));
	CHECK(!jifl_engine_is_beginning(piece + 1));
	check_cache("beginning");
	/* It stays when the text changes: its host says that it does not. */
	jifl_engine_invalidate(jifl_orig_at(text), 8);
	CHECK_EQ(((u64 (*)(u64))(unsigned long)piece)(3), 14);
	check_cache("changed");
}
