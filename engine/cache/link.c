// SPDX-License-Identifier: GPL-2.0
/*
 * Links between blocks. A link is one store to the rel32 of a branch. CPUs that execute the branch
 * meanwhile take the old way or the new way, and both are right.
 */
#include "cache.h"
#include "../base/plant.h"
#include "../host.h"

static void patch(u32 site, u32 to)
{
	jifl_host_code_store32(jifl_pos_at(site), x86_rel32(site, to));
}

static int context_of(const struct cache_exit *x)
{
	return cache.blocks[x->block].context;
}

static void link(u32 exit, u32 block)
{
	struct cache_exit *x = &cache.exits[exit];
	struct cache_block *b = &cache.blocks[block];

	patch(x->site, b->start);
	x->next = b->links;
	b->links = exit;
	cache.links++;
}

static void wait_for_block(u32 exit)
{
	struct cache_exit *x = &cache.exits[exit];
	u32 *head = jifl_cache_waiting(context_of(x), x->target);

	x->next = *head;
	*head = exit;
}

void jifl_cache_exit_add(u32 exit)
{
	struct cache_exit *x = &cache.exits[exit];
	u32 block = jifl_cache_find(context_of(x), cache_orig(x->target));

	if (block != CACHE_NONE)
		link(exit, block);
	else
		wait_for_block(exit);
}

void jifl_cache_block_add(u32 block)
{
	const struct cache_block *b = &cache.blocks[block];
	u32 *at = jifl_cache_waiting(b->context, b->orig);

	jifl_cache_hash_add(block);
	while (*at != CACHE_NONE) {
		u32 exit = *at;
		struct cache_exit *x = &cache.exits[exit];

		if (x->target == b->orig && context_of(x) == b->context) {
			*at = x->next;
			link(exit, block);
		} else {
			at = &x->next;
		}
	}
}

static void forget(u32 block)
{
	struct cache_block *b = &cache.blocks[block];
	u32 exit, next;

	for (exit = b->links; exit != CACHE_NONE; exit = next) {
		next = cache.exits[exit].next;
		if (!JIFL_PLANTED(links_not_cut))
			patch(cache.exits[exit].site, cache.exits[exit].stub);
		wait_for_block(exit);
	}
	b->links = CACHE_NONE;
	b->flags |= CACHE_BLOCK_DEAD;
	cache.live--;
	cache.invalidated++;
	jifl_cache_hash_remove(block);
	jifl_cache_lookup_forget(b);
}

/* Forgets the block and the blocks that run into it without a branch in between. */
static void forget_run(u32 block)
{
	forget(block);
	if (JIFL_PLANTED(falls_not_dropped))
		return;
	while (block-- && cache.blocks[block].flags & CACHE_BLOCK_FALLS)
		if (!(cache.blocks[block].flags & CACHE_BLOCK_DEAD))
			forget(block);
}

/* The block may be dead already, as the neighbour of another block, and change only now. */
static void forget_living(u32 block)
{
	if (!(cache.blocks[block].flags & CACHE_BLOCK_DEAD))
		forget_run(block);
}

void jifl_cache_block_drop(u32 block)
{
	forget_living(block);
	/*
	 * After the block is marked dead: the host asks for that mark when a thread meets a trap.
	 */
	if (!JIFL_PLANTED(traps_not_set))
		jifl_cache_trap_all(&cache.blocks[block]);
}

void jifl_cache_block_retire(u32 block)
{
	forget_living(block);
	/* For threads that run into it, and for return addresses. */
	if (!JIFL_PLANTED(traps_not_set))
		jifl_cache_trap_start(&cache.blocks[block]);
}
