// SPDX-License-Identifier: GPL-2.0
/*
 * The guards at the doors of functions. A function can be called anywhere. Its copy runs in the
 * cache only where this is known to be right:
 *
 *   NMI, and what may interrupt anything (#DB, #MC, int3)  The dispatcher takes a lock that the
 *	interrupted code may hold.
 *   softirqs that can be preempted (PREEMPT_RT)  call/levels.c relies on that they cannot.
 *   idle tasks  are not on the list of tasks, so eviction would not see their stacks. An interrupt
 *	of an idle task has ended when eviction looks.
 *   where RCU does not watch  A module's text may go while it is translated (text/text.c).
 *   the thread that stops the machine  Eviction's scan is run by it, and does not see its stack.
 *   the module's own code  See jifl_own_begin.
 *
 * Context: any, preemption off.
 */
#include <linux/kconfig.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../store/percpu.h"
#include "guard.h"

const void *jifl_guard_stop_class;	/* of the threads that stop the machine; stubs.S reads it */

int jifl_guard_init(void)
{
	jifl_guard_stop_class = (const void *)jifl_ksym("stop_sched_class");
	if (jifl_guard_stop_class)
		return 0;
	pr_err("no stop_sched_class: use a kernel built with CONFIG_SMP\n");
	return -EOPNOTSUPP;
}

int jifl_guard_check(enum jifl_level level)
{
	if (in_nmi())
		return JIFL_MISS_NMI;
	if (this_cpu_read(jifl_cpu.own[level]))
		return JIFL_MISS_OWN;
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && level == JIFL_LEVEL_SOFTIRQ)
		return JIFL_MISS_SOFTIRQ;
	if (level != JIFL_LEVEL_TASK)
		return -1;
	if (!current->pid && !JIFL_HOST_PLANTED(idle_entered))
		return JIFL_MISS_IDLE;
	if (current->sched_class == jifl_guard_stop_class && !JIFL_HOST_PLANTED(stoppers_entered))
		return JIFL_MISS_STOPPER;
	return -1;
}
