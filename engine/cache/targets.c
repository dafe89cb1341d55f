// SPDX-License-Identifier: GPL-2.0
/*
 * Where unprotected indirect jumps may be executed (config.thread_words): what the hash lookup
 * is elsewhere. A context's table, memory of the host's, has an entry for each original address below
 * config.targets_end: 0, or where the block is. Branches go through it by themselves; emit/jump.c has
 * their code.
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

/* The store that publishes: all of the block is there. */
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
