// SPDX-License-Identifier: GPL-2.0
/*
 * Adds 1 to a counter that each processor has at the same distance from gs. If a sign-extended
 * 32-bit offset reaches the counter, this takes one instruction, else two:
 *
 *	addq	$1, %gs:counter			movabs	$counter, %r11
 *						addq	$1, %gs:(%r11)
 *
 * The count is exact:
 *
 * 1. One instruction reads and writes the counter. No interrupt can divide it.
 * 2. Between the two instructions a thread may be interrupted, or moved to another processor. The
 *    offset in the register is the same for all processors, and gs is the processor's that executes
 *    the addition. So the addition goes to the counter of that processor.
 * 3. By 2, only its processor writes a counter. So the addition needs no lock prefix.
 */
#include "count.h"
#include "save.h"
#include "../base/plant.h"

bool emit_count_is_near(const struct ir_insert *ins)
{
	return jifl_fits_s32((s64)ins->counter) || JIFL_PLANTED(counter_cut);
}

void emit_count_by(struct x86_writer *w, const struct ir_insert *ins, enum ir_reg reg)
{
	if (emit_count_is_near(ins)) {
		x86_add_cell(w, (struct ir_operand){ .disp = (s32)ins->counter, .gs = true }, 1);
		return;
	}
	x86_mov_imm(w, reg, ins->counter);
	x86_count_at(w, reg);
}

void emit_count(struct x86_writer *w, const struct emit_config *config,
		const struct ir_insert *ins, u8 flags, u16 regs)
{
	struct emit_body body = { .flags = !ins->convention, .reads = ir_insert_reads(ins) };
	enum ir_reg reg = IR_REG_NONE;
	struct emit_saved saved;

	if (ins->convention)
		regs &= ~(1u << IR_R11);
	if (!emit_count_is_near(ins)) {
		reg = emit_scratch(regs, body.reads);
		body.changes = 1u << reg;
	}
	emit_save(w, config, &body, flags & IR_FLAGS, regs, &saved);
	emit_count_by(w, ins, reg);
	emit_restore(w, config, &saved);
}
