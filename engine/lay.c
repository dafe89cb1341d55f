// SPDX-License-Identifier: GPL-2.0
/*
 * Layouts: blocks of a context are made anew in an order that the host names, so that what runs
 * often lies together and falls from one block into the next. In: a chain of addresses, and a
 * question about the block at each. Out: a unit of blocks, one right behind the other, linked
 * as all blocks are. Each call holds the engine lock for one unit. Any context but NMI.
 *
 * 1. A block is found by its context and its address alone, wherever it lies. So a layout changes
 *    where blocks are, not what they do.
 * 2. A chain goes on only where the code does: where a block falls, jumps, or returns from a call
 *    to the next one, or where its conditional branch leads there. Such a branch is turned round:
 *    the inverse condition leads to where the code went on otherwise. Flags and registers are the
 *    same on both ways, and so is the map: the turned branch stands for the original one.
 * 3. Old copies are retired before the new ones are made (cache/link.c): threads inside end the
 *    block that they are in, and go on in the new copies. So there are never two copies that could
 *    be found.
 */
#include "base/plant.h"
#include "engine.h"
#include "translate.h"
#include "host.h"
#include "instrument/ahead.h"

_Static_assert((int)JIFL_LAY_MAX == EMIT_UNIT_BLOCKS, "one unit in each call");

/*
 * Dropped before the first is translated: a block that exists ends the unit. A block of a chain
 * may have been dropped with another one that runs into it.
 */
static void drop(int context, const jifl_orig *chain, u32 n)
{
	u32 i, block;

	if (JIFL_PLANTED(laid_beside))
		return;
	jifl_ahead_forget();
	for (i = 0; i < n; i++) {
		block = jifl_cache_find(context, chain[i]);
		if (block != CACHE_NONE)
			jifl_cache_block_retire(block);
	}
}

/* How many blocks from the first on are those that were meant. */
static u32 matching(const jifl_orig *chain, u32 n, jifl_block_matches_fn is, const void *args,
		    u32 size)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (!jifl_fits_s32((s64)chain[i].v) ||
		    !jifl_translate_matches(chain[i], is, (const u8 *)args + i * size))
			break;
	return i;
}

static u32 lay(int context, const jifl_orig *chain, u32 n, enum jifl_warmed *result)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	u32 laid = 0, first;

	*result = JIFL_WARMED_FULL;
	if (!jifl_cache_has_spare_room())
		return 0;
	*result = JIFL_WARMED_OTHER;
	if (!n)
		return 0;
	drop(context, chain, n);
	first = jifl_translate_chain(context, chain, n, &laid, &cause);
	if (first == CACHE_NONE)
		return 0;
	/* Outside of a limited context: there is no copy, only a way out. */
	if (cache.blocks[first].flags & CACHE_BLOCK_NATIVE)
		return 0;
	*result = JIFL_WARMED_MADE;
	return laid;
}

u32 jifl_engine_lay(int context, const jifl_orig *chain, u32 n, jifl_block_matches_fn is,
		    const void *args, u32 size, enum jifl_warmed *result,
		    struct jifl_warmed_cost *cost)
{
	const unsigned long cookie = jifl_host_lock();
	const struct jifl_translated before = jifl_translated;
	u32 laid;

	n = matching(chain, n < JIFL_LAY_MAX ? n : JIFL_LAY_MAX, is, args, size);
	laid = lay(context, chain, n, result);
	cost->blocks += jifl_translated.blocks - before.blocks;
	cost->insns += jifl_translated.insns - before.insns;
	cost->ns += jifl_translated.ns - before.ns;
	jifl_host_unlock(cookie);
	return laid;
}
