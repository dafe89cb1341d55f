// SPDX-License-Identifier: GPL-2.0
/*
 * From an address in the cache back to the original one, for faults, stack walks
 * and eviction. Takes no lock: blocks are sorted by the position of their code,
 * are only appended, and each is complete before nblocks counts it.
 */
#include "cache.h"

/* The last block that starts at or before off, or CACHE_NONE. */
static u32 block_at(u32 off, u32 n)
{
	u32 lo = 0, hi = n;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (cache.blocks[mid].start <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? lo - 1 : CACHE_NONE;
}

/* Of the blocks that start there, the first: all but the last have no code. */
static u32 first_at(u32 i, u32 off)
{
	if (cache.blocks[i].start != off)
		return i;
	while (i && cache.blocks[i - 1].start == off)
		i--;
	return i;
}

static enum jifl_where in_entry(const struct cache_block *b, u32 off, jifl_orig *orig)
{
	u32 after = b->start + b->src_len;

	if (b->src_len && off >= after) {
		*orig = jifl_orig_at(cache.return_site);
		return off == after ? JIFL_WHERE_EXACT : JIFL_WHERE_INSIDE;
	}
	*orig = cache_orig(b->orig);
	return JIFL_WHERE_INSIDE;
}

/*
 * Walks the block's pairs. A place between two pairs is exact; so is the
 * start of inserted code, which nothing of has been executed yet. Instructions
 * that left no code stand before it for a return address, which they follow,
 * and behind it for an instruction that is executed.
 */
static enum jifl_where in_block(const struct cache_block *b, u32 off, u32 map_end,
				bool is_return, jifl_orig *orig, u32 *run)
{
	u32 at = b->start, m = b->map;
	u64 src = cache_orig(b->orig).v;
	bool goes_on = false;

	while (m < map_end) {
		u8 len = cache.map[m], src_len = cache.map[m + 1];

		if (!goes_on)
			*run = at;
		if (at == off && !goes_on && (len || is_return)) {
			*orig = jifl_orig_at(src);
			return JIFL_WHERE_EXACT;
		}
		if (off < at + len) {
			*orig = jifl_orig_at(src);
			return JIFL_WHERE_INSIDE;
		}
		/* A long run of inserted code has several pairs: exact at its first only. */
		goes_on = len == EMIT_MAP_GOES_ON;
		at += len;
		src += src_len;
		m += 2;
	}
	*orig = jifl_orig_at(src);
	return at == off ? JIFL_WHERE_EXACT : JIFL_WHERE_INSIDE;
}

enum jifl_where jifl_cache_where_run(u64 addr, bool is_return, jifl_orig *orig, u32 *run)
{
	/* Pairs with the release in commit.c. */
	u32 n = __atomic_load_n(&cache.nblocks, __ATOMIC_ACQUIRE);
	const struct cache_block *b;
	u32 off, i;

	if (addr - cache.code_base >= cache.code_size)
		return JIFL_WHERE_OUTSIDE;
	off = (u32)(addr - cache.code_base);
	i = block_at(off, n);
	if (i == CACHE_NONE || off >= cache.hot_end) {
		*orig = jifl_orig_at(cache.return_site);
		*run = CACHE_NONE;
		return JIFL_WHERE_INSIDE;
	}
	b = &cache.blocks[i];
	/* Between the last block and the stubs there is no code. */
	if (off - b->start >= b->len)
		return JIFL_WHERE_OUTSIDE;
	*run = b->start;
	if (b->flags & CACHE_BLOCK_ENTRY)
		return in_entry(b, off, orig);
	if (is_return) {
		i = first_at(i, off);
		b = &cache.blocks[i];
	}
	return in_block(b, off, i + 1 < n ? cache.blocks[i + 1].map : cache.nmap,
			is_return, orig, run);
}

enum jifl_where jifl_cache_where(u64 addr, bool is_return, jifl_orig *orig)
{
	u32 run;

	return jifl_cache_where_run(addr, is_return, orig, &run);
}
