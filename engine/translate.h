/* SPDX-License-Identifier: GPL-2.0 */
/* Translation: from an original address to a block in the code cache. */
#ifndef JIFL_TRANSLATE_H
#define JIFL_TRANSLATE_H

#include "cache/cache.h"

/* Totals of all translations since init. */
struct jifl_translated {
	u64 blocks;
	u64 insns;
	u64 ns;
	u64 refused;		/* for want of memory */
};
extern struct jifl_translated jifl_translated;

/* See jifl_engine_everywhere. */
extern jifl_instrument_fn jifl_translate_everywhere;

/*
 * Translates the block at addr, and the code straight behind it as far as a unit goes. Returns the
 * block's number in the cache, or CACHE_NONE with *cause when the caller has to go on natively
 * this time. Under the engine lock.
 */
u32 jifl_translate(int context, jifl_orig addr, enum jifl_cause *cause);

/*
 * The same for one unit of the n blocks at chain[], n > 0, one right behind the other in this
 * order. The block chain[0] does not exist yet. The unit ends before a block that exists, and where
 * no branch, call or fall leads from one to the next. A conditional branch that leads to the next
 * block is turned round. Returns the number of the first block; *laid gets how many there are.
 */
u32 jifl_translate_chain(int context, const jifl_orig *chain, u32 n, u32 *laid,
			 enum jifl_cause *cause);

/*
 * Decodes the block at addr, and asks. False too where nothing is to be copied. Under the
 * engine lock.
 */
bool jifl_translate_matches(jifl_orig addr, jifl_block_matches_fn is, const void *arg);

/* Makes an entry piece; see jifl_engine_entry_create_beginning. Same returns as above. */
u32 jifl_translate_beginning(int context, jifl_orig target, u32 len, const struct ir_insert *entry,
			     u32 nentry, enum jifl_cause *cause);

/* Makes an entry piece; see jifl_engine_entry_create. Same returns. */
u32 jifl_translate_entry(int context, jifl_orig target,
			 const struct ir_insert *entry, u32 nentry,
			 const struct ir_insert *exit, u32 nexit, enum jifl_cause *cause);

#endif
