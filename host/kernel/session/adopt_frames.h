/* SPDX-License-Identifier: GPL-2.0 */
/* The frames on the stack of a task that is looked at for adoption (adopt.c). */
#ifndef JIFL_HOST_ADOPT_FRAMES_H
#define JIFL_HOST_ADOPT_FRAMES_H

#include <linux/sched.h>
#include <linux/types.h>
#include "../leave/walk.h"

/* A stack of 16 KiB has some 40 frames when a task sleeps deep in a file system. */
#define JIFL_ADOPT_FRAMES	128

struct jifl_aim;
struct jifl_session;
struct jifl_adopt_functions;

/* Where a frame goes on. */
struct jifl_adopt_frame {
	unsigned long *slot;	/* the word that says so */
	unsigned long ip;
	unsigned long orig;	/* the same, or of what the code of the cache there is a copy */
	bool interrupted;	/* by an interrupt or an exception, at that instruction */
};

/*
 * Fills in the task's frames, the innermost first; *n: how many. words: of its stack. False: the
 * stack cannot be walked from end to end, and frames may be missing. The task does not run
 * meanwhile.
 */
bool jifl_adopt_walk(struct task_struct *task, struct jifl_words words,
		     struct jifl_adopt_frame frames[JIFL_ADOPT_FRAMES], int *n);
/* Does the frame's word hold something else than where the frame goes on? */
bool jifl_adopt_is_traced(const struct jifl_adopt_frame *f);
/*
 * Is it in a tracer that a function's site has called, or at a jump behind the site? The tracer, or
 * ftrace, may go on to the function's door, which takes the return address for the original's.
 * Behind a copy of the site there would be no door.
 */
bool jifl_adopt_is_at_door(const struct jifl_adopt_frame *f);

/* --- adopt_functions.c: whose frames they are ---------------------------------------------- */

/*
 * The session's functions, but for those with conditions that only the beginning of a call can
 * answer. It stays right while the session has them. NULL: no memory; kvfree it. Sleeps.
 */
struct jifl_adopt_functions *jifl_adopt_functions_alloc(struct jifl_session *s);
/*
 * The aim of the i-th of a stack's frames; NULL: it is of none of these functions, or its call does
 * not meet the condition. Interrupts off, RCU watches.
 */
struct jifl_aim *jifl_adopt_aim(const struct jifl_adopt_functions *functions,
				const struct jifl_adopt_frame *frames, int n, int i);

#endif
