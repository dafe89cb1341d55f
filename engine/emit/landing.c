// SPDX-License-Identifier: GPL-2.0
/*
 * Indirect branches with many targets, where unprotected indirect jumps may be
 * executed: a site jumps through a table, by the lowest bits of the target, to a
 * landing, which compares all of it. The jump is each site's own, so that the
 * processor predicts it as it would the original; see cache/landing.c.
 *
 * From site to landing rcx holds the target, and rcx and rax are in the thread's
 * words. rsp stays, so nothing happens to the red zone; flags have no value here.
 */
#include "emit.h"

static s32 saved_rcx(const struct emit_config *config)
{
	return config->thread_words;
}

static s32 saved_rax(const struct emit_config *config)
{
	return config->thread_words + 8;
}

/*
 *	mov %rcx, %fs:saved_rcx
 *	mov reg or operand, %rcx
 *	mov %rax, %fs:saved_rax
 *	mov %ecx, %eax; and $mask, %eax
 *	jmp *table(,%rax,8)
 */
u32 emit_site_lookup(struct x86_writer *w, const struct emit_config *config,
		     const struct ir_insn *operand, u8 reg, u64 table, u32 bits)
{
	u32 start = x86_here(w);

	x86_store_thread(w, saved_rcx(config), IR_RCX);
	if (operand)
		x86_load_rcx_operand_of(w, operand, -(s32)config->red_zone);
	else if (reg != IR_RCX)
		x86_mov(w, IR_RCX, reg);
	x86_store_thread(w, saved_rax(config), IR_RAX);
	x86_jmp_table(w, table, (1u << bits) - 1);
	return start;
}

/*
 *	cmp $target, %rcx; jne next
 *	mov %fs:saved_rax, %rax; mov %fs:saved_rcx, %rcx
 *	jmp block
 */
void emit_landing(struct x86_writer *w, const struct emit_config *config, jifl_orig target,
		  u32 next, u32 exit, struct emit_landing *landing)
{
	landing->start = x86_here(w);
	x86_cmp_imm(w, IR_RCX, (s32)target.v);
	x86_jcc(w, X86_CC_NE, next);
	x86_load_thread(w, IR_RAX, saved_rax(config));
	x86_load_thread(w, IR_RCX, saved_rcx(config));
	landing->site = x86_jmp(w, 0);
	landing->stub = emit_exit_stub(w, config, exit);
	x86_set_rel32(w, landing->site, landing->stub);
}

/*
 *	mov %fs:saved_rax, %rax
 *	push %rcx, below the red zone
 *	mov %fs:saved_rcx, %rcx
 *	push $exit; jmp dispatch_indirect
 */
u32 emit_landing_miss(struct x86_writer *w, const struct emit_config *config, u32 exit)
{
	u32 start = x86_here(w);

	x86_load_thread(w, IR_RAX, saved_rax(config));
	if (config->red_zone)
		x86_move_stack(w, -(s32)config->red_zone);
	x86_push(w, IR_RCX);
	x86_load_thread(w, IR_RCX, saved_rcx(config));
	x86_push_imm(w, (s32)exit);
	x86_jmp(w, config->dispatch_indirect);
	return start;
}
