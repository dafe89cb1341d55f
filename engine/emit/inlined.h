/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of analysis routines that are copied into the block instead. */
#ifndef JIFL_EMIT_INLINED_H
#define JIFL_EMIT_INLINED_H

#include "emit.h"

/* The code of one: saves, body, restores, each perhaps empty. */
struct inlined {
	u32 body, restore, end;		/* cache offsets */
	u8 pushed;			/* words on the stack: before the saves, then during the body */
};

/*
 * Emits ins's routine where flags and regs are live. Returns JIFL_INLINE_YES,
 * or why it cannot be inlined: then nothing is emitted.
 */
enum jifl_inline emit_inlined(struct x86_writer *w, const struct emit_config *config,
			      const struct ir_insert *ins, u8 flags, u16 regs, struct inlined *code);

/* Does it matter for ins's code which registers are live? */
bool emit_inlined_needs_registers(const struct ir_insert *ins);

/* Forgets routines that were decoded: their code may be gone. */
void emit_inlined_forget(void);

/* Counts what became of a call, forgets that, and gives the i-th routine's counts; false: there are no more. */
void emit_inlined_note(u64 fn, enum jifl_inline verdict);
void emit_inlined_reset(void);
bool emit_inlined_get(u32 i, struct ir_inlined *f);

#endif
