/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Puts aside what inserted code destroys and the kernel still needs: in dead registers first, then
 * on the stack; flags by lahf rather than pushf.
 */
#ifndef JIFL_EMIT_SAVE_H
#define JIFL_EMIT_SAVE_H

#include "emit.h"

/* What the code between save and restore does. */
struct emit_body {
	bool flags;		/* changes flags */
	bool calls;		/* uses the stack below rsp */
	u16 changes;		/* registers */
	u16 reads;		/* registers, as the kernel left them: see emit_saved_at */
};

struct emit_saved {
	u8 how;			/* enum emit_flags_in */
	u8 reg;			/* for FLAGS_IN_RAX_MOVED: the register that holds rax */
	u8 flags;		/* the saved flags */
	u16 regs;		/* the registers saved on the stack */
	bool red_zone;		/* rsp has been moved below it */
	u8 pushed;		/* words on the stack, the red zone's too */
};

/* The code before the body and behind it, where flags and regs are live. */
void emit_save(struct x86_writer *w, const struct emit_config *config,
	       const struct emit_body *body, u8 flags, u16 regs, struct emit_saved *saved);
void emit_restore(struct x86_writer *w, const struct emit_config *config,
		  const struct emit_saved *saved);

/* Between the two: the register that holds the value of reg for the body. */
enum ir_reg emit_saved_at(const struct emit_saved *saved, enum ir_reg reg);
/* Between the two: changes the lookups of ins to where the values are, on the stack too. */
void emit_saved_lookups(const struct emit_saved *saved, struct ir_insert *ins);
/* The registers that hold values that emit_restore needs. */
u16 emit_saved_in(const struct emit_saved *saved);

/*
 * A register for the body, none of `reads`: a dead one, if there is one. IR_REG_NONE: all are read,
 * which 15 registers can be by records alone.
 */
enum ir_reg emit_scratch(u16 live, u16 reads);

/* Puts garbage into all flags and registers that are not live. */
void emit_poison(struct x86_writer *w, const struct emit_config *config, u8 flags, u16 regs);

#endif
