// SPDX-License-Identifier: GPL-2.0
/* The stacks of interrupts; see compat.h. */
#include <linux/percpu.h>
#include <asm/processor.h>

#include "../kernel.h"
#include "compat.h"
#include "current.h"
#include "ksym.h"

#ifdef JIFL_HAS_PCPU_HOT

void jifl_compat_irq_stack_init(void)
{
}

void *jifl_compat_irq_stack(unsigned int cpu)
{
	return per_cpu(pcpu_hot.hardirq_stack_ptr, cpu);
}

#else

static void *__percpu *jifl_irq_stacks;

void jifl_compat_irq_stack_init(void)
{
	/* By its address as a variable of each CPU's. */
	jifl_irq_stacks = (void *__percpu *)jifl_ksym("hardirq_stack_ptr");
}

void *jifl_compat_irq_stack(unsigned int cpu)
{
	return jifl_irq_stacks ? *per_cpu_ptr(jifl_irq_stacks, cpu) : NULL;
}

#endif
