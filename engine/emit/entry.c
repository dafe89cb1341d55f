// SPDX-License-Identifier: GPL-2.0
/* Emission of entry pieces into a unit; see emit.h. */
#include "inlined.h"
#include "inserts.h"
#include "record.h"
#include "unit.h"
#include "when.h"

/* Flags and r11 have no value at the start of a function and after its return. */
#define LIVE_AT_POINT (0xffff & ~(1u << IR_R11))

static void emit_at_point(struct emit_unit *u, const struct ir_insert *ins)
{
	struct inlined code = { 0 };
	struct emit_when when;

	if (ins->kind == IR_INSERT_CALL)
		emit_inlined_note(ins->fn, JIFL_INLINE_PLACE);
	if (u->config->poison)
		emit_poison(&u->hot, u->config, 0, LIVE_AT_POINT);
	if (ins->kind == IR_INSERT_RECORD) {
		emit_record(&u->hot, u->config, ins, 0, LIVE_AT_POINT, &code);
		return;
	}
	if (!ins->when.width) {
		emit_insert(&u->hot, u->config, ins, 0, LIVE_AT_POINT);
		return;
	}
	emit_when_begin(&u->hot, u->config, ins, 0, LIVE_AT_POINT, &when);
	emit_insert(&u->hot, &when.config, &when.ins, when.flags, when.regs);
	emit_when_end(&u->hot, u->config, &when);
}

u32 emit_entry(struct emit_unit *u, jifl_orig target,
	       const struct ir_insert *entry, u32 nentry,
	       const struct ir_insert *exit, u32 nexit)
{
	struct emit_block *eb = emit_block_begin(u);
	struct emit_exit *e = emit_direct_exit(u, target);
	u32 i, after = 0;

	if (u->config->endbr)
		x86_endbr64(&u->hot);
	for (i = 0; i < nentry; i++)
		emit_at_point(u, &entry[i]);
	if (!nexit) {
		e->site = x86_jmp(&u->hot, e->stub);
	} else {
		if (u->config->align_stack)
			x86_move_stack(&u->hot, -8);
		e->site = x86_call(&u->hot, e->stub);
		after = x86_here(&u->hot);
		if (u->config->align_stack)
			x86_move_stack(&u->hot, 8);
		for (i = 0; i < nexit; i++)
			emit_at_point(u, &exit[i]);
		if (u->config->return_thunk)
			x86_jmp_out(&u->hot, u->config->return_thunk);
		else
			x86_ret(&u->hot);
	}
	emit_block_end(u, eb);
	return after;
}
