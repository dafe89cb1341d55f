/* SPDX-License-Identifier: GPL-2.0 */
/* This CPU's task, number, and count of interrupts and of preemption, by their places. */
#ifndef JIFL_HOST_COMPAT_CURRENT_H
#define JIFL_HOST_COMPAT_CURRENT_H

#include <linux/version.h>

/* In these kernels one structure has all of them. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0) && LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#define JIFL_HAS_PCPU_HOT
#endif

#ifdef JIFL_HAS_PCPU_HOT

#define JIFL_HOT_TASK		0	/* offsetof(struct pcpu_hot, current_task) */
#define JIFL_HOT_PREEMPT	8	/* offsetof(struct pcpu_hot, preempt_count) */

#ifdef __ASSEMBLY__
#define JIFL_CURRENT		PER_CPU_VAR(pcpu_hot + JIFL_HOT_TASK)
#define JIFL_PREEMPT_COUNT	PER_CPU_VAR(pcpu_hot + JIFL_HOT_PREEMPT)
#else
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <asm/current.h>

static_assert(offsetof(struct pcpu_hot, current_task) == JIFL_HOT_TASK);
static_assert(offsetof(struct pcpu_hot, preempt_count) == JIFL_HOT_PREEMPT);

/* As distances from gs: this CPU's task; its number, and its count, of 32 bits. */
#define JIFL_CURRENT_CELL	(&pcpu_hot.current_task)
#define JIFL_PREEMPT_CELL	(&pcpu_hot.preempt_count)
#define JIFL_CPU_NUMBER_CELL	(&pcpu_hot.cpu_number)
#endif

#elif defined(__ASSEMBLY__)
#define JIFL_CURRENT		PER_CPU_VAR(current_task)
#define JIFL_PREEMPT_COUNT	PER_CPU_VAR(__preempt_count)
#else
#include <asm/current.h>
#include <asm/preempt.h>
#include <asm/smp.h>

#define JIFL_CURRENT_CELL	(&current_task)
#define JIFL_PREEMPT_CELL	(&__preempt_count)
#define JIFL_CPU_NUMBER_CELL	(&cpu_number)
#endif

#endif
