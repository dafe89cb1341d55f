// SPDX-License-Identifier: GPL-2.0
/*
 * Indirect branches with many targets, where unprotected indirect jumps may be
 * executed: a site jumps through a table of its own, by some low bits of the
 * target, to a landing, which compares all of it. The processor predicts that jump as it
 * would the original; see cache/landing.c.
 *
 * From site to landing rcx is in the thread's word. rsp stays, so nothing
 * happens to the red zone; flags have no value here.
 */
#include "emit.h"

/*
 *	mov %rcx, %fs:word
 *	mov reg or operand, %rcx
 *	and $mask, %ecx
 *	jmp *table(%rcx)
 */
u32 emit_site_lookup(struct x86_writer *w, const struct emit_config *config,
		     const struct ir_insn *operand, u8 reg, u64 table, u32 mask)
{
	u32 start = x86_here(w);

	x86_store_thread(w, config->thread_word, IR_RCX);
	if (operand)
		x86_load_rcx_operand_of(w, operand, -(s32)config->red_zone);
	else if (reg != IR_RCX)
		x86_mov(w, IR_RCX, reg);
	x86_jmp_table(w, table, mask);
	return start;
}

void emit_landing(struct x86_writer *w, const struct emit_config *config,
		  const struct ir_insn *operand, u8 reg, jifl_orig target, u32 next,
		  struct emit_chain_piece *piece)
{
	u32 start = x86_here(w);

	x86_load_thread(w, IR_RCX, config->thread_word);
	emit_chain_piece(w, config, operand, reg, target, next, piece);
	piece->start = start;
}

u32 emit_landing_miss(struct x86_writer *w, const struct emit_config *config, u32 stub)
{
	u32 start = x86_here(w);

	x86_load_thread(w, IR_RCX, config->thread_word);
	x86_jmp(w, stub);
	return start;
}
