// SPDX-License-Identifier: GPL-2.0
/*
 * Code off the hot path: exit stubs, inline caches of indirect branches and the
 * hash lookup behind them; see emit.h.
 *
 * All of it runs between two original instructions and leaves every register
 * as it found it. Flags are kept by direct stubs; at indirect branches they
 * have no value (liveness.h). With a red zone, whatever pushes first moves rsp
 * below it, and whoever pops last moves it back.
 *
 * How the hash lookup leaves. A `ret` to an address that no `call` has pushed is mispredicted, and
 * makes the predictor's stack miss for each return that follows, all the way out. So calls and
 * returns are in balance, in one of two forms.
 *
 * A retpoline, where the host's own code has retpolines (config.indirect_jumps is not set):
 * 1. The target is put on the stack, all registers are given back, and a `call` follows. It goes
 *    to an instruction that drops what the call has pushed. The return behind it finds the target.
 * 2. The processor predicts that return by the call, to the loop behind the call, where nothing is
 *    done. So the return is mispredicted, as in each retpoline, and no other return is.
 * 3. The return has the form of the host's retpolines: config.retpoline_return. So the lookup is
 *    never weaker than the host's own code.
 *
 * A plain indirect jump, where the host executes such:
 * 4. It is the host's own form, so it is no weaker. It neither calls nor returns.
 * 5. A jump through a register cannot be the last instruction, since the original has a value in
 *    each register. So it leads to a landing, which each block has that is in a lookup's table:
 *    that gives registers and stack back, and goes to the block by a direct branch. Memory cannot
 *    hold the address instead: below rsp interrupts write, and a per-CPU word is another thread's
 *    after preemption.
 * 6. Under IBT an indirect jump must meet endbr64. Landings begin with it; blocks need not.
 * 7. A landing's branch is an exit like others. When its block is dropped it leads to the
 *    dispatcher, and all registers are the original's there. So a thread that is between the table
 *    and the block comes to no code that is gone.
 *
 * In both forms, up to the jump or the return and in the landing, the stack's depth is found by
 * reading the code (cache/pushed.c). In a return thunk the top of the stack is the target's
 * address, as for each return in the cache.
 */
#include "emit.h"
#include "../base/plant.h"

static void skip_red_zone(struct x86_writer *w, const struct emit_config *config)
{
	if (config->red_zone)
		x86_move_stack(w, -(s32)config->red_zone);
}

/* push $exit; jmp dispatch_direct */
u32 emit_direct_stub(struct emit_unit *u, u32 exit)
{
	u32 start = x86_here(&u->cold);

	skip_red_zone(&u->cold, u->config);
	x86_push_imm(&u->cold, (s32)exit);
	x86_jmp(&u->cold, u->config->dispatch_direct);
	return start;
}

/*
 * Where a site's inline cache ends. A register's: push it; push $exit; jmp
 * dispatch_indirect, which lets the inline cache grow. An operand in memory may
 * change between two comparisons, and is looked up instead: push it; jmp lookup. So is
 * all that jump.c's table does not know.
 */
u32 emit_indirect_stub(struct emit_unit *u, const struct ir_insn *insn, u32 exit)
{
	struct x86_writer *w = &u->cold;
	u32 start = x86_here(w);
	s32 moved = (s32)u->config->red_zone + (insn->kind == IR_CALL_IND ? 8 : 0);

	skip_red_zone(w, u->config);
	if (insn->reg == IR_REG_NONE)
		x86_push_operand_of(w, insn, moved);
	else
		x86_push(w, insn->reg);
	if (!emit_has_chain(u->config, insn)) {
		x86_jmp(w, u->lookup);
	} else {
		x86_push_imm(w, (s32)exit);
		x86_jmp(w, u->config->dispatch_indirect);
	}
	return start;
}

static void emit_compare(struct x86_writer *w, u8 reg, jifl_orig target)
{
	x86_cmp_imm(w, reg, (s32)target.v + 16 * JIFL_PLANTED(chain_wrong_target));
}

/* jne 1f; add $-1, cell; js stub; jmp block; 1: */
static u32 emit_counted_hit(struct x86_writer *w, struct ir_operand cell, u32 stub)
{
	u32 next = x86_jcc_short(w, X86_CC_NE), site;

	x86_add_cell(w, cell, -1);
	x86_jcc(w, X86_CC_S, stub);
	site = x86_jmp(w, stub);
	x86_set_rel8_here(w, next);
	return site;
}

/*
 * For each target: cmp $target, reg; je block
 * and at the end: jmp miss
 */
void emit_chain(struct x86_writer *w, const struct emit_config *config, u8 reg,
		struct emit_chain *chain)
{
	struct ir_operand cell = config->training;
	u32 i;

	cell.disp += (s32)(8 * JIFL_CHAIN_MAX * chain->training);
	chain->start = x86_here(w);
	for (i = 0; i < chain->n; i++, cell.disp += 8) {
		emit_compare(w, reg, chain->targets[i]);
		chain->hit_sites[i] = chain->counts ? emit_counted_hit(w, cell, chain->stub) :
						      x86_jcc(w, X86_CC_E, chain->stub);
	}
	x86_jmp(w, chain->miss);
}

u32 emit_chain_end(struct x86_writer *w, const struct emit_config *config, u8 reg, u32 lookup)
{
	u32 start = x86_here(w);

	skip_red_zone(w, config);
	x86_push(w, reg);
	x86_jmp(w, lookup);
	return start;
}

static void emit_return(struct x86_writer *w, const struct emit_config *config)
{
	if (config->retpoline_return)
		x86_jmp_out(w, config->retpoline_return);
	else if (config->red_zone)
		x86_ret_imm(w, config->red_zone);
	else
		x86_ret(w);
}

/* call 1f; what is speculated; 1: lea 8(%rsp), %rsp; ret, to what is on top of the stack before */
static void emit_retpoline(struct x86_writer *w, const struct emit_config *config)
{
	if (!JIFL_PLANTED(lookup_unbalanced)) {
		x86_retpoline_call(w);
		x86_move_stack(w, 8);
	}
	emit_return(w, config);
}

/* Leaves to the address in rax. On the stack are rcx, rax, the original target. */
static void emit_leave(struct x86_writer *w, const struct emit_config *config)
{
	if (config->indirect_jumps) {
		x86_jmp_rax(w);
		return;
	}
	x86_store_stack(w, IR_RAX, 16);
	x86_pop(w, IR_RCX);
	x86_pop(w, IR_RAX);
	emit_retpoline(w, config);
}

static void emit_landing_begin(struct x86_writer *w, const struct emit_config *config)
{
	if (config->endbr)
		x86_endbr64(w);
	x86_pop(w, IR_RCX);
	x86_pop(w, IR_RAX);
	x86_move_stack(w, 8 + (s32)config->red_zone);
}

u32 emit_landing_len(const struct emit_config *config)
{
	u8 buf[EMIT_LANDING];
	struct x86_writer w = { .buf = buf, .cap = sizeof(buf) };

	emit_landing_begin(&w, config);
	return w.len + 1;
}

u32 emit_landing(struct x86_writer *w, const struct emit_config *config, u32 exit)
{
	u32 site;

	emit_landing_begin(w, config);
	site = x86_jmp_unlinked(w);
	x86_set_rel32(w, site, x86_here(w));
	skip_red_zone(w, config);
	x86_push_imm(w, (s32)exit);
	x86_jmp(w, config->dispatch_direct);
	return site;
}

/*
 *	push %rax; push %rcx
 *	mov 16(%rsp), %rax
 *	shr $4, %eax; and $mask, %eax
 *	mov table(,%rax,8), %rax
 *	movslq %eax, %rcx
 *	cmp %rcx, 16(%rsp); jne 1f
 *	sar $32, %rax
 *	mov %rax, 16(%rsp); pop %rcx; pop %rax; retpoline
 * or	jmp *%rax, to a landing: endbr64; pop %rcx; pop %rax; lea 8(%rsp), %rsp; jmp block
 * 1:	pop %rcx; pop %rax; push $exit; jmp dispatch_indirect
 */
u32 emit_hash_lookup(struct x86_writer *w, const struct emit_config *config, u64 table,
		     u32 bits, u32 exit)
{
	static const u8 shr_eax[] = { 0xc1, 0xe8, EMIT_HASH_SHIFT };
	static const u8 and_eax[] = { 0x25 };
	static const u8 mov_table_rax[] = { 0x48, 0x8b, 0x04, 0xc5 };
	static const u8 movslq_eax_rcx[] = { 0x48, 0x63, 0xc8 };
	static const u8 cmp_rcx_target[] = { 0x48, 0x39, 0x4c, 0x24, 0x10 };
	static const u8 sar_rax[] = { 0x48, 0xc1, 0xf8, 0x20 };
	u32 start = x86_here(w);
	u32 miss;

	x86_push(w, IR_RAX);
	x86_push(w, IR_RCX);
	x86_load_stack(w, IR_RAX, 16);
	x86_bytes(w, shr_eax, sizeof(shr_eax));
	x86_bytes(w, and_eax, sizeof(and_eax));
	x86_u32(w, (1u << bits) - 1);
	x86_bytes(w, mov_table_rax, sizeof(mov_table_rax));
	if (!jifl_fits_s32((s64)table))
		w->full = true;
	x86_u32(w, (u32)table);
	/* The whole address: the low half alone might be another's. */
	x86_bytes(w, movslq_eax_rcx, sizeof(movslq_eax_rcx));
	x86_bytes(w, cmp_rcx_target, sizeof(cmp_rcx_target));
	miss = x86_jcc_short(w, X86_CC_NE);
	x86_bytes(w, sar_rax, sizeof(sar_rax));
	emit_leave(w, config);
	x86_set_rel8_here(w, miss);
	x86_pop(w, IR_RCX);
	x86_pop(w, IR_RAX);
	x86_push_imm(w, (s32)exit);
	x86_jmp(w, config->dispatch_indirect);
	return start;
}
