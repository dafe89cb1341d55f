/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of gates, which jump.c fills. */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm-offsets.h>

#include "../compat/unwind_hints.h"
#include "gates.h"

	.text
	/* So that places of doors are aligned, too: enter/door_table.c. */
	.balign	JIFL_GATE_BYTES

SYM_CODE_START_NOALIGN(jifl_gates)
	UNWIND_HINT_FUNC
	ANNOTATE_NOENDBR		/* jumps lead there directly */
	/* No jump leads to the symbol itself, so nobody takes one for a call of a function. */
	.fill	JIFL_GATE_BYTES, 1, 0xcc
	ANNOTATE_NOENDBR
	.fill	JIFL_GATES * JIFL_GATE_BYTES, 1, 0xcc
	jmp	jifl_gates		/* for objtool: the code has an end */
SYM_CODE_END(jifl_gates)
