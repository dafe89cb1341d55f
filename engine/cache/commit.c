// SPDX-License-Identifier: GPL-2.0
/*
 * Publishes an emitted unit. This is one of the two writers of executable memory; the other is
 * link.c with inline_cache.c. The code is complete before anything leads to it.
 */
#include "cache.h"
#include "../host.h"

static void add_exit(const struct emit_exit *e, u32 first_block)
{
	struct cache_exit *x = &cache.exits[cache.nexits++];

	memset(x, 0, sizeof(*x));
	x->site = e->site;
	x->stub = e->stub;
	x->next = CACHE_NONE;
	x->block = first_block + e->block;
	if (e->kind == EMIT_EXIT_DIRECT) {
		x->kind = CACHE_EXIT_DIRECT;
		x->target = (u32)e->target.v;
		return;
	}
	x->kind = CACHE_EXIT_INDIRECT;
	x->reg = e->reg;
}

static void add_block(const struct emit_unit *u, u32 k, int context,
		      const struct cache_source *source)
{
	const struct emit_block *eb = &u->blocks[k];
	struct cache_block *b = &cache.blocks[cache.nblocks];

	memset(b, 0, sizeof(*b));
	b->orig = (u32)source->addr.v;
	b->start = eb->start;
	b->len = eb->end - eb->start;
	b->src_len = source->len;
	b->map = cache.nmap;
	b->page_next = CACHE_NONE;
	b->links = CACHE_NONE;
	b->hash_next = CACHE_NONE;
	b->context = context;
	b->flags = source->flags;
	memcpy(cache.map + cache.nmap, u->map + eb->map, eb->map_len);
	cache.nmap += eb->map_len;
	cache.live++;
	cache.contexts[context].blocks++;
	/* Pairs with the acquire in jifl_cache_where. */
	__atomic_store_n(&cache.nblocks, cache.nblocks + 1, __ATOMIC_RELEASE);
}

u32 jifl_cache_commit(const struct emit_unit *u, int context, const struct cache_source *source)
{
	u32 first = cache.nblocks, first_exit = cache.nexits;
	u32 k;

	jifl_host_code_write(jifl_pos_at(u->cold.start), u->cold_buf, u->cold.len);
	jifl_host_code_write(jifl_pos_at(u->hot.start), u->hot_buf, u->hot.len);
	cache.cold += u->cold.len;
	cache.hot += u->hot.len;
	for (k = 0; k < u->nexits; k++)
		add_exit(&u->exits[k], first);
	for (k = 0; k < u->nblocks; k++) {
		add_block(u, k, context, &source[k]);
		if (source[k].flags & (CACHE_BLOCK_ENTRY | CACHE_BLOCK_BEGINS))
			continue;
		jifl_cache_page_add(first + k);
		jifl_cache_block_add(first + k);
	}
	for (k = first_exit; k < cache.nexits; k++)
		if (cache.exits[k].kind == CACHE_EXIT_DIRECT)
			jifl_cache_exit_add(k);
	return first;
}
