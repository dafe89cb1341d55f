/* SPDX-License-Identifier: GPL-2.0 */
/* Random ops of the engine's stack machine, and what they come to: terms_random.c, terms.c. */
#ifndef JIFL_UNIT_TERMS_H
#define JIFL_UNIT_TERMS_H

#include "../../engine/engine.h"

/* struct pt_regs of the kernel's */
struct context {
	u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	u64 orig_rax, ip, cs, flags, sp, ss;
};

extern const u8 terms_memory[256];

void terms_set_loads(struct ir_terms *t);
/* A condition of a seed. */
void terms_make(struct ir_terms *t, u64 seed);
/* Ops of a seed that leave n numbers. false: they are too many. */
bool terms_make_numbers(struct ir_terms *t, u64 seed, u32 n);
/*
 * What the ops leave on the stack, for IR_TERMS_STACK numbers. false: something cannot be read. As
 * an analysis routine: without vector registers.
 */
bool terms_numbers(const struct ir_terms *terms, const struct context *c, u64 *stack);

#endif
