// SPDX-License-Identifier: GPL-2.0
/* The table from (context, original address) to block: chained hashing. */
#include "cache.h"

static u32 hash(int context, u32 orig)
{
	/* Fibonacci hashing: the golden ratio's bits, the upper ones of the product. */
	u32 h = (orig + (u32)context * 0x85ebca6bu) * 0x9e3779b1u;

	return h >> (32 - cache.hash_bits);
}

static u32 *bucket(int context, u32 orig)
{
	return &cache.hash[hash(context, orig)];
}

u32 *jifl_cache_waiting(int context, u32 orig)
{
	return &cache.waiting[hash(context, orig)];
}

u32 jifl_cache_find(int context, jifl_orig addr)
{
	u32 orig = (u32)addr.v;
	u32 i = *bucket(context, orig);

	/* Else the low half might be another's. */
	if (!jifl_fits_s32((s64)addr.v))
		return CACHE_NONE;
	while (i != CACHE_NONE) {
		if (cache.blocks[i].orig == orig && cache.blocks[i].context == context)
			return i;
		i = cache.blocks[i].hash_next;
	}
	return CACHE_NONE;
}

void jifl_cache_hash_add(u32 block)
{
	struct cache_block *b = &cache.blocks[block];
	u32 *head = bucket(b->context, b->orig);

	b->hash_next = *head;
	*head = block;
}

void jifl_cache_hash_remove(u32 block)
{
	struct cache_block *b = &cache.blocks[block];
	u32 *at = bucket(b->context, b->orig);

	while (*at != CACHE_NONE) {
		if (*at == block) {
			*at = b->hash_next;
			return;
		}
		at = &cache.blocks[*at].hash_next;
	}
}
