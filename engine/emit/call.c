// SPDX-License-Identifier: GPL-2.0
/*
 * Inserted code: counters, stores, and calls to analysis routines; see emit.h.
 *
 * An analysis routine is an ordinary C function of the host's ABI (no vector
 * registers): what the ABI lets it change and what is still live is saved on
 * the interrupted stack around the call.
 */
#include "args.h"
#include "hist.h"
#include "save.h"
#include "../base/plant.h"

/* What is looked up comes first: rsp and rbp are still those that it is relative to. */
static void call_aligned(struct x86_writer *w, const struct emit_config *config,
			 const struct ir_insert *ins)
{
	static const u8 and_rsp_16[] = { 0x48, 0x83, 0xe4, 0xf0 };
	u32 i;

	emit_args(w, ins, ins->looked_up);
	if (config->align_stack) {
		x86_push(w, IR_RBP);
		x86_mov(w, IR_RBP, IR_RSP);
		x86_bytes(w, and_rsp_16, sizeof(and_rsp_16));
	}
	for (i = 0; i < ins->nargs; i++)
		if (!(ins->looked_up & 1u << i))
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

static void add_to_cell(struct x86_writer *w, const struct ir_insert *ins, enum ir_reg reg)
{
	if (ins->kind == IR_INSERT_ADD_REG)
		x86_add_cell_reg(w, ins->cell, reg, ins->imm < 0);
	else
		x86_add_cell(w, ins->cell, ins->imm);
}

static void emit_add(struct x86_writer *w, const struct emit_config *config,
		     const struct ir_insert *ins, u8 flags, u16 regs)
{
	struct emit_body body = { .flags = true, .reads = ir_insert_reads(ins) };
	struct emit_saved saved;

	/* Nearly all of them: add leaves DF alone. */
	if (!(flags & IR_FLAGS) || JIFL_PLANTED(flags_not_saved)) {
		add_to_cell(w, ins, ins->reg);
		return;
	}
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
		emit_add(w, config, ins, flags, regs);
		return;
	case IR_INSERT_STORE:
		x86_store_cell(w, ins->cell, ins->imm);
		return;
	case IR_INSERT_CALL:
		emit_call(w, config, ins, flags, regs);
		return;
	case IR_INSERT_HIST:
		emit_hist(w, config, ins, flags, regs);
		return;
	case IR_INSERT_RECORD:
		break;	/* emit_record */
	}
}
