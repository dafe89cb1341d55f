/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compares what stands in the code cache with what it was made from,
 * instruction by instruction, without asking the engine what it understood. The rules:
 *
 *	copied		the same mnemonic, length, prefixes and operands; a
 *			rip-relative operand reaches the same address
 *	nop, endbr64	leave no code
 *	jmp		left out when its target lies right behind it; else as
 *	jcc, call	the same branch with a 32-bit offset, cs prefixes in front
 *	jrcxz, loop	the same over a jump of two bytes, and a jump
 *	to a thunk	an indirect branch through the register in the thunk's
 *			name; __x86_return_thunk and thunk text that has no
 *			name among the exports: a jump to the same place
 *	indirect	a branch to a stub that pushes the register and goes to the
 *			dispatcher, or pushes the operand and goes to the lookup
 *	branches	go to the block of the same target, or to a stub that
 *			pushes the number of an exit with that target
 *	native		a block that counts the cause and jumps to the original
 */
#ifndef JIFL_ROUNDTRIP_CHECK_H
#define JIFL_ROUNDTRIP_CHECK_H

#include "host.h"

struct check_stats {
	u64 copied, relocated, left_out, places, direct, thunks, indirect, returns, loops;
	u64 linked;		/* of the branches, to a block */
	u64 differences;
};
extern struct check_stats check_stats;

void check_init(void);
/* Compares all blocks that are in the cache. */
void check_blocks(void);

#endif
