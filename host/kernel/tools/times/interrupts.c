// SPDX-License-Identifier: GPL-2.0
/*
 * The time that interrupts and softirqs take on each CPU, as a number (number.c): the kernel's
 * tracepoints where their handlers begin and end tell.
 *
 * 1. Handlers that interrupt others, or that run inside of them, are one time: from the beginning
 *    of the first to the end of the last (depth). It is added when that ends. So what a task reads
 *    has all interrupts that came while it ran. Calls in handlers have none of it (number.c): they
 *    are no task's.
 * 2. Each beginning that is seen has its end: ends are hooked before beginnings, and longer. An end
 *    without a beginning is left out. Inside a handler whose beginning was seen it ends that. This
 *    can only be while hooks are registered, which is before the session begins.
 * 3. The words are those of one CPU, and a hook writes them with interrupts off. So nothing is
 *    between its reading of the clock and of depth: an interrupt that comes while a softirq's hook
 *    runs is before it, or behind. NMIs have no such hooks.
 * 4. A CPU is in no handler when it switches tasks. With PREEMPT_RT softirqs can be switched away:
 *    there they are left out, and are the time of the tasks that run them.
 * 5. Who asks a CPU for what its task has (number.c, 4 and 5) does so in an interrupt there, maybe
 *    on top of others. For the task these have gone on until now (jifl_times_interrupts_now). So
 *    what has been told of its time is never too large, and no interval has too little.
 *
 * What stands around handlers, in the kernel's entry and exit, is the interrupted task's. So are
 * NMIs, exceptions, and what has no tracepoint: some vectors of hypervisors.
 *
 * Context: hooks: any but NMI; jifl_times_interrupts_now: interrupts off; the others sleep.
 */
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <linux/tracepoint.h>
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/compat.h"
#include "times.h"

struct jifl_times_interrupts {
	u64 ticks, since;
	u32 depth;
};

/* Hooks get the address of the CPUs' own as any other. Later compilers tell the two apart. */
static struct jifl_times_interrupts __percpu *jifl_times_interrupts_of(void *data)
{
	return (struct jifl_times_interrupts __percpu *)(unsigned long)data;
}

static void jifl_times_interrupt_begins(void *data)
{
	struct jifl_times_interrupts *in;
	unsigned long flags;

	raw_local_irq_save(flags);
	in = this_cpu_ptr(jifl_times_interrupts_of(data));
	if (!in->depth++)
		in->since = rdtsc();
	raw_local_irq_restore(flags);
}

static void jifl_times_interrupt_ends(void *data)
{
	struct jifl_times_interrupts *in;
	unsigned long flags;

	raw_local_irq_save(flags);
	in = this_cpu_ptr(jifl_times_interrupts_of(data));
	if (in->depth && !--in->depth && !JIFL_HOST_PLANTED(interrupts_untimed))
		WRITE_ONCE(in->ticks, in->ticks + rdtsc() - in->since);
	raw_local_irq_restore(flags);
}

u64 jifl_times_interrupts_now(const struct jifl_times_counter *c)
{
	const struct jifl_times_interrupts *in = this_cpu_ptr(c->interrupts);

	return in->depth && !JIFL_HOST_PLANTED(interrupts_untimed) ? rdtsc() - in->since : 0;
}

#define JIFL_TIMES_SOFTIRQ	0

/* Where a CPU may have no such interrupt the kernel has no such tracepoint. */
static const char *const jifl_times_handlers[] = {
	[JIFL_TIMES_SOFTIRQ] = "softirq", "irq_handler", "local_timer", "reschedule",
	"call_function", "call_function_single", "irq_work", "x86_platform_ipi", "thermal_apic", "threshold_apic",
	"deferred_error_apic", "spurious_apic", "error_apic",
};
static_assert(ARRAY_SIZE(jifl_times_handlers) <= 16);	/* struct jifl_times_counter */

static struct tracepoint *jifl_times_handler(u32 i, bool ends)
{
	char name[JIFL_COUNTER_NAME_MAX];

	snprintf(name, sizeof(name), "%s_%s", jifl_times_handlers[i], ends ? "exit" : "entry");
	return jifl_compat_tracepoint(name);
}

static void *jifl_times_handler_hook(bool ends)
{
	return ends ? (void *)jifl_times_interrupt_ends : (void *)jifl_times_interrupt_begins;
}

static int jifl_times_hook_handlers(struct jifl_times_counter *c, bool ends)
{
	int ret = 0;
	u32 i;

	for (i = 0; !ret && i < ARRAY_SIZE(jifl_times_handlers); i++) {
		/* Those without a beginning, or an end, are left out. */
		if (!jifl_times_handler(i, !ends) || !jifl_times_handler(i, ends))
			continue;
		if (IS_ENABLED(CONFIG_PREEMPT_RT) && i == JIFL_TIMES_SOFTIRQ)
			continue;
		ret = JIFL_TRY(tracepoint_probe_register(jifl_times_handler(i, ends),
							 jifl_times_handler_hook(ends),
							 (void *)(unsigned long)c->interrupts));
		if (!ret)
			c->handlers[ends] |= BIT(i);
	}
	return ret;
}

static void jifl_times_unhook_handlers(struct jifl_times_counter *c, bool ends)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(jifl_times_handlers); i++)
		if (c->handlers[ends] & BIT(i))
			tracepoint_probe_unregister(jifl_times_handler(i, ends),
						    jifl_times_handler_hook(ends),
						    (void *)(unsigned long)c->interrupts);
	c->handlers[ends] = 0;
	tracepoint_synchronize_unregister();
}

int jifl_times_open_interrupts(struct jifl_times_counter *c)
{
	int ret;

	c->interrupts = JIFL_ALLOC(alloc_percpu(struct jifl_times_interrupts));
	if (!c->interrupts)
		return -ENOMEM;
	c->is_ticks = true;
	c->cell = &c->interrupts->ticks;
	ret = jifl_times_hook_handlers(c, true);
	return ret ?: jifl_times_hook_handlers(c, false);
}

void jifl_times_close_interrupts(struct jifl_times_counter *c)
{
	if (!c->interrupts)
		return;
	jifl_times_unhook_handlers(c, false);
	jifl_times_unhook_handlers(c, true);
	free_percpu(c->interrupts);
	c->interrupts = NULL;
	c->is_number = false;
}
