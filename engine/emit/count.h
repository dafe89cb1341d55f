/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of the processor on which inserted code runs, wherever they are. */
#ifndef JIFL_EMIT_COUNT_H
#define JIFL_EMIT_COUNT_H

#include "emit.h"

/* Emits ins, an IR_INSERT_COUNT, where flags and regs are live. */
void emit_count(struct x86_writer *w, const struct emit_config *config,
		const struct ir_insert *ins, u8 flags, u16 regs);

/* Does one instruction reach the counter? Else emit_count_by needs a register. */
bool emit_count_is_near(const struct ir_insert *ins);
/* Emits the addition alone; it changes flags, and reg. */
void emit_count_by(struct x86_writer *w, const struct ir_insert *ins, enum ir_reg reg);

#endif
