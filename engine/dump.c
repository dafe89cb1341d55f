// SPDX-License-Identifier: GPL-2.0
/*
 * Shows a block of the cache beside its source. The cache keeps no liveness: the source is decoded
 * again, which gives the same liveness as long as the source has not changed.
 */
#include "engine.h"
#include "cache/cache.h"
#include "decode/decode.h"
#include "host.h"

#define OPCODE_INT3 0xcc

/* Scratch memory; under the engine lock. */
static struct ir_block again;
static struct jifl_liveness live;

_Static_assert(IR_BLOCK_INSNS * 15 <= JIFL_DUMP_SRC && EMIT_BLOCK_HOT <= JIFL_DUMP_CODE,
	       "room for any block");

/* True when the copy has every instruction at the same place. */
static bool is_the_same(const struct jifl_dump *d, const struct ir_block *b)
{
	u32 i, k = 0;

	for (i = 0; i < d->npieces; i++) {
		if (d->pieces[i].kind != JIFL_PIECE_ORIGINAL)
			continue;
		if (k == b->ninsns || b->insns[k].len != d->pieces[i].src_len)
			return false;
		k++;
	}
	return k && k == b->ninsns;
}

static bool decode_again(const struct jifl_dump *d, struct ir_block *b)
{
	enum jifl_cause cause;

	return !(d->flags & (JIFL_DUMP_DEAD | JIFL_DUMP_NATIVE | JIFL_DUMP_ENTRY)) &&
	       jifl_host_classify(d->orig, &cause) == JIFL_TEXT_CODE &&
	       jifl_decode_block(d->orig, b) == JIFL_CAUSE_NONE && is_the_same(d, b);
}

/* True when inserted code stands behind the last instruction. */
static bool has_insert_behind(const struct jifl_dump *d)
{
	u32 i = d->npieces;

	while (i && d->pieces[i - 1].kind == JIFL_PIECE_ONWARD)
		i--;
	return i && d->pieces[i - 1].kind != JIFL_PIECE_ORIGINAL;
}

/* One entry before each instruction, and all that is inserted there. */
static void add_liveness(struct jifl_dump *d)
{
	u32 i, k = 0;

	if (!decode_again(d, &again))
		return;
	/* Liveness behind the block is looked for only in that case. */
	if (has_insert_behind(d))
		ir_block_insert(&again, IR_AFTER, again.ninsns - 1);
	jifl_liveness_compute(&again, JIFL_LIVENESS_BLOCK, &live);
	for (i = 0; i < d->npieces; i++) {
		d->pieces[i].flags = live.flags[k];
		d->pieces[i].regs = live.regs[k];
		k += d->pieces[i].kind == JIFL_PIECE_ORIGINAL;
	}
	d->insns = again.count;
	d->flags |= JIFL_DUMP_LIVENESS;
}

/* Shows the source as it is decoded, without breakpoints and jumps of the host's own. */
static void lift(struct jifl_dump *d)
{
	u32 i;

	if (d->src_len)
		jifl_host_lift_text(d->orig, d->src, d->src_len);
	for (i = 0; i < d->src_len; i++)
		if (d->src[i] == OPCODE_INT3)
			jifl_host_lift_int3(jifl_orig_at(d->orig.v + i), &d->src[i]);
}

static void fill(u32 i, struct jifl_dump *d)
{
	const struct cache_block *b = &cache.blocks[i];
	const u8 *src;
	u32 n;

	d->orig = cache_orig(b->orig);
	d->code_at = cache_address(b->start);
	d->flags = b->flags & ~(CACHE_BLOCK_ASKS | CACHE_BLOCK_BEGINS);
	if (b->flags & CACHE_BLOCK_BEGINS)
		d->flags |= JIFL_DUMP_ENTRY;
	d->insns = 0;
	jifl_cache_pieces(i, d);
	d->code_len = b->len < JIFL_DUMP_CODE ? b->len : JIFL_DUMP_CODE;
	memcpy(d->code, (const void *)(unsigned long)d->code_at, d->code_len);
	memset(d->src, 0, sizeof(d->src));
	/* Text of a module that has gone cannot be read any more: it is shown as zeroes. */
	src = jifl_host_text(d->orig, &n);
	if (n)
		memcpy(d->src, src, n < d->src_len ? n : d->src_len);
	lift(d);
	add_liveness(d);
}

int jifl_engine_block_context(u32 i)
{
	/* Pairs with the release in commit.c. */
	if (i >= __atomic_load_n(&cache.nblocks, __ATOMIC_ACQUIRE))
		return -1;
	return cache.blocks[i].context;
}

void jifl_engine_dump(u32 i, struct jifl_dump *d)
{
	unsigned long cookie = jifl_host_lock();

	fill(i, d);
	jifl_host_unlock(cookie);
}
