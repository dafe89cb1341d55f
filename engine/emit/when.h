/* SPDX-License-Identifier: GPL-2.0 */
/* Inserts that are done only if a value equals a constant. */
#ifndef JIFL_EMIT_WHEN_H
#define JIFL_EMIT_WHEN_H

#include "save.h"

/* The condition of one, and what holds where it does. */
struct emit_when {
	struct emit_config config;
	struct ir_insert ins;	/* what is to be emitted there, without a condition */
	u8 flags;		/* live there */
	u16 regs;
	struct emit_saved saved;
	u32 branch;		/* its rel8 */
};

/*
 * Before and behind what is done if ins->when holds, where flags and regs are live.
 * Between the two at most as much is emitted as a short branch reaches; any insert is.
 */
void emit_when_begin(struct x86_writer *w, const struct emit_config *config,
		     const struct ir_insert *ins, u8 flags, u16 regs, struct emit_when *when);
void emit_when_end(struct x86_writer *w, const struct emit_config *config,
		   const struct emit_when *when);

#endif
