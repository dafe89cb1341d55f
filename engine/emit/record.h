/* SPDX-License-Identifier: GPL-2.0 */
/* Records that inserted code appends to a ring of the processor on which it runs. */
#ifndef JIFL_EMIT_RECORD_H
#define JIFL_EMIT_RECORD_H

#include "inlined.h"

/* Emits ins, an IR_INSERT_RECORD, where flags and regs are live. */
void emit_record(struct x86_writer *w, const struct emit_config *config,
		 const struct ir_insert *ins, u8 flags, u16 regs, struct inlined *code);

#endif
