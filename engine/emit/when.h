/* SPDX-License-Identifier: GPL-2.0 */
/* Inserts that run only if a value equals a constant. */
#ifndef JIFL_EMIT_WHEN_H
#define JIFL_EMIT_WHEN_H

#include "save.h"

/* The condition of one insert, and what holds where the condition is met. */
struct emit_when {
	struct emit_config config;
	struct ir_insert ins;	/* the insert to emit there, without a condition */
	u8 flags;		/* live there */
	u16 regs;
	struct emit_saved saved;
	u32 branch;		/* its rel8 */
};

/*
 * The code before and behind an insert that runs if ins->when holds, where flags and regs are
 * live. Between the two at most as much is emitted as a short branch reaches; any insert is that
 * short.
 */
void emit_when_begin(struct x86_writer *w, const struct emit_config *config,
		     const struct ir_insert *ins, u8 flags, u16 regs, struct emit_when *when);
void emit_when_end(struct x86_writer *w, const struct emit_config *config,
		   const struct emit_when *when);

#endif
