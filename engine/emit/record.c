// SPDX-License-Identifier: GPL-2.0
/*
 * Appending a record to a ring, without a call, a lock or a branch:
 *
 *	mov	$1 << (32 - order), %r11d
 *	xadd	%r11, %gs:cell
 *	rol	$order, %r11d
 *	mov	%esp, rings + 4(, %r11, 8)
 *	movl	$imm, rings(, %r11, 8)
 *
 * The cell's low half holds, from the top, `order` bits of position and the
 * processor's number; what is carried out of it counts how often the ring was
 * filled. One instruction takes the place, so whatever comes between the two,
 * an interrupt, another thread or another processor, the place is this
 * record's alone. The ring of processor n is the n-th after `rings`.
 *
 * A record is there when its first word is not 0: the second is stored before.
 */
#include "record.h"
#include "save.h"

#define SECOND	4	/* offset of a record's second word */

/* moved: bytes pushed since the original instruction */
static void append(struct x86_writer *w, const struct ir_insert *ins, enum ir_reg reg, u32 moved)
{
	x86_mov_imm(w, reg, 1u << (32 - ins->order));
	x86_xadd_cell(w, ins->cell, reg);
	x86_rol32(w, reg, ins->order);
	x86_store_word(w, ins->rings + SECOND, reg, IR_RSP);
	if (moved)
		x86_add_word_imm(w, ins->rings + SECOND, reg, (s32)moved);
	x86_store_word_imm(w, ins->rings, reg, ins->imm);
}

void emit_record(struct x86_writer *w, const struct emit_config *config,
		 const struct ir_insert *ins, u8 flags, u16 regs, struct inlined *code)
{
	enum ir_reg reg = ins->convention ? IR_R11 : emit_scratch(regs, 0);
	struct emit_body body = { .flags = !ins->convention, .changes = 1u << reg };
	struct emit_saved saved;

	if (ins->convention)
		regs &= ~(1u << IR_R11);
	emit_save(w, config, &body, flags & IR_FLAGS, regs, &saved);
	code->pushed += saved.pushed;
	code->body = x86_here(w);
	append(w, ins, reg, code->pushed * 8);
	code->restore = x86_here(w);
	emit_restore(w, config, &saved);
	code->end = x86_here(w);
}
