// SPDX-License-Identifier: GPL-2.0
/* See invariants.h: blocks, exits, links, lookups, free space and the map. */
#include "../../engine/cache/cache.h"
#include "../../engine/decode/decode.h"
#include "invariants.h"
#include "unit.h"

/* Where the branch whose rel32 stands at site goes. */
u32 goes_to(u32 site)
{
	s32 rel;

	memcpy(&rel, user_host_code() + site, 4);
	return site + 4 + rel;
}

static int context_of(const struct cache_exit *x)
{
	return cache.blocks[x->block].context;
}

static void check_block(u32 i, const char *when)
{
	const struct cache_block *b = &cache.blocks[i];
	u32 end = i + 1 < cache.nblocks ? cache.blocks[i + 1].start : cache.hot;
	u32 found;

	CHECK_EQ_IN(when, b->start + b->len, end);
	if (b->flags & (CACHE_BLOCK_ENTRY | CACHE_BLOCK_BEGINS))
		return;
	found = jifl_cache_find(b->context, cache_orig(b->orig));
	if (b->flags & CACHE_BLOCK_DEAD) {
		CHECK(found != i, "%s: dead block %u is found", when, i);
		CHECK_EQ_IN(when, b->links, CACHE_NONE);
	} else {
		CHECK_EQ_IN(when, found, i);
	}
}

/* Where it leads, the site's register is compared with the targets of its hits, in their order. */
static void check_chain(const struct cache_exit *x, const char *when)
{
	u32 at, i;
	s32 imm;

	if (!x->chained) {
		CHECK_EQ_IN(when, goes_to(x->site), x->stub);
		return;
	}
	at = goes_to(x->site);
	for (i = 0; i < x->chained && i < CACHE_CHAIN_MAX; i++) {
		const struct cache_exit *hit = &cache.exits[x->next + i];

		memcpy(&imm, user_host_code() + at + (x->reg ? 3 : 2), 4);
		CHECK_EQ_IN(when, (u32)imm, hit->target);
		CHECK_EQ_IN(when, hit->block, x->block);
		/* je block; or jne 1f; add; js; jmp block; 1: */
		at = hit->site + 4;
	}
}

static void check_exit(u32 i, const char *when)
{
	const struct cache_exit *x = &cache.exits[i];
	u32 block;

	if (x->kind == CACHE_EXIT_LOOKUP)
		return;
	CHECK(x->site / 8 == (x->site + 3) / 8, "%s: exit %u at %#x", when, i, x->site);
	CHECK(x->block < cache.nblocks, "%s: exit %u of block %u", when, i, x->block);
	if (x->kind == CACHE_EXIT_INDIRECT) {
		check_chain(x, when);
		return;
	}
	block = jifl_cache_find(context_of(x), cache_orig(x->target));
	CHECK_EQ_IN(when, goes_to(x->site),
		    block == CACHE_NONE ? x->stub : cache.blocks[block].start);
}

/* Where a lookup comes to by that address: of a block, or of its landing. */
static u32 lands_at(u32 address)
{
	u32 off = address - (u32)cache.code_base, at = off;

	if (!cache.config.indirect_jumps)
		return off;
	if (cache.config.endbr) {
		CHECK(!memcmp(user_host_code() + at, "\xf3\x0f\x1e\xfa", 4), "landing %#x", off);
		at += 4;
	}
	/* pop %rcx; pop %rax; lea n(%rsp), %rsp; jmp */
	CHECK(!memcmp(user_host_code() + at, "\x59\x58\x48\x8d", 4), "landing %#x", off);
	at = off + emit_landing_len(&cache.config);
	CHECK_EQ(user_host_code()[at - 1], 0xe9);
	return goes_to(at);
}

static void check_lookup(u32 context, const char *when)
{
	const struct cache_context *c = &cache.contexts[context];
	u32 i, block;
	u64 entry;

	if (c->table == CACHE_NONE)
		return;
	for (i = 0; i < 1u << cache.lookup_bits; i++) {
		memcpy(&entry, user_host_code() + c->table + 8 * i, 8);
		if (!entry)
			continue;
		block = jifl_cache_find((int)context, cache_orig((u32)entry));
		CHECK(block != CACHE_NONE &&
		      lands_at((u32)(entry >> 32)) == cache.blocks[block].start,
		      "%s: lookup of context %u, entry %#llx", when, context, entry);
	}
}

/* Each block that is in the table of targets is what is found. */
static void check_targets(u32 context, const char *when)
{
	const u32 *table = (const u32 *)(unsigned long)cache.contexts[context].targets;
	u32 i, found;

	for (i = 0; table && i < cache.nblocks; i++) {
		u32 orig = cache.blocks[i].orig;

		if (cache.blocks[i].context != context || orig >= cache.config.targets_end ||
		    !table[orig])
			continue;
		found = jifl_cache_find((int)context, cache_orig(orig));
		CHECK(found != CACHE_NONE &&
		      table[orig] == (u32)cache_address(cache.blocks[found].start),
		      "%s: target %#x of context %u is at %#x", when, orig, context, table[orig]);
	}
}

/* All of it is filled up: the first byte is, and each is what the one before it is. */
static void check_free(u32 from, u32 to, const char *when)
{
	const u8 *code = user_host_code() + from;
	const u32 n = to > from ? to - from : 0;
	u32 i = 0;

	if (!n || (code[0] == 0xcc && !memcmp(code, code + 1, n - 1)))
		return;
	while (code[i] == 0xcc)
		i++;
	CHECK_EQ_IN(when, code[i], 0xcc);
}

static bool same_code(const struct ir_insn *insn, u32 off)
{
	const u8 *code = user_host_code() + off;

	if (!insn->disp_at)
		return !memcmp(code, insn->bytes, insn->len);
	return !memcmp(code, insn->bytes, insn->disp_at) &&
	       !memcmp(code + insn->disp_at + 4, insn->bytes + insn->disp_at + 4,
		       insn->len - insn->disp_at - 4);
}

/* Nothing but what leaves no code stands between the two. */
static bool only_empty_between(u64 from, u64 to)
{
	struct ir_insn insn;

	while (from != to) {
		jifl_decode_insn(jifl_orig_at(from), &insn);
		if (insn.kind == IR_JMP)
			from = insn.target.v;
		else if (insn.kind == IR_NOP)
			from += insn.len;
		else
			return false;
	}
	return true;
}

/*
 * Walks a block's original instructions along with its code: exact places come
 * in the order of the instructions, each is the start of one or the end of the
 * block, no instruction with code lacks one, and what is plain stands there
 * as it was, if nothing is inserted before it.
 */
static void check_where(u32 i, bool nothing_inserted, const char *when)
{
	const struct cache_block *b = &cache.blocks[i];
	u64 at = cache_orig(b->orig).v, end = at + b->src_len;
	struct ir_insn insn;
	bool seen = false;
	jifl_orig orig, behind;
	u32 off;

	jifl_decode_insn(jifl_orig_at(at), &insn);
	for (off = b->start; off < b->start + b->len; off++) {
		enum jifl_where where = jifl_engine_where_insn(cache_address(off), &orig);

		CHECK_EQ_IN(when, jifl_engine_where(cache_address(off), &behind), where);
		if (where != JIFL_WHERE_EXACT) {
			CHECK(where == JIFL_WHERE_INSIDE && orig.v >= cache_orig(b->orig).v &&
			      orig.v <= end, "%s: block %u, code %#x: %d", when, i, off, where);
			CHECK_EQ_IN(when, orig.v, behind.v);
			continue;
		}
		CHECK(only_empty_between(behind.v, orig.v), "%s: code %#x: %#llx to %#llx", when,
		      off, behind.v, orig.v);
		while (at < orig.v && at < end) {
			CHECK(seen || insn.kind == IR_NOP,
			      "%s: block %u, original %#llx has no place", when, i, at);
			at += insn.len;
			jifl_decode_insn(jifl_orig_at(at), &insn);
			seen = false;
		}
		seen = true;
		CHECK(orig.v == at, "%s: block %u, code %#x is %#llx, not the start of one",
		      when, i, off, orig.v);
		if (nothing_inserted && at < end && insn.kind == IR_PLAIN)
			CHECK(same_code(&insn, off), "%s: code %#x is %s, original %#llx is %s",
			      when, off, unit_hex(user_host_code() + off, insn.len), at,
			      unit_hex(insn.bytes, insn.len));
	}
}

/* What code that is read pushes from `at` on, in bytes. */
static s32 walked(u32 at, u32 len)
{
	const u32 end = at + len;
	s32 pushed = 0;

	while (at < end) {
		u32 n = x86_walk(user_host_code() + at, &pushed);

		REQUIRE(n, "code at %#x cannot be read", at);
		at += n;
	}
	return pushed;
}

/*
 * Inside code of which the map says what is on the stack, that is what is told. It is also what the
 * code before it has pushed.
 */
static void check_depths(u32 i, const char *when)
{
	static struct jifl_dump d;
	u32 at = cache.blocks[i].start, k, off, pushed;
	s32 before = -1;
	jifl_orig orig;

	jifl_cache_pieces(i, &d);
	for (k = 0; k < d.npieces; at += d.pieces[k++].code_len) {
		const struct jifl_piece *p = &d.pieces[k];

		if (p->kind == JIFL_PIECE_INLINED && before >= 0)
			CHECK(before == p->pushed * 8, "%s: block %u, code %#x: %d, pushed %d", when,
			      i, at, p->pushed * 8, before);
		for (off = at + 1; p->kind == JIFL_PIECE_INLINED && off < at + p->code_len; off++)
			CHECK(jifl_engine_where_stack(cache_address(off), false, &orig, &pushed) ==
			      JIFL_WHERE_INSIDE && pushed == p->pushed * 8u,
			      "%s: block %u, code %#x: %u, not %u", when, i, off, pushed,
			      p->pushed * 8u);
		before = p->kind != JIFL_PIECE_INSERTED ? -1 :
			 p->pushed * 8 + walked(at, p->code_len);
	}
}

void check_cache(const char *when)
{
	u64 live = 0;
	u32 i;

	for (i = 0; i < cache.nblocks; i++) {
		const struct cache_block *b = &cache.blocks[i];

		check_block(i, when);
		if (!(b->flags & CACHE_BLOCK_DEAD))
			live++;
		if (!(b->flags & (CACHE_BLOCK_DEAD | CACHE_BLOCK_ENTRY | CACHE_BLOCK_NATIVE)))
			check_where(i, cache.contexts[b->context].used &&
				    !cache.contexts[b->context].fn, when);
		if (!(b->flags & (CACHE_BLOCK_DEAD | CACHE_BLOCK_ENTRY | CACHE_BLOCK_NATIVE)))
			check_depths(i, when);
	}
	CHECK_EQ_IN(when, cache.live, live);
	for (i = 0; i < cache.nexits; i++)
		check_exit(i, when);
	for (i = 0; i < cache.ncontexts; i++) {
		check_lookup(i, when);
		check_targets(i, when);
	}
	check_free(cache.hot, cache.hot_end, when);
	check_free(cache.cold, cache.cold_end, when);
}
