// SPDX-License-Identifier: GPL-2.0
/*
 * Conditions of inserts:
 *
 *	save flags
 *	cmp	$constant, value
 *	jne	1f
 *	the insert, where flags are dead: with what it has to save itself
 * 1:	restore flags
 *
 * A thread that does not meet the condition pays for the flags, if they are live, and for two
 * instructions. Registers around a call are saved only where the call is made. The insert pops
 * again what it pushes, so the stack at 1 is what it was at the branch. A reader that walks
 * straight through the code (cache/pushed.c) need not know which way the branch went.
 */
#include "when.h"

static bool is_immediate(const struct ir_insert *ins)
{
	return ins->when.width == 4 || jifl_fits_s32((s64)ins->equals);
}

static void compare(struct x86_writer *w, const struct ir_insert *ins,
		    const struct ir_source *value, enum ir_reg scratch)
{
	if (is_immediate(ins)) {
		x86_cmp_source_imm(w, value, (s32)ins->equals);
		return;
	}
	x86_mov_imm(w, scratch, ins->equals);
	x86_cmp_source(w, value, scratch);
}

/* A copy of the insert whose lookups point to where the saves have put the values. */
static struct ir_insert moved(const struct ir_insert *ins, const struct emit_saved *saved)
{
	struct ir_insert to = *ins;

	to.reg = emit_saved_at(saved, to.reg);
	to.value.reg = emit_saved_at(saved, to.value.reg);
	to.when.reg = emit_saved_at(saved, to.when.reg);
	emit_saved_lookups(saved, &to);
	return to;
}

void emit_when_begin(struct x86_writer *w, const struct emit_config *config,
		     const struct ir_insert *ins, u8 flags, u16 regs, struct emit_when *when)
{
	struct emit_body body = { .flags = !ins->convention, .reads = ir_insert_reads(ins) };
	enum ir_reg scratch = IR_REG_NONE;

	if (ins->convention)
		regs &= ~(1u << IR_R11);
	if (!is_immediate(ins)) {
		scratch = emit_scratch(regs, body.reads);
		body.changes = 1u << scratch;
	}
	emit_save(w, config, &body, flags & IR_FLAGS, regs, &when->saved);
	when->ins = moved(ins, &when->saved);
	compare(w, &when->ins, &when->ins.when, scratch);
	when->branch = x86_jcc_short(w, X86_CC_NE);
	when->ins.when = (struct ir_source){ 0 };
	when->config = *config;
	if (when->saved.red_zone)
		when->config.red_zone = 0;
	when->flags = flags & ~IR_FLAGS;
	when->regs = (regs & ~when->saved.regs) | emit_saved_in(&when->saved);
}

void emit_when_end(struct x86_writer *w, const struct emit_config *config,
		   const struct emit_when *when)
{
	x86_set_rel8_here(w, when->branch);
	emit_restore(w, config, &when->saved);
}
