// SPDX-License-Identifier: GPL-2.0
/*
 * What a block's map says about its code, piece by piece, in the form in which hosts show it. A
 * run of inserted code that takes several pairs of the map is one piece.
 */
#include "cache.h"

_Static_assert(EMIT_BLOCK_MAP / 2 < JIFL_DUMP_PIECES, "room for all pieces of a block");
_Static_assert((int)JIFL_DUMP_DEAD == CACHE_BLOCK_DEAD &&
	       (int)JIFL_DUMP_NATIVE == CACHE_BLOCK_NATIVE &&
	       (int)JIFL_DUMP_ENTRY == CACHE_BLOCK_ENTRY &&
	       (int)JIFL_DUMP_FALLS == CACHE_BLOCK_FALLS, "flags have the same numbers");

static struct jifl_piece *add(struct jifl_dump *d, u32 code_len, u8 kind)
{
	struct jifl_piece *p = &d->pieces[d->npieces];

	if (d->npieces + 1 < JIFL_DUMP_PIECES)
		d->npieces++;
	*p = (struct jifl_piece){ .code_len = (u16)code_len, .kind = kind };
	return p;
}

/* No inserted code is a jump alone. */
static bool is_jump(u32 at, u32 len)
{
	const u8 *p = (const u8 *)(unsigned long)cache_address(at);

	while (len > 5 && *p == 0x2e) {
		p++;
		len--;
	}
	return len == 5 && *p == 0xe9;
}

static void add_pair(struct jifl_dump *d, u32 at, u32 len, u8 what)
{
	struct jifl_piece *p;

	if (!emit_map_is_inserted(what)) {
		p = add(d, len, JIFL_PIECE_ORIGINAL);
		p->src_len = what;
		d->src_len += what;
		return;
	}
	if (what & EMIT_MAP_FIXED)
		p = add(d, len, JIFL_PIECE_INLINED);
	else
		p = add(d, len, is_jump(at, len) ? JIFL_PIECE_ONWARD : JIFL_PIECE_INSERTED);
	p->pushed = what & EMIT_MAP_PUSHED;
}

/* The code behind the map: all of an entry piece, and the way out of a native block. */
static void add_rest(struct jifl_dump *d, const struct cache_block *b, u32 at)
{
	u32 len = b->start + b->len - at;

	if (len)
		add(d, len, b->flags & CACHE_BLOCK_ENTRY ? JIFL_PIECE_INSERTED :
							   JIFL_PIECE_ONWARD);
}

void jifl_cache_pieces(u32 i, struct jifl_dump *d)
{
	const struct cache_block *b = &cache.blocks[i];
	u32 end = cache_map_end(i, cache.nblocks);
	u32 at = b->start, m = b->map, len;

	d->npieces = 0;
	d->src_len = 0;
	while (m < end) {
		len = 0;
		for (; cache.map[m] == EMIT_MAP_GOES_ON; m += 2)
			len += EMIT_MAP_GOES_ON;
		len += cache.map[m];
		add_pair(d, at, len, cache.map[m + 1]);
		at += len;
		m += 2;
	}
	add_rest(d, b, at);
}
