/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Classes of instructions, as ins_type() of jifl.h gives them. Apart from
 * jifl.h because the freestanding engine includes it too.
 */
#ifndef _JIFL_INS_H
#define _JIFL_INS_H

enum jifl_ins_type {
	INS_TYPE_OTHER,		/* none of the below */
	INS_TYPE_NOP,		/* nops of every length, endbr64, prefetches */
	INS_TYPE_MOVE,		/* mov, movzx, lea, cmov, xchg, set */
	INS_TYPE_STACK,		/* push, pop, enter, leave, pushf, popf */
	INS_TYPE_ARITH,		/* add, sub, inc, mul, div, neg, ... */
	INS_TYPE_LOGIC,		/* and, or, xor, not, shifts, rotates, bit operations */
	INS_TYPE_COMPARE,	/* cmp, test, bt */
	INS_TYPE_STRING,	/* movs, stos, cmps, scas, lods, repeated or not */
	INS_TYPE_VECTOR,	/* x87, MMX, SSE, AVX, and the saving of their state */
	INS_TYPE_SYSTEM,	/* privileged, port, flag control, fences, cpuid, rdtsc */
	INS_TYPE_JUMP,		/* direct jump */
	INS_TYPE_COND_JUMP,	/* conditional jump, jrcxz, loop */
	INS_TYPE_CALL,		/* direct call */
	INS_TYPE_JUMP_INDIRECT,	/* through a register or memory, mitigated or not */
	INS_TYPE_CALL_INDIRECT,
	INS_TYPE_RETURN,
};

#endif /* _JIFL_INS_H */
