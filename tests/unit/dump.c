// SPDX-License-Identifier: GPL-2.0
/* What a dump says of each block, compared with the cache and the source. */
#include "inserts.h"
#include "targets/targets.h"
#include "unit.h"
#include "../../engine/cache/cache.h"
#include "../../engine/decode/decode.h"

static struct jifl_dump dump;

/* An original piece is the copy of the instruction that stands there. */
static void check_original(const struct jifl_piece *p, u64 at, u32 off, const char *when)
{
	struct ir_insn insn;

	jifl_decode_insn(jifl_orig_at(at), &insn);
	CHECK_EQ_IN(when, p->src_len, insn.len);
	if (insn.kind == IR_PLAIN && !insn.disp_at)
		CHECK(p->code_len == insn.len &&
		      !memcmp(dump.code + off, insn.bytes, insn.len), "%s: %#llx is %s", when, at,
		      unit_hex(dump.code + off, p->code_len));
	if (!p->code_len)
		CHECK(insn.kind == IR_NOP || (insn.kind == IR_JMP && dump.flags & JIFL_DUMP_FALLS),
		      "%s: %#llx has no copy", when, at);
	/* What it reads is live before it. */
	if (dump.flags & JIFL_DUMP_LIVENESS)
		CHECK(!(insn.flags_read & ~p->flags), "%s: %#llx reads flags %#x, live are %#x",
		      when, at, insn.flags_read, p->flags);
}

/* Pieces are all of the source and of the code. Returns how many were inserted. */
static u32 check_block(u32 i, const char *when)
{
	const struct cache_block *b = &cache.blocks[i];
	u32 src = 0, code = 0, inserted = 0, k;

	CHECK_EQ_IN(when, jifl_engine_block_context(i), b->context);
	jifl_engine_dump(i, &dump);
	CHECK_EQ_IN(when, dump.orig.v, cache_orig(b->orig).v);
	CHECK_EQ_IN(when, dump.code_at, cache_address(b->start));
	CHECK_EQ_IN(when, dump.code_len, b->len);
	CHECK(!memcmp(dump.code, user_host_code() + b->start, b->len));
	for (k = 0; k < dump.npieces; k++) {
		const struct jifl_piece *p = &dump.pieces[k];

		if (p->kind == JIFL_PIECE_ORIGINAL && !(dump.flags & JIFL_DUMP_DEAD))
			check_original(p, dump.orig.v + src, code, when);
		inserted += p->kind == JIFL_PIECE_INSERTED || p->kind == JIFL_PIECE_INLINED;
		src += p->src_len;
		code += p->code_len;
	}
	CHECK_EQ_IN(when, src, dump.src_len);
	CHECK_EQ_IN(when, code, dump.code_len);
	if (b->flags & (CACHE_BLOCK_ENTRY | CACHE_BLOCK_NATIVE))
		return 0;
	CHECK_EQ_IN(when, src, b->src_len);
	CHECK(!memcmp(dump.src, (const void *)(unsigned long)dump.orig.v, src));
	if (!(b->flags & CACHE_BLOCK_DEAD))
		CHECK(dump.flags & JIFL_DUMP_LIVENESS && dump.insns >= 1, "%s: %#llx", when,
		      dump.orig.v);
	return inserted;
}

static u32 check_blocks(const char *when)
{
	u32 inserted = 0, i;

	for (i = 0; i < cache.nblocks; i++)
		inserted += check_block(i, when);
	CHECK(cache.nblocks > 3, "%s", when);
	CHECK_EQ_IN(when, jifl_engine_block_context(cache.nblocks), -1);
	return inserted;
}

UNIT_TEST(pieces, "dump: pieces are the source and the code, whatever is inserted")
{
	const struct target *const tables[] = { targets_plain, targets_slow, targets_thunk,
						targets_asm };
	const struct insert_mode *mode;
	const struct target *t;
	u32 i, inserted;

	for (mode = insert_modes; mode->name; mode++) {
		int context;

		user_host_init(UNIT_CODE, UNIT_SIDE);
		context = jifl_engine_context_create(mode->fn, NULL);
		for (i = 0; i < JIFL_ARRAY_LEN(tables); i++)
			for (t = tables[i]; t->name; t++)
				user_host_call(context, t->fn, t->n);
		inserted = check_blocks(mode->name);
		CHECK(!mode->fn == !inserted, "%s: %u", mode->name, inserted);
	}
}

/* One counter for each block: one piece, which says so much. */
UNIT_TEST(one_counter, "dump: one insert is one piece")
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_call(jifl_engine_context_create(insert_block_count, NULL), targets_plain[0].fn,
		       targets_plain[0].n);
	CHECK_EQ(check_blocks(""), cache.nblocks);
}

UNIT_TEST(changed, "dump: of a block whose source has changed liveness is not known")
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	user_host_call(jifl_engine_context_create(insert_store, NULL), targets_plain[0].fn,
		       targets_plain[0].n);
	jifl_engine_dump(0, &dump);
	CHECK_EQ(dump.flags & (JIFL_DUMP_LIVENESS | JIFL_DUMP_DEAD), JIFL_DUMP_LIVENESS);
	jifl_engine_invalidate(dump.orig, 1);
	jifl_engine_dump(0, &dump);
	CHECK_EQ(dump.flags & (JIFL_DUMP_LIVENESS | JIFL_DUMP_DEAD), JIFL_DUMP_DEAD);
	CHECK_EQ(dump.insns, 0);
	check_blocks("changed");
}
