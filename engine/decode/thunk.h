/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Indirect-branch and return thunks: the code that a mitigated kernel executes in place of `jmp
 * *reg`, `call *reg` and `ret`.
 */
#ifndef JIFL_DECODE_THUNK_H
#define JIFL_DECODE_THUNK_H

#include "../base/types.h"

enum jifl_thunk_kind {
	JIFL_THUNK_UNKNOWN,
	JIFL_THUNK_INDIRECT,	/* goes to the address in reg */
	JIFL_THUNK_RETURN,	/* goes to the address on the stack */
};

struct jifl_thunk {
	enum jifl_thunk_kind kind;
	u8 reg;			/* INDIRECT: enum ir_reg */
	u8 insns;		/* instructions that it executes, the last included */
};

/*
 * Follows the live bytes at addr as the processor would, from a state in which the processor has
 * just jumped to the thunk, and says what the thunk does.
 */
void jifl_thunk_follow(jifl_orig addr, struct jifl_thunk *thunk);

/*
 * True when the bytes, ten or more of them, begin with an instruction of call depth tracking.
 * Calls then go to such an instruction, in the padding before the function, and from there into
 * the function (arch/x86/kernel/callthunks.c).
 */
bool jifl_thunk_tracks_depth(const u8 *bytes);

#endif
