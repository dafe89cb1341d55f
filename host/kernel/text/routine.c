// SPDX-License-Identifier: GPL-2.0
/*
 * The places at which a routine is left: returns, and jumps to the start of another routine (tail
 * calls). Indirect jumps leave a routine, too, because compiled code has no jump tables
 * (engine/instrument/conventions.c, [5]).
 *
 * Context: inside callbacks; interrupts are off.
 */
#include <linux/kallsyms.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../compat/ksym.h"
#include "function.h"
#include "routine.h"

/* gcc puts unlikely code into a part of its own, with a symbol: NAME.cold. */
static bool jifl_is_cold_part(unsigned long addr)
{
	char name[KSYM_SYMBOL_LEN];

	jifl_ksym_name(addr, name, sizeof(name));
	return strstr(name, ".cold");
}

static bool jifl_is_another_routine(const struct ir_block *b, unsigned long target)
{
	return jifl_function_starts(target) && jifl_function_at(b->addr.v)->start != target &&
	       !jifl_is_cold_part(target);
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
		if (jifl_is_another_routine(b, last->target.v))
			out->kind = JIFL_JUMPS;
		return;
	default:
		return;
	}
}
