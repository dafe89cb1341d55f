/* SPDX-License-Identifier: GPL-2.0 */
/* The inserts of a block: their places and their code. */
#ifndef JIFL_EMIT_INSERTS_H
#define JIFL_EMIT_INSERTS_H

#include "emit.h"

/*
 * Notes that hot code [from, to) was made from src original bytes, or is what enum emit_map says.
 */
void emit_map_add(struct emit_unit *u, u32 from, u32 to, u8 src);

/* Notes a piece of inserted code, [from, to). */
void emit_map_inserted(struct emit_unit *u, u32 from, u32 to, u8 what);
/* Emits ins, a CALL or RECORD without terms, where flags and regs are live. */
void emit_with_body(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs);

/* Puts inserts where they cost least. l is filled with what is live in the block. */
void emit_place_inserts(const struct emit_unit *u, struct ir_block *b, struct jifl_liveness *l);

/* True when something is inserted at that place of instruction i. */
static inline bool emit_has_inserts(const struct ir_block *b, enum ir_place place, u16 i)
{
	const struct ir_insert *ins;

	for (ins = b->inserts; ins < b->inserts + b->ninserts; ins++)
		if (ins->place == place && ins->at == i)
			return true;
	return false;
}

/* Emits the inserts of that place, in the order in which they were added. */
void emit_inserts_at(struct emit_unit *u, const struct ir_block *b, const struct jifl_liveness *l,
		     enum ir_place place, u16 i);

/* The same, where there may be no inserts. */
static inline void emit_inserts(struct emit_unit *u, const struct ir_block *b,
				const struct jifl_liveness *l, enum ir_place place, u16 i)
{
	if (emit_has_inserts(b, place, i))
		emit_inserts_at(u, b, l, place, i);
}

#endif
