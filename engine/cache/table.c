// SPDX-License-Identifier: GPL-2.0
/*
 * Tables of blocks: by (context, original address), with chained hashing; and by the page of their
 * original code.
 */
#include "cache.h"

static u32 hash(int context, u32 orig)
{
	/* Fibonacci hashing: multiplies by the golden ratio's bits and takes the upper bits. */
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

	/* Otherwise the low half might be that of another address. */
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

static u32 *page_head(u64 page)
{
	return &cache.pages[page % CACHE_PAGES];
}

void jifl_cache_page_add(u32 block)
{
	struct cache_block *b = &cache.blocks[block];
	u32 *head = page_head(cache_orig(b->orig).v >> CACHE_PAGE_BITS);

	b->page_next = *head;
	*head = block;
}

void jifl_cache_page_visit(jifl_orig addr, u64 len, void (*fn)(u32 block))
{
	/* A block that begins in the page before may reach into the first one. */
	u64 page = (addr.v >> CACHE_PAGE_BITS) - 1;
	u64 last = (addr.v + len - 1) >> CACHE_PAGE_BITS;
	u64 from, to;
	u32 i;

	/* All lists together hold all blocks. */
	if (last - page >= CACHE_PAGES)
		last = page + CACHE_PAGES - 1;
	for (; page <= last; page++) {
		for (i = *page_head(page); i != CACHE_NONE; i = cache.blocks[i].page_next) {
			from = cache_orig(cache.blocks[i].orig).v;
			to = from + cache.blocks[i].src_len;
			if (from < addr.v + len && to > addr.v)
				fn(i);
		}
	}
}
