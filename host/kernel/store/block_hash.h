/* SPDX-License-Identifier: GPL-2.0 */
/* What tells two blocks at one address apart: a hash of their bytes. */
#ifndef JIFL_HOST_BLOCK_HASH_H
#define JIFL_HOST_BLOCK_HASH_H

#include "../../../engine/engine.h"

/*
 * FNV-1a of the block's bytes. Code that decodes the block later can tell by it whether the block
 * still has these bytes. Any context.
 */
static inline u32 jifl_block_hash(const struct ir_block *b)
{
	u32 hash = 0x811c9dc5, i, j;

	for (i = 0; i < b->ninsns; i++)
		for (j = 0; j < b->insns[i].len; j++)
			hash = (hash ^ b->insns[i].bytes[j]) * 0x01000193;
	return hash;
}

#endif
