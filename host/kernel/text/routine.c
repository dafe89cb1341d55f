// SPDX-License-Identifier: GPL-2.0
/*
 * The places at which a routine is left: returns, and jumps to the start of another routine (tail
 * calls). Indirect jumps leave a routine, too, because compiled code has no jump tables
 * (engine/instrument/conventions.c, [5]).
 *
 * Context: inside callbacks; interrupts are off.
 */
#include "../kernel.h"
#include "function.h"
#include "routine.h"

bool jifl_routine_is_another(const struct ir_block *b, unsigned long target)
{
	return jifl_function_starts(target) && jifl_function_at(b->addr.v)->start != target &&
	       !jifl_function_at(target)->cold;
}

void jifl_routine_way_out(const struct ir_block *b, struct jifl_way_out *out)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];

	*out = (struct jifl_way_out){ .kind = JIFL_STAYS, .place = IR_BEFORE };
	switch (last->kind) {
	case IR_RET:
	case IR_RET_THUNK:
		out->kind = JIFL_RETURNS;
		return;
	case IR_JMP_IND:
		out->kind = JIFL_JUMPS;
		return;
	case IR_JCC:
		out->place = IR_TAKEN;
		fallthrough;
	case IR_JMP:
		if (jifl_routine_is_another(b, last->target.v))
			out->kind = JIFL_JUMPS;
		return;
	default:
		return;
	}
}

bool jifl_routine_goes_on(const struct ir_block *b)
{
	const u8 last = b->insns[b->ninsns - 1].kind;

	/* Behind a call that does not return something else may stand. */
	return b->next.v && (ir_kind_is_conditional(last) || !ir_kind_ends_block(last));
}
