/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of gates of replaced functions, which replaced.c fills. */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm-offsets.h>

#include "../compat/unwind_hints.h"
#include "replaced_gates.h"

	.text
	.balign	JIFL_REPLACED_GATE_BYTES

SYM_CODE_START_NOALIGN(jifl_replaced_gates)
	UNWIND_HINT_FUNC
	ANNOTATE_NOENDBR		/* stubs return there */
	.fill	JIFL_REPLACED_GATE_BYTES, 1, 0xcc
	ANNOTATE_NOENDBR
	.fill	JIFL_REPLACED_GATES * JIFL_REPLACED_GATE_BYTES, 1, 0xcc
	jmp	jifl_replaced_gates	/* for objtool: the code has an end */
SYM_CODE_END(jifl_replaced_gates)
