// SPDX-License-Identifier: GPL-2.0
/*
 * Hot targets first. An inline cache that gets a second target, or one more, counts its hits down
 * for some time, in cells of the CPU that executes it. When one of the cells is below zero, the
 * hit comes to the dispatcher. The dispatcher makes the inline cache anew, in the order of this
 * CPU's counts and without counters.
 *
 * There are cells for few sites at a time. A site that needs cells and finds none free ends the
 * training that began first, with the counts so far. Cells are free when the block of their site
 * is dead or its context is gone, because no thread comes there any more. A CPU that still
 * executes an old counter spoils a count or two, no more.
 */
#include "cache.h"
#include "../base/plant.h"
#include "../host.h"

static bool is_used(u32 slot)
{
	u32 exit = cache.training[slot];
	const struct cache_block *b;

	if (exit == CACHE_NONE)
		return false;
	b = &cache.blocks[cache.exits[exit].block];
	return !(b->flags & CACHE_BLOCK_DEAD) && cache.contexts[b->context].used;
}

static u32 slot_of(u32 exit)
{
	u32 i;

	for (i = 0; i < JIFL_TRAINING_SITES; i++)
		if (cache.training[i] == exit)
			return i;
	return CACHE_NONE;
}

static const s64 *cells_of(u32 slot)
{
	return jifl_host_training() + slot * CACHE_CHAIN_MAX;
}

static void set_cells(u32 slot)
{
	jifl_host_training_set(slot * CACHE_CHAIN_MAX, CACHE_CHAIN_MAX, cache.training_hits);
}

void jifl_cache_training_reset(void)
{
	u32 i;

	for (i = 0; i < JIFL_TRAINING_SITES; i++)
		cache.training[i] = CACHE_NONE;
	cache.training_next = 0;
}

/*
 * The target with most hits, whose cell has least left, comes first. Equal targets keep their
 * order. Only the first n cells are the site's: a thread in an older, longer chain may count in
 * more.
 */
static void sort_cells(const s64 *cells, u32 n, u8 order[CACHE_CHAIN_MAX])
{
	u8 i, k;

	for (i = 0; i < n; i++) {
		for (k = i; k && cells[order[k - 1]] > cells[i]; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

static void end(u32 slot)
{
	u32 exit = cache.training[slot];
	u8 order[CACHE_CHAIN_MAX];

	sort_cells(cells_of(slot), JIFL_PLANTED(stray_cells_sorted) ? CACHE_CHAIN_MAX :
			   jifl_cache_chain_length(&cache.exits[exit]), order);
	cache.training[slot] = CACHE_NONE;
	jifl_cache_chain_order(exit, order);
}

static u32 take_slot(void)
{
	u32 i, slot;

	for (i = 0; i < JIFL_TRAINING_SITES; i++) {
		slot = (cache.training_next + i) % JIFL_TRAINING_SITES;
		if (!is_used(slot))
			return slot;
	}
	slot = cache.training_next++ % JIFL_TRAINING_SITES;
	end(slot);
	return slot;
}

u32 jifl_cache_training_begin(u32 exit)
{
	u32 slot = slot_of(exit);

	if (slot == CACHE_NONE)
		slot = take_slot();
	cache.training[slot] = exit;
	set_cells(slot);
	return slot;
}

void jifl_cache_training_check(u32 exit)
{
	const u32 n = jifl_cache_chain_length(&cache.exits[exit]);
	u32 slot = slot_of(exit), i;

	if (slot == CACHE_NONE)
		return;
	for (i = 0; i < n; i++) {
		if (cells_of(slot)[i] >= 0)
			continue;
		if (jifl_cache_has_room(0, EMIT_CHAIN))
			end(slot);
		else
			set_cells(slot);
		return;
	}
}
