/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What instructions are, as ins_type() and its like of jifl.h give it. Apart from
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

/* On what a conditional jump jumps, in the order of their numbers in opcodes. */
enum jifl_ins_condition {
	INS_IF_OVERFLOW, INS_IF_NOT_OVERFLOW,
	INS_IF_BELOW, INS_IF_ABOVE_EQUAL,	/* unsigned; carry */
	INS_IF_EQUAL, INS_IF_NOT_EQUAL,
	INS_IF_BELOW_EQUAL, INS_IF_ABOVE,
	INS_IF_SIGN, INS_IF_NOT_SIGN,
	INS_IF_PARITY, INS_IF_NOT_PARITY,
	INS_IF_LESS, INS_IF_GREATER_EQUAL,	/* signed */
	INS_IF_LESS_EQUAL, INS_IF_GREATER,
	INS_IF_COUNT,		/* jrcxz, loop and its like: on rcx */
	INS_IF_NONE,		/* no conditional jump */
};

/* Bits of ins_properties(). */
enum jifl_ins_property {
	INS_LOCKED = 1 << 0,	/* lock prefix, or xchg with memory: atomic among processors */
	INS_REPEATED = 1 << 1,	/* rep, repe, repne */
	INS_CMPXCHG = 1 << 2,	/* cmpxchg, cmpxchg8b, cmpxchg16b, locked or not */
	INS_LOADS = 1 << 3,	/* reads memory, a stack's too */
	INS_STORES = 1 << 4,
	INS_HINT_TAKEN = 1 << 5, /* a conditional jump's prefix 3e */
	INS_HINT_NOT_TAKEN = 1 << 6, /* ... 2e */
};

enum jifl_ins_segment { INS_SEGMENT_NONE, INS_SEGMENT_FS, INS_SEGMENT_GS };

/* No base, or no index. */
#define INS_REG_NONE	0xff

/* An operand in memory: segment + base + index * scale + disp. */
struct ins_memory {
	unsigned char base, index;	/* the register's number, rax 0 to r15 15; INS_REG_NONE */
	unsigned char scale;
	unsigned char segment;		/* enum jifl_ins_segment: per-CPU data are relative to gs */
	unsigned char loads, stores;	/* 0 or 1 */
	unsigned short size;		/* bytes; of one repetition. 0: not fixed */
	long long disp;			/* without base and index: the address */
};

#endif /* _JIFL_INS_H */
