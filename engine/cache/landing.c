// SPDX-License-Identifier: GPL-2.0
/*
 * Sites with many targets where unprotected indirect jumps may be executed
 * (config.thread_word); emit/landing.c has their code. Such a site has a table of
 * addresses in the cache's own memory, by some low bits of the target. At first
 * all lead to the site's stub, and so to the dispatcher. Each target that is met gets a
 * landing, a piece of an inline cache, which goes on to what stood in the table
 * before it when the target is another.
 *
 * Its hit is a link like others: nothing here has to be forgotten when a block is.
 */
#include "cache.h"
#include "../host.h"

enum { ENTRY_SHIFT = 3 };	/* of an entry's size; and few targets are closer together */

static u32 mask(void)
{
	return ((1u << cache.landing_bits) - 1) << ENTRY_SHIFT;
}

static const u8 *code_at(u32 off)
{
	return (const u8 *)(unsigned long)cache_address(off);
}

const struct ir_insn *jifl_cache_exit_operand(const struct cache_exit *x, struct ir_insn *operand)
{
	/* Behind the lea that skips the red zone. */
	u32 push = x->stub + (cache.config.red_zone ? EMIT_SKIP_RED_ZONE : 0);

	if (!x->memory)
		return NULL;
	x86_pushed_operand(code_at(push), cache_address(push), operand);
	return operand;
}

u32 jifl_cache_landing_create(const struct cache_exit *x, u32 *table)
{
	u32 size = 1u << (cache.landing_bits + ENTRY_SHIFT), miss, start, off;
	const struct ir_insn *o;
	struct ir_insn operand;
	struct x86_writer w;
	u8 buf[128];

	if (!jifl_cache_has_room(0, size + sizeof(buf) + 8))
		return CACHE_NONE;
	*table = (cache.cold + 7) & ~7u;
	cache.cold = *table + size;
	o = jifl_cache_exit_operand(x, &operand);
	w = jifl_cache_cold_begin(buf, sizeof(buf));
	miss = emit_landing_miss(&w, &cache.config, x->stub);
	start = emit_site_lookup(&w, &cache.config, o, x->reg, cache_address(*table), mask());
	jifl_cache_cold_end(&w);
	for (off = 0; off < size; off += 8)
		jifl_host_code_store64(jifl_pos_at(*table + off), cache_address(miss));
	return start;
}

void jifl_cache_landing_add(const struct cache_exit *x, jifl_orig target)
{
	u32 slot = x->site + ((u32)target.v & mask()), hit;
	struct emit_chain_piece piece;
	const struct ir_insn *o;
	struct ir_insn operand;
	struct x86_writer w;
	u8 buf[EMIT_LANDING];
	u64 next;

	memcpy(&next, code_at(slot), sizeof(next));
	o = jifl_cache_exit_operand(x, &operand);
	w = jifl_cache_cold_begin(buf, sizeof(buf));
	emit_landing(&w, &cache.config, o, x->reg, target, (u32)(next - cache.code_base), &piece);
	jifl_cache_cold_end(&w);
	hit = jifl_cache_exit_new(CACHE_EXIT_DIRECT, x->block, piece.hit_site, piece.hit_stub,
				  target);
	/* Complete, and linked, before anything leads to it. */
	jifl_cache_exit_add(hit);
	jifl_host_code_store64(jifl_pos_at(slot), cache_address(piece.start));
}
