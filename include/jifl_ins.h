/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kinds and properties of instructions, for ins_type() and similar functions of jifl.h. In a file
 * of its own because the freestanding engine includes it, too.
 */
#ifndef _JIFL_INS_H
#define _JIFL_INS_H

enum jifl_ins_type {
	ins_other,		/* none of the below */
	ins_nop,		/* nops of every length, endbr64, prefetches */
	ins_move,		/* mov, movzx, lea, cmov, xchg, set */
	ins_stack,		/* push, pop, enter, leave, pushf, popf */
	ins_arith,		/* add, sub, inc, mul, div, neg, ... */
	ins_logic,		/* and, or, xor, not, shifts, rotates, bit operations */
	ins_compare,		/* cmp, test, bt */
	ins_cmpxchg,		/* cmpxchg, cmpxchg8b, cmpxchg16b, locked or not */
	ins_string,		/* movs, stos, cmps, scas, lods, repeated or not */
	ins_vector,		/* x87, MMX, SSE, AVX, and the saving of their state */
	ins_system,		/* privileged, port, flag control, fences, cpuid, rdtsc */
	ins_jmp,		/* direct jump */
	/* Conditional jumps, in the order of opcode numbers. ins_jcc of jifl.h is any of them. */
	ins_jo, ins_jno,
	ins_jb, ins_jae,	/* unsigned; carry */
	ins_je, ins_jne,
	ins_jbe, ins_ja,
	ins_js, ins_jns,
	ins_jp, ins_jnp,
	ins_jl, ins_jge,	/* signed */
	ins_jle, ins_jg,
	ins_jrcxz,		/* jrcxz, loop, loope, loopne: depend on rcx */
	ins_call,		/* direct call */
	ins_jmp_indirect,	/* through a register or memory, with or without a mitigation */
	ins_call_indirect,
	ins_ret,
	INS_TYPES
};

/* Bits of ins_properties(). */
enum jifl_ins_property {
	INS_LOCKED = 1 << 0,	/* lock prefix, or xchg with memory: atomic for all CPUs */
	INS_REPEATED = 1 << 1,	/* rep, repe, repne */
	INS_LOADS = 1 << 2,	/* reads memory, the stack, too */
	INS_STORES = 1 << 3,
	/* For jifl.h: results of ins_lock_prefix(), ins_branch_hint() and ins_bnt_prefix(). */
	INS_PREFIX_LOCK = 1 << 4,
	INS_PREFIX_TAKEN = 1 << 5,	/* a conditional jump with prefix 3e */
	INS_PREFIX_NOT_TAKEN = 1 << 6,	/* a conditional jump with prefix 2e */
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
