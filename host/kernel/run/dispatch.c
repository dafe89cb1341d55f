// SPDX-License-Identifier: GPL-2.0
/*
 * What the dispatcher needs of the kernel: a private stack for each CPU, the engine lock, a clock
 * and counts of native exits. stubs.S switches to the stack and calls jifl_engine_dispatch.
 *
 * Context: init and exit: process context. All other functions: interrupts off, any context but
 * NMI; the interrupted code may hold any lock. So they call no code that can be traced, do not
 * sleep, and take no other lock.
 */
#include <linux/atomic.h>
#include <linux/irqflags.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/processor.h>
#include <linux/time64.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>
#include <asm/tsc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "dispatch.h"
#include "events.h"
#include "stubs.h"

/*
 * Deep enough for a translation, and for what the kernel's locks say on a kernel that checks them;
 * vmalloc puts a hole below it.
 */
#define STACK_SIZE	THREAD_SIZE

DEFINE_PER_CPU(struct jifl_cpu, jifl_cpu);

const struct jifl_run_events *jifl_run_events;

static_assert(offsetof(struct jifl_cpu, stack_top) == JIFL_CPU_STACK_TOP);
static_assert(sizeof(struct jifl_frame) == 16 && offsetof(struct jifl_frame, target) == 8);

/*
 * A plain test-and-set lock, because the slow paths of the kernel's own locks can be traced, and
 * the interrupted code may have been executing one of them.
 */
static atomic_t engine_lock;

int jifl_dispatch_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		u8 *stack = JIFL_ALLOC(vzalloc_node(STACK_SIZE, cpu_to_node(cpu)));

		if (!stack) {
			jifl_dispatch_exit();
			return -ENOMEM;
		}
		per_cpu(jifl_cpu, cpu).stack_top = (unsigned long)stack + STACK_SIZE;
	}
	return 0;
}

void jifl_dispatch_exit(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		unsigned long top = per_cpu(jifl_cpu, cpu).stack_top;

		if (top)
			vfree((void *)(top - STACK_SIZE));
		per_cpu(jifl_cpu, cpu).stack_top = 0;
	}
}

unsigned long jifl_host_lock(void)
{
	unsigned long flags;

	raw_local_irq_save(flags);
	jifl_own_begin();
	/* Pairs with the release in jifl_host_unlock. */
	while (atomic_cmpxchg_acquire(&engine_lock, 0, 1)) {
		while (atomic_read(&engine_lock))
			cpu_relax();
	}
	return flags;
}

void jifl_host_unlock(unsigned long cookie)
{
	/* Pairs with the acquire in jifl_host_lock. */
	atomic_set_release(&engine_lock, 0);
	jifl_own_end();
	raw_local_irq_restore(cookie);
}

/*
 * Reads the processor's counter itself. The kernel's clocks may read a clocksource that takes a
 * lock (read_hpet), and the call that is being translated may hold this lock.
 */
u64 jifl_host_clock(void)
{
	return tsc_khz ? mul_u64_u64_div_u64(rdtsc(), NSEC_PER_MSEC, tsc_khz) : 0;
}

void jifl_host_count_exit(enum jifl_cause cause)
{
	if ((unsigned int)cause < JIFL_CAUSES_MAX)
		this_cpu_inc(jifl_cpu.exits[cause]);
}

const s64 *jifl_host_training(void)
{
	return this_cpu_ptr(&jifl_cpu)->training;
}

void jifl_host_training_set(u32 first, u32 n, s64 value)
{
	unsigned int cpu;
	u32 i;

	/* A CPU that counts meanwhile may overwrite this: its training ends earlier or later. */
	for_each_possible_cpu(cpu)
		for (i = first; i < first + n; i++)
			WRITE_ONCE(per_cpu(jifl_cpu, cpu).training[i], value);
}
