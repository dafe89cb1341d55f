/* SPDX-License-Identifier: GPL-2.0 */
/* The ends of calls of functions, which are seen where the function returns. */
#ifndef JIFL_HOST_RETURNS_H
#define JIFL_HOST_RETURNS_H

#include <linux/sched.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

/*
 * Calls that are in functions at the same time: a task has one for each session at most, and so has
 * each level that has interrupted it. A call that finds no record is missed.
 */
#define JIFL_RETURNS	4096

/* 0; -ENOMEM. The kernel has return hooks. Nests; jifl_session_mutex; sleeps. */
int jifl_returns_open(void);
/* No call of a session that ends here is followed any more. Nests; jifl_session_mutex; sleeps. */
void jifl_returns_close(void);
/*
 * *slot: the return address of a function that the current task is about to enter. At the return
 * the calls in these lanes (a bit each) end. level: that of the calls; leaves: the lanes' level is
 * left there, too (call/levels.h). False: no record is free. Preemption off.
 */
bool jifl_returns_hook(unsigned long *slot, u32 lanes, enum jifl_level level, bool leaves);
/*
 * The same for a call that another task is in, at task level, where no hook has that return
 * address. All CPUs are stopped.
 */
bool jifl_returns_hook_of(struct task_struct *task, unsigned long *slot, u32 lanes);
/*
 * All calls of the lane have ended otherwise: takes their hooks away. All CPUs are stopped; a
 * session holds the pool. Returns for how many tasks that is to be tried again.
 */
u32 jifl_returns_sweep(unsigned int lane);

#endif
