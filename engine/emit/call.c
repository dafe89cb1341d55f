// SPDX-License-Identifier: GPL-2.0
/*
 * Inserted code: counters, stores, and calls to analysis routines; see emit.h.
 *
 * An analysis routine is an ordinary C function of the host's ABI (no vector registers). Registers
 * that the ABI lets it change, and that are still live, are saved on the interrupted stack around
 * the call.
 */
#include "args.h"
#include "count.h"
#include "hist.h"
#include "save.h"
#include "../base/plant.h"

/*
 * Looked-up arguments come first: rsp and rbp still have the values that lookups are relative to.
 */
static void call_aligned(struct x86_writer *w, const struct emit_config *config,
			 const struct ir_insert *ins)
{
	static const u8 and_rsp_16[] = { 0x48, 0x83, 0xe4, 0xf0 };
	u32 i;

	emit_args(w, ins, ins->fetched);
	if (config->align_stack) {
		x86_push(w, IR_RBP);
		x86_mov(w, IR_RBP, IR_RSP);
		x86_bytes(w, and_rsp_16, sizeof(and_rsp_16));
	}
	for (i = 0; i < ins->nargs; i++)
		if (!(ins->fetched & 1u << i))
			x86_mov_imm(w, ir_arg_regs[i], ins->args[i]);
	x86_call_out(w, ins->fn);
	if (config->align_stack) {
		x86_mov(w, IR_RSP, IR_RBP);
		x86_pop(w, IR_RBP);
	}
}

static void emit_call(struct x86_writer *w, const struct emit_config *config,
		      const struct ir_insert *ins, u8 flags, u16 regs)
{
	struct emit_body body = { .flags = true, .calls = true, .changes = IR_CALLER_SAVED,
				  .reads = ir_insert_reads(ins) };
	struct ir_insert with = *ins;
	struct emit_saved saved;

	emit_save(w, config, &body, flags, regs, &saved);
	emit_saved_lookups(&saved, &with);
	if ((flags & IR_DF) && !JIFL_PLANTED(direction_not_cleared))
		x86_cld(w);
	call_aligned(w, config, &with);
	emit_restore(w, config, &saved);
}

/* --- with all registers ---------------------------------------------------------------- */

/* struct pt_regs of x86-64, from its top: ss, sp, flags, cs, ip, orig_ax, and these. */
static const u8 context_regs[] = { IR_RDI, IR_RSI, IR_RDX, IR_RCX, IR_RAX, IR_R8, IR_R9, IR_R10,
				   IR_R11, IR_RBX, IR_RBP, IR_R12, IR_R13, IR_R14, IR_R15 };

enum {
	CONTEXT_WORDS = 6 + sizeof(context_regs),
	CONTEXT_CALLER_SAVED = 9,	/* of these; called code keeps those behind */
	CONTEXT_KEPT = sizeof(context_regs) - CONTEXT_CALLER_SAVED,
	KERNEL_CS = 0x10, KERNEL_DS = 0x18,
};

/* moved: by how many bytes rsp is below its original value. */
static void push_context(struct x86_writer *w, s32 moved, s32 ip)
{
	u32 i;

	x86_push(w, IR_RSP);
	x86_push_top(w);
	x86_store_stack_imm(w, 8, KERNEL_DS);
	if (JIFL_PLANTED(context_flags_late))
		x86_add_stack_imm(w, 0, 0);
	x86_pushf(w);
	if (moved)
		x86_add_stack_imm(w, 8, moved);
	x86_push_imm(w, KERNEL_CS);
	x86_push_imm(w, ip);
	x86_push_imm(w, -1);
	for (i = 0; i < sizeof(context_regs); i++)
		x86_push(w, context_regs[i]);
}

static void pop_context(struct x86_writer *w)
{
	u32 i;

	x86_move_stack(w, CONTEXT_KEPT * 8);
	for (i = CONTEXT_CALLER_SAVED; i-- > 0;)
		x86_pop(w, context_regs[i]);
	x86_move_stack(w, 3 * 8);
	x86_popf(w);
	x86_move_stack(w, 2 * 8);
}

/* The structure that saves the registers for the kernel is also the routine's argument. */
static void emit_call_in_context(struct x86_writer *w, const struct emit_config *config,
				 const struct ir_insert *ins, u8 flags)
{
	struct ir_insert with = *ins;

	with.pushed += CONTEXT_WORDS + config->red_zone / 8;
	if (config->red_zone)
		x86_move_stack(w, -(s32)config->red_zone);
	push_context(w, (s32)config->red_zone, ir_insert_context(ins)->disp);
	if (flags & IR_DF)
		x86_cld(w);
	call_aligned(w, config, &with);
	pop_context(w);
	if (config->red_zone)
		x86_move_stack(w, (s32)config->red_zone);
}

/* --- what is inserted ------------------------------------------------------------------- */

static void add_to_cell(struct x86_writer *w, const struct ir_insert *ins, enum ir_reg reg)
{
	if (ins->kind == IR_INSERT_ADD_REG)
		x86_add_cell_reg(w, ins->cell, reg, ins->imm < 0);
	else
		x86_add_cell(w, ins->cell, ins->imm);
}

static JIFL_NOINLINE void emit_add_saved(struct x86_writer *w, const struct emit_config *config,
					 const struct ir_insert *ins, u8 flags, u16 regs)
{
	struct emit_body body = { .flags = true, .reads = ir_insert_reads(ins) };
	struct emit_saved saved;

	emit_save(w, config, &body, flags & IR_FLAGS, regs, &saved);
	add_to_cell(w, ins, emit_saved_at(&saved, ins->reg));
	emit_restore(w, config, &saved);
}

void emit_insert(struct x86_writer *w, const struct emit_config *config,
		 const struct ir_insert *ins, u8 flags, u16 regs)
{
	switch (ins->kind) {
	case IR_INSERT_ADD:
	case IR_INSERT_ADD_REG:
		/* The common case. add leaves DF alone. */
		if (!(flags & IR_FLAGS) || JIFL_PLANTED(flags_not_saved))
			add_to_cell(w, ins, ins->reg);
		else
			emit_add_saved(w, config, ins, flags, regs);
		return;
	case IR_INSERT_COUNT:
		emit_count(w, config, ins, flags, regs);
		return;
	case IR_INSERT_STORE:
		x86_store_cell(w, ins->cell, ins->imm);
		return;
	case IR_INSERT_CALL:
		if (ir_insert_context(ins))
			emit_call_in_context(w, config, ins, flags);
		else
			emit_call(w, config, ins, flags, regs);
		return;
	case IR_INSERT_HIST:
		emit_hist(w, config, ins, flags, regs);
		return;
	case IR_INSERT_GARBAGE:
		emit_poison(w, config, ~(ins->imm >> IR_GARBAGE_FLAGS), ~ins->imm);
		return;
	case IR_INSERT_RECORD:
	case IR_INSERT_HIT:
		break;	/* emit_record, emit_guarded_hit */
	}
}
