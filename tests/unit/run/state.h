/* SPDX-License-Identifier: GPL-2.0 */
/* Runs code from a given state of the processor to another one. */
#ifndef JIFL_UNIT_STATE_H
#define JIFL_UNIT_STATE_H

#include "../../../engine/base/types.h"

struct state {
	u64 gpr[16];		/* by hardware number; rsp: the stack to run on */
	u64 flags;
	u64 xmm[16][2] __attribute__((aligned(16)));
};

/*
 * Loads all registers from s, calls code on its stack, and stores what they are
 * after its return. Flags are loaded only: functions return none.
 */
void state_run(struct state *s, u64 code);

/* Random contents; rsp is left alone. */
void state_randomize(struct state *s, u64 *seed);

/* Says which registers differ; returns how many. */
u32 state_compare(const struct state *native, const struct state *cache, const char *name);

/* A pseudo random number of 32 bits. */
u32 state_random(u64 *seed);

#endif
