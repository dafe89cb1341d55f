/* SPDX-License-Identifier: GPL-2.0 */
/* Analysis routines that are copied into the block instead of called. */
#ifndef JIFL_EMIT_INLINED_H
#define JIFL_EMIT_INLINED_H

#include "emit.h"

/* The code of one routine: saves, body, restores, each of which may be empty. */
struct inlined {
	u32 body, restore, end;		/* cache offsets */
	u8 pushed;			/* words on the stack: before the saves, then in the body */
};

/*
 * Emits the routine of ins where flags and regs are live. Returns JIFL_INLINE_YES, or why the
 * routine cannot be inlined: then nothing is emitted.
 */
enum jifl_inline emit_inlined(struct x86_writer *w, const struct emit_config *config,
			      const struct ir_insert *ins, u8 flags, u16 regs,
			      struct inlined *code);

/* True when the code of ins depends on which registers are live. */
bool emit_inlined_needs_registers(const struct ir_insert *ins);

/* Forgets the decoded routines: their code may be gone. */
void emit_inlined_forget(void);

/*
 * Three functions: count what became of a call; forget these counts; give the counts of the i-th
 * routine (false: there is no i-th).
 */
void emit_inlined_note(u64 fn, enum jifl_inline verdict);
void emit_inlined_reset(void);
bool emit_inlined_get(u32 i, struct ir_inlined *f);

#endif
