/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Indirect-branch and return thunks: what a mitigated kernel executes in place
 * of `jmp *reg`, `call *reg` and `ret`.
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
	u8 insns;		/* instructions it executes, its last included */
};

/*
 * Follows the live bytes at addr as the processor would, from a state in which
 * the thunk has just been jumped to, and says what it comes to.
 */
void jifl_thunk_follow(jifl_orig addr, struct jifl_thunk *thunk);

/*
 * Do the bytes, ten or more of them, begin with an instruction of call depth tracking? Calls then
 * go to such a one, in the padding before the function, and into that from there
 * (arch/x86/kernel/callthunks.c).
 */
bool jifl_thunk_tracks_depth(const u8 *bytes);

#endif
