// SPDX-License-Identifier: GPL-2.0
/*
 * Makes blocks before code comes to them, so that a first call costs what later calls do. In: a
 * context, an address, a question about the block that is decoded there. Out: the block, in the
 * cache, linked to other blocks there. Each call holds the engine lock for one unit. Any context
 * but NMI.
 *
 * A block is found by its context and its address alone. So a block that is made early is the one
 * that the dispatcher would have made: links, lookups and the dispatcher lead to it in the same
 * way, and a change of its source drops it in the same way.
 */
#include "base/plant.h"
#include "engine.h"
#include "translate.h"
#include "host.h"

static enum jifl_warmed warm(int context, jifl_orig addr, jifl_block_matches_fn is, const void *arg)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;

	if (jifl_cache_find(context, addr) != CACHE_NONE)
		return JIFL_WARMED_THERE;
	if (!jifl_cache_has_spare_room())
		return JIFL_WARMED_FULL;
	if (!jifl_fits_s32((s64)addr.v) || !jifl_translate_matches(addr, is, arg))
		return JIFL_WARMED_OTHER;
	/* An int3 may have come meanwhile. */
	if (jifl_translate(context, addr, &cause) == CACHE_NONE)
		return JIFL_WARMED_OTHER;
	return JIFL_WARMED_MADE;
}

enum jifl_warmed jifl_engine_warm(int context, jifl_orig addr, jifl_block_matches_fn is,
				  const void *arg, struct jifl_warmed_cost *cost)
{
	unsigned long cookie = jifl_host_lock();
	const struct jifl_translated before = jifl_translated;
	enum jifl_warmed warmed = warm(context, addr, is, arg);

	cost->blocks += jifl_translated.blocks - before.blocks;
	cost->insns += jifl_translated.insns - before.insns;
	cost->ns += jifl_translated.ns - before.ns;
	jifl_host_unlock(cookie);
	return warmed;
}

bool jifl_engine_has(int context, jifl_orig addr)
{
	unsigned long cookie = jifl_host_lock();
	bool has = jifl_cache_find(context, addr) != CACHE_NONE;

	jifl_host_unlock(cookie);
	return has;
}

u64 jifl_engine_landing(int context, jifl_orig addr, bool is_return)
{
	unsigned long cookie = jifl_host_lock();
	u32 block = jifl_cache_find(context, addr);
	u64 at = block == CACHE_NONE ? 0 : cache_address(cache.blocks[block].start);
	jifl_orig orig;

	/*
	 * A block that only leaves has no place to go on. Blocks without code begin where the next
	 * one does.
	 */
	if (at && ((cache.blocks[block].flags & CACHE_BLOCK_NATIVE &&
		    !JIFL_PLANTED(leaving_landed)) ||
		   jifl_cache_where(at, is_return ? CACHE_AT_RETURN : CACHE_AT_INSN, &orig) !=
		   JIFL_WHERE_EXACT || orig.v != addr.v))
		at = 0;
	jifl_host_unlock(cookie);
	return at;
}
