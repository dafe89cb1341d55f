// SPDX-License-Identifier: GPL-2.0
/*
 * Whose rows the running code writes, and how long tasks do not run. The scheduler's tracepoints
 * tell: sched_switch, sched_wakeup.
 *
 * 1. A task gets a record when it is first switched in, or runs at the session's start. So whatever
 *    runs has one, and in copies nothing is looked up: each CPU has the address of the running
 *    task's. Where there is none left, or the session is not about the task, that is the CPU's
 *    sink, which nobody reads.
 * 2. Until the session begins all CPUs have their sinks. It begins with the machine stopped
 *    (tool.c): then no record has been written but by these hooks, and no change of a row is under
 *    way but in a sink.
 * 3. Only the CPU that switches a task away or in writes where it is (off, out); the scheduler
 *    orders the two. Only who wakes it writes `woken`, while it is off, under its run queue's lock.
 * 4. A task is blocked if the scheduler has taken it off its run queue. Where a signal was pending
 *    it has not: then the task's state says that it runs (__schedule of 6.1), or prev_state does.
 * 5. When a task is switched away for the last time its record is buried (record.c). Its CPU has
 *    the sink then: what the hook calls may be looked at, too.
 * 6. Freezing leads all CPUs to their sinks, and takes the hooks away. So no record changes after
 *    that but by a task that was preempted within the few instructions of a change, which then ends
 *    that change. Time inside is told until the moment of the last CPU's interrupt.
 * 7. A CPU that comes later has its hook working: its first task is its idle task, for which it has
 *    the sink, and the session has begun for it as for the others.
 *
 * Context: the hooks: a run queue is locked, interrupts are off; the others as times.h says.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/compat.h"
#include "../../compat/runqueue.h"
#include "../../call/filter.h"
#include "../../call/whose.h"
#include "times.h"

static bool jifl_times_is_inside_any(const struct jifl_times *t, struct jifl_times_record *r)
{
	u32 i;

	for (i = 0; i < t->nrows; i++)
		if (jifl_times_row(t, r, i)->depth)
			return true;
	return false;
}

/* Whose rows the task is to write. It is current, or is about to be. */
static struct jifl_times_record *jifl_times_whose(struct jifl_times *t, struct task_struct *task,
						  const struct jifl_times_cpu *cpu)
{
	const struct jifl_filter *f = &t->session->watched;
	struct jifl_times_record *r = jifl_times_of(t, task);

	if (!f->mask || jifl_filter_match_task(f, task))
		return r ?: jifl_times_make(t, task) ?: cpu->sink;
	/*
	 * Calls that were counted when they began are counted to their end. If it is in none the
	 * task keeps its record all the same: it may have been preempted in a change of it.
	 */
	return r && jifl_times_is_inside_any(t, r) ? r : cpu->sink;
}

/* --- the hooks ------------------------------------------------------------------------------ */

static void jifl_times_off(const struct jifl_times *t, const struct jifl_times_cpu *cpu,
			   struct jifl_times_record *r, u64 now, bool runnable)
{
	WRITE_ONCE(r->switches, r->switches + 1);
	smp_wmb();
	if (t->has_numbers)
		jifl_times_number_off(t, cpu, r);
	WRITE_ONCE(r->out, now);
	WRITE_ONCE(r->woken, 0);
	WRITE_ONCE(r->off, runnable ? JIFL_TIMES_RUNNABLE : JIFL_TIMES_BLOCKED);
	smp_wmb();
	WRITE_ONCE(r->switches, r->switches + 1);
}

void jifl_times_was_off(const struct jifl_times_record *r, u64 now, u64 *blocked, u64 *runnable)
{
	const u64 out = min(r->out, now), woken = clamp(r->woken ?: now, out, now);

	*blocked = r->off == JIFL_TIMES_BLOCKED ? woken - out : 0;
	*runnable = r->off == JIFL_TIMES_RUNS || JIFL_HOST_PLANTED(waits_as_running) ?
		    0 : now - out - *blocked;
}

static void jifl_times_on(const struct jifl_times *t, const struct jifl_times_cpu *cpu,
			  struct jifl_times_record *r, u64 now)
{
	u64 blocked, runnable;

	/* Also if it comes from a CPU that is frozen, which has not seen it leave. */
	if (t->has_numbers)
		jifl_times_number_on(t, cpu, r);
	if (!r->off)
		return;
	jifl_times_was_off(r, now, &blocked, &runnable);
	WRITE_ONCE(r->switches, r->switches + 1);
	smp_wmb();
	WRITE_ONCE(r->blocked, r->blocked + blocked);
	WRITE_ONCE(r->runnable, r->runnable + runnable);
	WRITE_ONCE(r->out, now);
	WRITE_ONCE(r->off, JIFL_TIMES_RUNS);
	smp_wmb();
	WRITE_ONCE(r->switches, r->switches + 1);
}

/* The task leaves this CPU. */
static void jifl_times_leaves(struct jifl_times *t, struct jifl_times_cpu *cpu,
			      struct task_struct *task, bool preempt, unsigned int state, u64 now)
{
	struct jifl_times_record *r = cpu->own;

	if (!preempt && state & TASK_DEAD) {
		WRITE_ONCE(cpu->task, cpu->sink);
		/* The sink, if it has ceased to match the filter. */
		r = jifl_times_of(t, task);
		if (r)
			jifl_times_bury(t, r, cpu->dead, now);
	} else if (r->task == task) {
		jifl_times_off(t, cpu, r, now,
			       preempt || !state || !READ_ONCE(task->__state));
	}
}

static void jifl_times_switch(void *data, bool preempt, struct task_struct *prev,
			      struct task_struct *next, unsigned int prev_state)
{
	struct jifl_times *t = data;
	struct jifl_times_cpu *cpu = this_cpu_ptr(t->cpus);
	const u64 now = rdtsc();

	if (cpu->frozen)
		return;
	if (t->has_numbers)
		jifl_times_read_numbers(t, cpu);
	jifl_times_leaves(t, cpu, prev, preempt, prev_state, now);
	cpu->own = jifl_times_whose(t, next, cpu);
	if (cpu->own->task)
		jifl_times_on(t, cpu, cpu->own, now);
	if (t->begin)
		WRITE_ONCE(cpu->task, cpu->own);
}

static void jifl_times_woken(void *data, struct task_struct *task)
{
	const struct jifl_times *t = data;
	struct jifl_times_record *r = jifl_times_of(t, task);

	if (r && READ_ONCE(r->off) == JIFL_TIMES_BLOCKED && !READ_ONCE(r->woken) &&
	    !this_cpu_read(t->cpus->frozen))
		WRITE_ONCE(r->woken, rdtsc());
}

static struct jifl_times_hook {
	const char *name;
	void *fn;
	struct tracepoint *tp;
} jifl_times_hooks[] = {
	{ "sched_switch", jifl_times_switch },
	{ "sched_wakeup", jifl_times_woken },
};

int jifl_times_switch_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(jifl_times_hooks); i++) {
		jifl_times_hooks[i].tp = jifl_compat_tracepoint(jifl_times_hooks[i].name);
		if (!jifl_times_hooks[i].tp) {
			pr_err("this kernel has no tracepoint %s; it needs CONFIG_TRACEPOINTS\n",
			       jifl_times_hooks[i].name);
			return -EOPNOTSUPP;
		}
	}
	return 0;
}

static void jifl_times_unhook(struct jifl_times *t)
{
	while (t->hooked--)
		tracepoint_probe_unregister(jifl_times_hooks[t->hooked].tp,
					    jifl_times_hooks[t->hooked].fn, t);
	t->hooked = 0;
	tracepoint_synchronize_unregister();
}

static int jifl_times_hook(struct jifl_times *t)
{
	int ret = 0;

	while (!ret && t->hooked < ARRAY_SIZE(jifl_times_hooks)) {
		struct jifl_times_hook *hook = &jifl_times_hooks[t->hooked];

		ret = JIFL_TRY(tracepoint_probe_register(hook->tp, hook->fn, t));
		t->hooked += !ret;
	}
	return ret;
}

/* --- beginning and end ---------------------------------------------------------------------- */

/* In an interrupt of each CPU. */
static void jifl_times_find_current(void *arg)
{
	struct jifl_times *t = arg;
	struct jifl_times_cpu *cpu = this_cpu_ptr(t->cpus);

	cpu->own = jifl_times_whose(t, current, cpu);
	if (t->has_numbers) {
		jifl_times_read_numbers(t, cpu);
		jifl_times_number_on(t, cpu, cpu->own);
	}
}

static void jifl_times_lead_away(struct jifl_times_cpu *cpu)
{
	u32 i;

	WRITE_ONCE(cpu->task, cpu->sink);
	for (i = 0; i < JIFL_TIMES_ABOVE; i++)
		WRITE_ONCE(cpu->above[i], cpu->sink);
}

static void jifl_times_freeze_here(void *arg)
{
	const struct jifl_times *t = arg;
	struct jifl_times_cpu *cpu = this_cpu_ptr(t->cpus);

	jifl_times_lead_away(cpu);
	if (t->has_numbers)
		jifl_times_freeze_numbers(t, cpu);
	cpu->frozen = true;
}

/* By the bits of preempt_count() above those of softirqs. */
static u32 jifl_times_own_of(u32 bits)
{
	if (bits >> HARDIRQ_BITS)
		return JIFL_TIMES_OWN_NMI;
	return bits ? JIFL_TIMES_OWN_IRQ : JIFL_TIMES_OWN_SOFTIRQ;
}

static void jifl_times_give_own(struct jifl_times *t, unsigned int number, int id)
{
	const u32 first = number * JIFL_TIMES_OWN;
	struct jifl_times_cpu *cpu = per_cpu_ptr(t->cpus, id);
	u32 i;

	cpu->first = first;
	cpu->sink = jifl_times_at(t, first + JIFL_TIMES_OWN_SINK);
	cpu->dead = jifl_times_at(t, first + JIFL_TIMES_OWN_DEAD);
	jifl_times_lead_away(cpu);
	cpu->own = cpu->sink;
	for (i = 0; i < JIFL_TIMES_OWN_SINK; i++)
		jifl_times_at(t, first + i)->used = 1;
}

int jifl_times_open_tasks(struct jifl_times *t)
{
	unsigned int number = 0;
	int cpu, ret;

	t->cpus = JIFL_ALLOC(alloc_percpu(struct jifl_times_cpu));
	if (!t->cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		jifl_times_give_own(t, number++, cpu);
	ret = jifl_times_hook(t);
	if (!ret)
		on_each_cpu(jifl_times_find_current, t, true);
	return ret;
}

void jifl_times_close_tasks(struct jifl_times *t)
{
	if (t->hooked)
		jifl_times_unhook(t);
	free_percpu(t->cpus);
}

/* On that CPU with interrupts off, or with the machine stopped, or while it is offline. */
static void jifl_times_lead_cpu(const struct jifl_times *t, struct jifl_times_cpu *cpu)
{
	const struct jifl_filter *f = &t->session->watched;
	u32 i;

	WRITE_ONCE(cpu->task, cpu->own);
	for (i = 0; i < JIFL_TIMES_ABOVE; i++)
		if (jifl_filter_has_all(f, i ? JIFL_LEVEL_IRQ : JIFL_LEVEL_SOFTIRQ))
			WRITE_ONCE(cpu->above[i],
				   jifl_times_at(t, cpu->first + jifl_times_own_of(i)));
}

void jifl_times_lead(struct jifl_times *t)
{
	int cpu;

	t->begin = rdtsc();
	atomic64_set(&t->refused, 0);
	for_each_possible_cpu(cpu)
		jifl_times_lead_cpu(t, per_cpu_ptr(t->cpus, cpu));
}

static void jifl_times_lead_here(void *arg)
{
	struct jifl_times *t = arg;

	jifl_times_lead_cpu(t, this_cpu_ptr(t->cpus));
}

void jifl_times_lead_now(struct jifl_times *t)
{
	int cpu;

	cpus_read_lock();
	WRITE_ONCE(t->begin, rdtsc());
	on_each_cpu(jifl_times_lead_here, t, true);
	for_each_possible_cpu(cpu)
		if (!cpu_online(cpu))
			jifl_times_lead_cpu(t, per_cpu_ptr(t->cpus, cpu));
	cpus_read_unlock();
}

void jifl_times_is_inside(struct jifl_times *t, struct task_struct *task, u32 row)
{
	struct jifl_times_record *r =
		jifl_times_of(t, task) ?: jifl_times_whose(t, task, raw_cpu_ptr(t->cpus));
	struct jifl_times_row *to = jifl_times_row(t, r, row);
	u64 blocked, runnable;
	u32 i;

	if (r->task != task || JIFL_HOST_PLANTED(insiders_untold))
		return;
	/* It has not run since the hooks are there. */
	if (!r->out) {
		r->out = t->begin;
		r->off = READ_ONCE(task->__state) && !jifl_runqueue_has(task) ?
			 JIFL_TIMES_BLOCKED : JIFL_TIMES_RUNNABLE;
	}
	to->adopted++;
	if (to->depth++)
		return;
	jifl_times_was_off(r, t->begin, &blocked, &runnable);
	to->wall = -t->begin;
	to->blocked = -(r->blocked + blocked);
	to->runnable = -(r->runnable + runnable);
	for (i = 0; i < t->ncounters; i++)
		jifl_times_counted(to)[i] = -jifl_times_counter_off(t, r, i);
	/* Its arguments are no more. The row was 0 when it began. */
	if (t->keeps)
		*jifl_times_call(to) = (struct jifl_times_call){
			.object = jifl_times_object(t, row, NULL, 0), .is_late = true };
}

void jifl_times_freeze(struct jifl_times *t)
{
	int cpu;

	cpus_read_lock();
	on_each_cpu(jifl_times_freeze_here, t, true);
	for_each_possible_cpu(cpu)
		if (!cpu_online(cpu)) {
			jifl_times_lead_away(per_cpu_ptr(t->cpus, cpu));
			per_cpu_ptr(t->cpus, cpu)->frozen = true;
		}
	t->end = rdtsc();
	jifl_times_freeze_counters(t);
	cpus_read_unlock();
	jifl_times_close_counters(t);
	jifl_times_unhook(t);
	jifl_times_close_numbers(t);
}
