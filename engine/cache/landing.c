// SPDX-License-Identifier: GPL-2.0
/*
 * The lookup of sites with many targets where unprotected indirect jumps may be
 * executed (config.thread_words); emit/landing.c has its code. A context has a table of
 * addresses in the cache's own memory, by the lowest bits of the target. At
 * first all lead to the dispatcher. Each target that is met gets a landing, which goes on to
 * what stood in the table before it when the target is another.
 *
 * A landing's jump to its block is a link like others: nothing here has to be
 * forgotten when a block is.
 */
#include "cache.h"
#include "../host.h"

static const u8 *code_at(u32 off)
{
	return (const u8 *)(unsigned long)cache_address(off);
}

static bool make_table(struct cache_context *c)
{
	u32 size = 8u << cache.landing_bits, miss, off;
	struct x86_writer w;
	u8 buf[64];

	if (c->landings != CACHE_NONE)
		return true;
	if (!jifl_cache_has_room(0, size + sizeof(buf) + 8))
		return false;
	w = jifl_cache_cold_begin(buf, sizeof(buf));
	miss = emit_landing_miss(&w, &cache.config, c->lookup_exit);
	jifl_cache_cold_end(&w);
	cache.cold = (cache.cold + 7) & ~7u;
	for (off = 0; off < size; off += 8)
		jifl_host_code_store64(jifl_pos_at(cache.cold + off), cache_address(miss));
	c->landings = cache.cold;
	cache.cold += size;
	return true;
}

static bool has_landing(u32 block)
{
	u32 exit;

	for (exit = cache.blocks[block].links; exit != CACHE_NONE; exit = cache.exits[exit].next)
		if (cache.exits[exit].kind == CACHE_EXIT_LANDING)
			return true;
	return false;
}

bool jifl_cache_landing_add(int context, jifl_orig target, u32 block)
{
	struct cache_context *c = &cache.contexts[context];
	struct emit_landing landing;
	struct x86_writer w;
	u32 slot, exit;
	u64 next;
	u8 buf[96];

	if (!make_table(c))
		return false;
	if (has_landing(block))
		return true;
	if (!jifl_cache_has_room(0, sizeof(buf)))
		return false;
	slot = c->landings + 8 * ((u32)target.v & ((1u << cache.landing_bits) - 1));
	memcpy(&next, code_at(slot), sizeof(next));
	w = jifl_cache_cold_begin(buf, sizeof(buf));
	emit_landing(&w, &cache.config, target, (u32)(next - cache.code_base), cache.nexits,
		     &landing);
	jifl_cache_cold_end(&w);
	exit = jifl_cache_exit_new(CACHE_EXIT_LANDING, block, landing.site, landing.stub, target);
	jifl_cache_exit_add(exit);
	/* Complete, and linked, before anything leads to it. */
	jifl_host_code_store64(jifl_pos_at(slot), cache_address(landing.start));
	return true;
}

void jifl_cache_exit_operand(const struct cache_exit *x, struct ir_insn *operand)
{
	/* Behind the lea that skips the red zone. */
	u32 push = x->stub + (cache.config.red_zone ? EMIT_SKIP_RED_ZONE : 0);

	x86_pushed_operand(code_at(push), cache_address(push), operand);
}

u32 jifl_cache_landing_lookup(int context, const struct cache_exit *x)
{
	struct cache_context *c = &cache.contexts[context];
	struct ir_insn operand;
	struct x86_writer w;
	u8 buf[96];
	u32 start;

	if (!make_table(c) || !jifl_cache_has_room(0, sizeof(buf)))
		return CACHE_NONE;
	if (x->memory)
		jifl_cache_exit_operand(x, &operand);
	w = jifl_cache_cold_begin(buf, sizeof(buf));
	start = emit_site_lookup(&w, &cache.config, x->memory ? &operand : NULL, x->reg,
				 cache_address(c->landings), cache.landing_bits);
	jifl_cache_cold_end(&w);
	return start;
}
