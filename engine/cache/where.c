// SPDX-License-Identifier: GPL-2.0
/*
 * From an address in the cache back to the original address, for faults, stack walks and eviction.
 * Takes no lock: blocks are sorted by the position of their code, are only appended, and each
 * block is complete before nblocks counts it.
 */
#include "cache.h"
#include "../base/plant.h"
#include "../host.h"

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

static void note_run(struct cache_run *run, u32 at, u8 what)
{
	run->before = run->from;
	run->from = at;
	run->fixed = what & EMIT_MAP_FIXED;
	run->pushed = emit_map_is_inserted(what) ? (what & EMIT_MAP_PUSHED) * 8 : 0;
}

/*
 * Walks the block's pairs. A place between two pairs is exact. The start of inserted code is
 * exact, too, because no part of that code has been executed yet. Instructions that left no code
 * stand before such a place for a return address, which follows them, and behind it for an
 * instruction that is executed.
 */
static enum jifl_where in_block(const struct cache_block *b, u32 off, u32 map_end,
				bool after_empty, jifl_orig *orig, struct cache_run *run)
{
	u32 at = b->start, m = b->map;
	u64 src = cache_orig(b->orig).v;
	bool goes_on = false, long_run = false;

	while (m < map_end) {
		u8 len = cache.map[m], what = cache.map[m + 1];
		u8 src_len = emit_map_is_inserted(what) ? 0 : what;

		/* A long run of inserted code has several pairs: only its first is exact. */
		goes_on = goes_on || (emit_map_is_inserted(what) && (what & EMIT_MAP_CONTINUES));
		if (!long_run)
			note_run(run, at, what);
		if (at == off && !goes_on && (len || !after_empty)) {
			*orig = jifl_orig_at(src + JIFL_PLANTED(where_next_insn) * src_len);
			return JIFL_WHERE_EXACT;
		}
		if (off < at + len) {
			*orig = jifl_orig_at(src);
			return JIFL_WHERE_INSIDE;
		}
		goes_on = long_run = len == EMIT_MAP_GOES_ON;
		at += len;
		src += src_len;
		m += 2;
	}
	*orig = jifl_orig_at(src);
	return at == off ? JIFL_WHERE_EXACT : JIFL_WHERE_INSIDE;
}

enum jifl_where jifl_cache_where_run(u64 addr, enum cache_at at, jifl_orig *orig,
				     struct cache_run *run)
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
		run->from = CACHE_NONE;
		return JIFL_WHERE_INSIDE;
	}
	b = &cache.blocks[i];
	/* Between the last block and the stubs there is no code. */
	if (off - b->start >= b->len)
		return JIFL_WHERE_OUTSIDE;
	*run = (struct cache_run){ .from = b->start, .before = b->start };
	if (b->flags & CACHE_BLOCK_ENTRY)
		return in_entry(b, off, orig);
	return in_block(b, off, cache_map_end(i, n), at == CACHE_AT_INSN, orig, run);
}

enum jifl_where jifl_cache_where(u64 addr, enum cache_at at, jifl_orig *orig)
{
	struct cache_run run;

	return jifl_cache_where_run(addr, at, orig, &run);
}

/* The block in whose code addr is; *off: from the block's start. NULL: it is in none. */
static const struct cache_block *block_with(u64 addr, u32 *off)
{
	/* Pairs with the release in commit.c. */
	u32 n = __atomic_load_n(&cache.nblocks, __ATOMIC_ACQUIRE), i;

	if (addr - cache.code_base >= cache.hot_end)
		return NULL;
	*off = (u32)(addr - cache.code_base);
	i = block_at(*off, n);
	if (i == CACHE_NONE || *off - cache.blocks[i].start >= cache.blocks[i].len)
		return NULL;
	*off -= cache.blocks[i].start;
	return &cache.blocks[i];
}

int jifl_cache_where_context(u64 addr)
{
	u32 off;
	const struct cache_block *b = block_with(addr, &off);

	return b ? b->context : -1;
}

bool jifl_cache_is_beginning(u64 addr)
{
	u32 off;
	const struct cache_block *b = block_with(addr, &off);

	return b && !off && b->flags & CACHE_BLOCK_BEGINS;
}

bool jifl_cache_is_start(u64 addr)
{
	u32 off;
	const struct cache_block *b = block_with(addr, &off);

	/* Where the block asks, the host has answered. */
	return b && (!off || (b->flags & CACHE_BLOCK_ASKS && off == cache.map[b->map]));
}

jifl_orig jifl_cache_begun(u64 addr, u64 *end)
{
	u32 off;
	const struct cache_block *b = block_with(addr, &off);

	if (!b || !off || b->flags & (CACHE_BLOCK_ENTRY | CACHE_BLOCK_NATIVE))
		return jifl_orig_at(0);
	*end = cache_orig(b->orig).v + b->src_len;
	return cache_orig(b->orig);
}

/*
 * The thread stands before instructions that have left no code there, because these instructions
 * may be what has changed.
 */
u32 jifl_cache_where_trap(u64 addr, jifl_orig *orig)
{
	u32 n = __atomic_load_n(&cache.nblocks, __ATOMIC_ACQUIRE);
	struct cache_run run = { 0 };
	u32 off, i;

	if (addr - cache.code_base >= cache.hot_end)
		return CACHE_NONE;
	off = (u32)(addr - cache.code_base);
	i = block_at(off, n);
	if (i == CACHE_NONE || off - cache.blocks[i].start >= cache.blocks[i].len ||
	    !(cache.blocks[i].flags & CACHE_BLOCK_DEAD) ||
	    in_block(&cache.blocks[i], off, cache_map_end(i, n), false, orig, &run) !=
	    JIFL_WHERE_EXACT)
		return CACHE_NONE;
	return i;
}

void jifl_cache_trap_start(const struct cache_block *b)
{
	static const u8 int3 = 0xcc;

	/* A block that leads to native code has no map: its bytes are not the source's. */
	if (b->len && cache_map_end((u32)(b - cache.blocks), cache.nblocks) > b->map)
		jifl_host_code_write(jifl_pos_at(b->start), &int3, 1);
}

void jifl_cache_trap_all(const struct cache_block *b)
{
	static const u8 int3 = 0xcc;
	u32 end = cache_map_end((u32)(b - cache.blocks), cache.nblocks);
	u32 at = b->start, m;
	bool goes_on = false;

	for (m = b->map; m < end; m += 2) {
		u8 what = cache.map[m + 1];

		goes_on = goes_on || (emit_map_is_inserted(what) && (what & EMIT_MAP_CONTINUES));
		if (cache.map[m] && !goes_on)
			jifl_host_code_write(jifl_pos_at(at), &int3, 1);
		goes_on = cache.map[m] == EMIT_MAP_GOES_ON;
		at += cache.map[m];
	}
}
