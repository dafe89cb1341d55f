/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tells blocks of original code apart: the address and the bytes. All copies of a block have
 * the same name: those of several contexts, and those that are made anew. A block whose bytes have
 * changed has another name. Tables of blocks have cells (cells.h) by such names.
 */
#ifndef JIFL_HOST_BLOCK_NAME_H
#define JIFL_HOST_BLOCK_NAME_H

#include <linux/types.h>
#include "../../../engine/engine.h"

struct jifl_block_name {
	u32 orig;		/* low half of the address */
	u32 hash;		/* of the bytes */
	u32 src_len;		/* bytes */
};

#define JIFL_BLOCK_HASH_START	0x811c9dc5

/* FNV-1a of more bytes. Any context. */
static inline u32 jifl_block_hash_bytes(u32 hash, const u8 *bytes, u32 len)
{
	while (len--)
		hash = (hash ^ *bytes++) * 0x01000193;
	return hash;
}

/*
 * FNV-1a of the block's bytes. Code that decodes the block later can tell by it whether the block
 * still has these bytes. Any context.
 */
static inline u32 jifl_block_hash(const struct ir_block *b)
{
	u32 hash = JIFL_BLOCK_HASH_START, i;

	for (i = 0; i < b->ninsns; i++)
		hash = jifl_block_hash_bytes(hash, b->insns[i].bytes, b->insns[i].len);
	return hash;
}

/* Any context. */
static inline struct jifl_block_name jifl_block_name(const struct ir_block *b)
{
	return (struct jifl_block_name){
		.orig = (u32)b->addr.v,
		.hash = jifl_block_hash(b),
		.src_len = b->src_len,
	};
}

/* The address of kernel code, all of which lies in the topmost 2 GiB, from its low half. */
static inline u64 jifl_block_address(u32 low)
{
	return (u64)(s64)(s32)low;
}

#endif
