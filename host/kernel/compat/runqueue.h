/* SPDX-License-Identifier: GPL-2.0 */
/* Which tasks the scheduler is to run. */
#ifndef JIFL_HOST_RUNQUEUE_H
#define JIFL_HOST_RUNQUEUE_H

#include <linux/sched.h>
#include <linux/version.h>

/*
 * Is the task to run, though it may be in a state in which it sleeps? It does not run now. From
 * 6.12 on one that sleeps may stay on its run queue for a while (sched_delayed).
 */
static inline bool jifl_runqueue_has(const struct task_struct *task)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	return READ_ONCE(task->on_rq) && !task->se.sched_delayed;
#else
	return READ_ONCE(task->on_rq);
#endif
}

#endif
