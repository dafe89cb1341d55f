/* SPDX-License-Identifier: GPL-2.0 */
/* Preemption, in what copies and doors call. */
#ifndef JIFL_HOST_PREEMPT_H
#define JIFL_HOST_PREEMPT_H

#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <asm/processor-flags.h>
#include "../plant.h"

/* What asm/irqflags.h has of pushf; of popf not all kernels have one. */
static inline void jifl_preempt_set_flags(unsigned long flags)
{
	asm volatile("push %0; popf" : : "r" (flags) : "memory", "cc");
}

/*
 * As preempt_enable_notrace(). What is called by a copy may run between stac and clac, as in
 * rep_movs_alternative() of 6.12. There the kernel is preempted by interrupts alone, which keep AC.
 * Where tasks are switched flags are not kept (__switch_to_asm, since 5.11): the next task would
 * run with AC set, and this one would go on without it, and fault.
 */
static __always_inline void jifl_preempt_enable(void)
{
#ifdef CONFIG_PREEMPTION
	unsigned long flags;

	barrier();
	if (likely(!__preempt_count_dec_and_test()))
		return;
	flags = native_save_fl();
	if (unlikely(flags & X86_EFLAGS_AC) && !JIFL_HOST_PLANTED(ac_lost))
		jifl_preempt_set_flags(flags & ~X86_EFLAGS_AC);
	__preempt_schedule_notrace();
	if (unlikely(flags & X86_EFLAGS_AC) && !JIFL_HOST_PLANTED(ac_lost))
		jifl_preempt_set_flags(flags);
#else
	preempt_enable_notrace();
#endif
}

#endif
