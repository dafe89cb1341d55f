/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Return hooks (rethook), which kretprobes use, too: a function's return address is replaced by a
 * trampoline's, and kept in a record of the task.
 */
#ifndef JIFL_HOST_RETHOOK_H
#define JIFL_HOST_RETHOOK_H

#include <linux/rethook.h>
#include <linux/types.h>

/* A record, and what its maker has put into it. */
struct jifl_compat_return {
	struct rethook_node node;
	u32 value;
};

/* Called at each return with preemption off. result: the register in which functions return. */
typedef void (*jifl_compat_return_fn)(u32 value, u64 result);

/*
 * Makes n records, whose returns call fn. NULL: no memory, or this kernel has no return hooks.
 * Process context; sleeps.
 */
struct rethook *jifl_compat_returns_alloc(jifl_compat_return_fn fn, unsigned int n);
/*
 * fn is not called from now on, except by a task that is inside the trampoline's handler with
 * preemption off. Records in use stay until their tasks return. Process context.
 */
void jifl_compat_returns_free(struct rethook *returns);
/*
 * *slot: the return address of the function that the current task is about to enter. False: no
 * record is free. Preemption off; any context in which RCU watches.
 */
bool jifl_compat_returns_hook(struct rethook *returns, unsigned long *slot, u32 value);
/*
 * The same for a task that does not run: *slot is a return address on its stack, and no return hook
 * has it. All CPUs are stopped.
 */
bool jifl_compat_returns_hook_of(struct rethook *returns, struct task_struct *task,
				 unsigned long *slot, u32 value);
/* Has the task a record whose value has any of these bits, or is 0? All CPUs are stopped. */
bool jifl_compat_returns_has(struct rethook *returns, struct task_struct *task, u32 bits);
/*
 * Takes these bits out of the values of the task's records. A record without any is not needed: its
 * return is as if it had never been hooked, unless another tracer has hooked the same return since.
 * The task is not on its way through the trampoline. All CPUs are stopped.
 */
void jifl_compat_returns_unhook(struct rethook *returns, struct task_struct *task, u32 bits);

#endif
