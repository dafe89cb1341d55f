/* SPDX-License-Identifier: GPL-2.0 */
/* The processor's state before and after a case: all that a program can change. */
#ifndef JIFL_FUZZ_STATE_H
#define JIFL_FUZZ_STATE_H

#include "source.h"

#define FUZZ_XSTATE 4096

struct fuzz_state {
	u64 gpr[16];		/* by hardware number; rsp: the stack to run on */
	u64 flags;		/* loaded only */
	u8 xstate[FUZZ_XSTATE] __attribute__((aligned(64)));
};

/* Loads all of s, calls code on its stack, stores what there is after its return. */
void fuzz_run(struct fuzz_state *s, u64 code);

/* Where a signal handler goes on to leave fuzz_run at once; registers are lost. */
extern const char fuzz_leave[];

/* XSAVE's components that are compared. */
extern u64 fuzz_components;

void fuzz_state_init(void);
void fuzz_state_randomize(struct fuzz_state *s, struct source *from);

/* Name of the first thing that differs, NULL if nothing does. */
const char *fuzz_state_differs(const struct fuzz_state *a, const struct fuzz_state *b);

#endif
