// SPDX-License-Identifier: GPL-2.0
/*
 * The guards at the doors of functions. A function can be called anywhere. Its copy runs in the
 * cache only where this is known to be right:
 *
 *   NMI, and what may interrupt anything (#DB, #MC, int3)  The dispatcher takes a lock that the
 *	interrupted code may hold.
 *   hard interrupts, softirqs  The counters of this CPU are the interrupted task's. On the way into
 *	and out of an interrupt only the stack tells that it is one.
 *   idle tasks  are not on the list of tasks, so eviction would not see their stacks.
 *   where RCU does not watch  A module's text may go while it is translated (text/text.c).
 *   the thread that stops the machine  Eviction's scan is run by it, and does not see its stack.
 *   the module's own code  See jifl_own_begin.
 *
 * Context: any, preemption off.
 */
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/thread_info.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../store/percpu.h"
#include "guard.h"

static const void *stop_class;		/* stop_sched_class, of the threads that stop the machine */

int jifl_guard_init(void)
{
	stop_class = (const void *)jifl_ksym("stop_sched_class");
	if (stop_class)
		return 0;
	pr_err("no stop_sched_class: use a kernel built with CONFIG_SMP\n");
	return -EOPNOTSUPP;
}

static bool on_task_stack(void)
{
	const unsigned long sp = (unsigned long)__builtin_frame_address(0);

	return sp - (unsigned long)task_stack_page(current) < THREAD_SIZE;
}

int jifl_guard_check(void)
{
	if (in_nmi())
		return JIFL_MISS_NMI;
	if (in_hardirq() && !JIFL_HOST_PLANTED(interrupts_entered))
		return JIFL_MISS_IRQ;
	if (in_serving_softirq() && !JIFL_HOST_PLANTED(interrupts_entered))
		return JIFL_MISS_SOFTIRQ;
	/* The dispatcher's own stack is no task's. */
	if (this_cpu_read(jifl_cpu.own))
		return JIFL_MISS_OWN;
	if (!on_task_stack() && !JIFL_HOST_PLANTED(interrupts_entered))
		return JIFL_MISS_IRQ;
	if (!current->pid && !JIFL_HOST_PLANTED(idle_entered))
		return JIFL_MISS_IDLE;
	if (current->sched_class == stop_class && !JIFL_HOST_PLANTED(stoppers_entered))
		return JIFL_MISS_STOPPER;
	return -1;
}
