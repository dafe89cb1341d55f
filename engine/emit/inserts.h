/* SPDX-License-Identifier: GPL-2.0 */
/* What is inserted into a block: where it goes, and its code. */
#ifndef JIFL_EMIT_INSERTS_H
#define JIFL_EMIT_INSERTS_H

#include "emit.h"

/* Notes that hot code [from, to) was made from src original bytes, or is enum emit_map. */
void emit_map_add(struct emit_unit *u, u32 from, u32 to, u8 src);

/* Puts inserts where they cost least. l: out, what is live in the block. */
void emit_place_inserts(const struct emit_unit *u, struct ir_block *b, struct jifl_liveness *l);

/* Is something inserted at that place of instruction i? */
static inline bool emit_has_inserts(const struct ir_block *b, enum ir_place place, u16 i)
{
	const struct ir_insert *ins;

	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++)
		if (ins->place == place && ins->at == i)
			return true;
	return false;
}

/* Emits what is inserted there, in the order in which it was added. */
void emit_inserts_at(struct emit_unit *u, const struct ir_block *b, const struct jifl_liveness *l,
		     enum ir_place place, u16 i);

/* ... if there is something. */
static inline void emit_inserts(struct emit_unit *u, const struct ir_block *b,
				const struct jifl_liveness *l, enum ir_place place, u16 i)
{
	if (emit_has_inserts(b, place, i))
		emit_inserts_at(u, b, l, place, i);
}

#endif
