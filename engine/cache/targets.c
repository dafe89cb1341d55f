// SPDX-License-Identifier: GPL-2.0
/*
 * The table that replaces the hash lookup where unprotected indirect jumps may be executed
 * (config.thread_words). A context's table, in memory of the host, has an entry for each original
 * address below config.targets_end: 0, or the place of the block. Branches go through the table
 * without the dispatcher; emit/jump.c has their code.
 */
#include "cache.h"

bool jifl_cache_targets_create(int context)
{
	struct cache_context *c = &cache.contexts[context];

	if (!cache.config.thread_words || c->targets)
		return true;
	c->targets = cache.host_targets(context);
	return c->targets;
}

/* The store that publishes the block: all of the block is in the cache. */
static void store(const struct cache_context *c, u64 addr, u32 to)
{
	u32 *table = (u32 *)(unsigned long)c->targets;

	__atomic_store_n(&table[addr], to, __ATOMIC_RELEASE);
}

bool jifl_cache_targets_store(const struct cache_context *c, jifl_orig addr, u32 block)
{
	if (!c->targets || addr.v >= cache.config.targets_end)
		return false;
	store(c, addr.v, (u32)cache_address(cache.blocks[block].start));
	return true;
}

void jifl_cache_targets_forget(const struct cache_context *c, jifl_orig addr)
{
	if (c->targets && addr.v < cache.config.targets_end)
		store(c, addr.v, 0);
}
