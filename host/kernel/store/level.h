/* SPDX-License-Identifier: GPL-2.0 */
/* At which level the code runs that asks: task, softirq or hard interrupt. */
#ifndef JIFL_HOST_LEVEL_H
#define JIFL_HOST_LEVEL_H

#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/thread_info.h>
#include "../../../include/uapi/jifl.h"

/*
 * On the way into and out of an interrupt its count is not raised: only the stack tells that it is
 * one. The dispatcher's own stack counts as one of interrupts, too. From its first use until its
 * last one interrupts are off, so only NMIs come in between.
 *
 * A function ends at the level at which it begins, but for some that count softirqs on their way
 * (__local_bh_disable_ip, if it is not inlined). So call/returns.c remembers a call's level. Others
 * that do not are refused as targets (enter/function_refuse.c).
 *
 * Context: any; in an NMI it is JIFL_LEVEL_IRQ.
 */
static __always_inline enum jifl_level jifl_level(void)
{
	const unsigned long sp = (unsigned long)__builtin_frame_address(0);

	if (in_hardirq())
		return JIFL_LEVEL_IRQ;
	if (in_serving_softirq())
		return JIFL_LEVEL_SOFTIRQ;
	return sp - (unsigned long)task_stack_page(current) < THREAD_SIZE ? JIFL_LEVEL_TASK :
									   JIFL_LEVEL_IRQ;
}

#endif
