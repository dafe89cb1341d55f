// SPDX-License-Identifier: GPL-2.0
/*
 * Indirect branches where unprotected indirect jumps may be executed. They go through the
 * context's table, which has an entry for each address below config.targets_end; see
 * cache/targets.c. They take one branch, the original one, so the processor predicts it as it
 * would predict the original.
 *
 * Flags have no value here. rsp stays, so nothing happens to the red zone.
 */
#include "emit.h"
#include "../base/plant.h"
#include "../decode/decode.h"

#define SCRATCH IR_R11	/* without a value at calls of compiled code: instrument/conventions.c */

/*
 * True when the scratch register is the branch's own, which may be a thunk's, or its operand names
 * it.
 */
static bool names_scratch(const struct ir_insn *insn)
{
	u16 reads, writes;

	if (insn->reg != IR_REG_NONE)
		return insn->reg == SCRATCH;
	jifl_decode_uses(insn, &reads, &writes);
	return reads & 1u << SCRATCH;
}

/*
 * True when the scratch register must keep its value for the code that the branch leads to, or for
 * a target that the table does not know.
 */
static bool keeps_scratch(const struct emit_unit *u, const struct ir_insn *insn)
{
	if (insn->kind == IR_JMP_IND || u->config->keeps_r11)
		return true;
	return names_scratch(insn) && !JIFL_PLANTED(jump_operand_lost);
}

static void emit_load_target(struct x86_writer *w, const struct ir_insn *insn)
{
	if (insn->reg == IR_REG_NONE)
		x86_load_operand_of(w, SCRATCH, insn);
	else if (insn->reg != SCRATCH)
		x86_mov(w, SCRATCH, insn->reg);
}

/*
 * A target that the table does not know is looked up from the place of the branch, as if the
 * branch had been a call.
 */
static void emit_miss(struct emit_unit *u, const struct ir_insn *insn, u64 after)
{
	if (keeps_scratch(u, insn))
		x86_load_thread(&u->cold, SCRATCH, u->config->thread_words);
	if (insn->kind == IR_CALL_IND)
		x86_push_imm(&u->cold, (s32)after);
	emit_indirect_stub(u, insn, 0);
}

bool emit_jump_begin(struct emit_unit *u, const struct ir_insn *insn)
{
	if (!keeps_scratch(u, insn))
		return false;
	x86_store_thread(&u->hot, u->config->thread_words, SCRATCH);
	return true;
}

/*
 *	mov reg or operand, %r11
 *	cmp $targets_end, %r11; jae 1f
 *	mov targets(, %r11, 4), %r11d
 *	test %r11, %r11; je 1f
 *	call *%r11
 * 2:
 * Off the hot path:
 * 1:	push $2b; push reg or operand; jmp lookup
 *
 * Where r11 is kept, its value is in the thread's first word since emit_jump_begin, and the branch
 * is
 *	mov %r11, %fs:words + 8; mov %fs:words, %r11; call or jmp *%fs:words + 8
 */
void emit_jump(struct emit_unit *u, const struct ir_insn *insn)
{
	s32 words = u->config->thread_words;
	struct x86_writer *w = &u->hot;
	u32 miss = x86_here(&u->cold);

	emit_load_target(w, insn);
	x86_cmp_imm(w, SCRATCH, (s32)u->config->targets_end);
	x86_jcc(w, X86_CC_AE, miss);
	x86_load_entry(w, SCRATCH, u->targets);
	x86_test(w, SCRATCH);
	x86_jcc(w, X86_CC_E, miss);
	if (keeps_scratch(u, insn)) {
		x86_store_thread(w, words + 8, SCRATCH);
		if (!JIFL_PLANTED(jump_scratch_lost))
			x86_load_thread(w, SCRATCH, words);
		x86_branch_thread(w, insn->kind == IR_CALL_IND, words + 8);
	} else {
		x86_call_reg(w, SCRATCH);
	}
	emit_miss(u, insn, w->code_base + x86_here(w));
}
