/* SPDX-License-Identifier: GPL-2.0 */
/* Inserts that code of their own surrounds: conditions of terms, and records of numbers. */
#ifndef JIFL_EMIT_GUARDED_H
#define JIFL_EMIT_GUARDED_H

#include "emit.h"

/* Emits ins, a COUNT or CALL with terms, where flags and regs are live. */
void emit_guarded_terms(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs);
/* The same for a HIT, with terms or without. */
void emit_guarded_hit(struct emit_unit *u, const struct ir_insert *ins, u8 flags, u16 regs);

#endif
