// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers that each CPU has, as counters: data of the kernel for each CPU, what /proc/vmstat and
 * /proc/net/snmp are made of, and what perf counts on a CPU. What a CPU counts while a task runs on
 * it is the task's. So it stands still while the task does not run.
 *
 * Let n be the number of a CPU. A record has two words for it: `events`, what it has had until the
 * task was switched in, and `bases`, what n was then.
 *
 * 1. While the task runs it has events + n - bases, with the n of its CPU. Else it has `events`.
 *    When it is switched away `events` becomes what it had. When it is switched in, `bases` becomes
 *    n. So that sum does not jump, and grows as n does while the task runs. One reading of n ends
 *    the one task's time and begins the other's: nothing of n is counted for both, or for neither.
 * 2. Who writes a row reads the two words and n with interrupts off. So there is no switch in
 *    between, and all three are of one CPU. An NMI in between changes neither word.
 * 3. What a CPU has above tasks (softirqs, interrupts, NMIs) has a record that is never switched:
 *    both words are 0, and it has n. Calls there end on the CPU on which they began. What an
 *    interrupt has counts for the task that it interrupts, too: as its time does.
 * 4. At the end each CPU is led to its sink, and then moves n - bases to `events` in all of its
 *    records. After that `events` is what they have, for all. `frozen` says which it is; both
 *    change with interrupts off, when no call that begins or ends has such a record but in NMIs
 *    that have the sink.
 *    A task that is switched from such a CPU, in the middle of a change of its row, to one that is
 *    not frozen yet gets a new base there. What it had between the two is lost, and nothing else.
 * 5. Who reads asks the CPU on which the record's task runs, in an interrupt there. If it has been
 *    switched meanwhile the record's `switches` have changed, and the reader begins anew (sum.c).
 * 6. Numbers of 4 bytes wrap. Sums are right modulo 2^32, so that is told.
 *
 * What perf counts is read as its own users in NMIs read it. Code that reads it may have places of
 * the session: then n is what was read last (is_read). So nothing is counted in a call inside of a
 * reading, and in NMIs that interrupt one. An event that does not count on the CPU is told as such:
 * its figure is unknown. That is so where a CPU came later: perf gives up what it has of a CPU that
 * goes. An event has its counter for itself (pinned), so it never counts a part of the time.
 *
 * A CPU that goes gives what it has counted for /proc/vmstat to another one, where it counts for
 * the task that runs there.
 *
 * perf counts a switch of tasks behind the hook of sched_switch, so for the task that comes.
 *
 * Contexts: as times.h has them.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/nsproxy.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/vmstat.h>
#include <net/net_namespace.h>
#include <net/snmp.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/import.h"
#include "../../compat/ksym.h"
#include "times.h"

/* --- a number of this CPU -------------------------------------------------------------------- */

static u64 jifl_times_meter_here(struct jifl_times_counter *c)
{
	struct jifl_times_meter *m = this_cpu_ptr(c->meters);
	u64 now;

	if (m->is_read)
		return READ_ONCE(m->last);
	WRITE_ONCE(m->is_read, true);
	barrier();
	if (!m->event || jifl_import(perf_event_read_local)(m->event, &now, NULL, NULL)) {
		now = m->last;
		WRITE_ONCE(c->lost, true);
	}
	WRITE_ONCE(m->last, now);
	barrier();
	WRITE_ONCE(m->is_read, false);
	return now;
}

/* Interrupts off. */
static u64 jifl_times_number_here(const struct jifl_times *t, u32 i)
{
	const struct jifl_times_counter *c = &t->counters[i];

	if (c->meters)
		return jifl_times_meter_here((struct jifl_times_counter *)c);
	if (c->is_short)
		return READ_ONCE(*(const u32 *)this_cpu_ptr(c->cell));
	return READ_ONCE(*(const u64 *)this_cpu_ptr(c->cell));
}

u64 jifl_times_number_since(const struct jifl_times *t, const struct jifl_times_record *r, u32 i)
{
	/* `events` has it all; what handlers do is not the time of others that interrupt them. */
	if (this_cpu_read(t->cpus->frozen) || (!r->task && t->counters[i].interrupts))
		return 0;
	return jifl_times_number_here(t, i) - READ_ONCE(r->bases[i]);
}

/* --- switches, and the end ------------------------------------------------------------------- */

void jifl_times_read_numbers(const struct jifl_times *t, struct jifl_times_cpu *cpu)
{
	u32 i;

	for (i = 0; i < t->ncounters; i++)
		if (t->counters[i].is_number)
			cpu->numbers[i] = jifl_times_number_here(t, i);
}

void jifl_times_number_off(const struct jifl_times *t, const struct jifl_times_cpu *cpu,
			   struct jifl_times_record *r)
{
	u32 i;

	for (i = 0; i < t->ncounters; i++)
		if (t->counters[i].is_number && (r->task || !t->counters[i].interrupts))
			WRITE_ONCE(r->events[i], r->events[i] + cpu->numbers[i] - r->bases[i]);
}

void jifl_times_number_on(const struct jifl_times *t, const struct jifl_times_cpu *cpu,
			  struct jifl_times_record *r)
{
	u32 i;

	if (JIFL_HOST_PLANTED(numbers_not_switched) && r->bases[0])
		return;
	for (i = 0; i < t->ncounters; i++)
		if (t->counters[i].is_number)
			WRITE_ONCE(r->bases[i], cpu->numbers[i]);
}

void jifl_times_freeze_numbers(const struct jifl_times *t, struct jifl_times_cpu *cpu)
{
	struct jifl_times_record *own = cpu->own;
	u32 n;

	jifl_times_read_numbers(t, cpu);
	/* Of a task that is off it has been done. */
	if (own->task && !own->off) {
		jifl_times_number_off(t, cpu, own);
		for (n = 0; n < t->ncounters; n++)
			if (t->counters[n].interrupts)
				own->events[n] += jifl_times_interrupts_now(&t->counters[n]);
	}
	for (n = JIFL_TIMES_OWN_SOFTIRQ; n <= JIFL_TIMES_OWN_NMI; n++)
		jifl_times_number_off(t, cpu, jifl_times_at(t, cpu->first + n));
}

/* --- reading --------------------------------------------------------------------------------- */

/* The CPU on which the record's task runs, or whose own it is; -1: none. */
static int jifl_times_runs_on(const struct jifl_times *t, const struct jifl_times_record *r)
{
	const size_t index = ((const char *)r - t->records) / t->stride;
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct jifl_times_cpu *c = per_cpu_ptr(t->cpus, cpu);

		if (READ_ONCE(c->own) == r ||
		    (index >= c->first && index < c->first + JIFL_TIMES_OWN))
			return cpu;
	}
	return -1;
}

struct jifl_times_ask {
	const struct jifl_times *t;
	const struct jifl_times_record *r;
	u32 i;
	u64 since;
};

static void jifl_times_answer_ask(void *arg)
{
	struct jifl_times_ask *ask = arg;
	const struct jifl_times_counter *c = &ask->t->counters[ask->i];

	ask->since = jifl_times_number_since(ask->t, ask->r, ask->i);
	if (c->interrupts && ask->r->task && !this_cpu_read(ask->t->cpus->frozen))
		ask->since += jifl_times_interrupts_now(c);
}

u64 jifl_times_number_told(const struct jifl_times *t, const struct jifl_times_record *r, u32 i)
{
	struct jifl_times_ask ask = { .t = t, .r = r, .i = i };
	int cpu;

	if (!t->counters[i].is_number || READ_ONCE(r->off) || READ_ONCE(t->end))
		return 0;
	cpu = jifl_times_runs_on(t, r);
	if (cpu >= 0)
		smp_call_function_single(cpu, jifl_times_answer_ask, &ask, true);
	return ask.since;
}

u64 jifl_times_counted_as(const struct jifl_times *t, u32 i, u64 sum)
{
	if (READ_ONCE(t->counters[i].lost))
		return JIFL_COUNTED_UNKNOWN;
	if (t->counters[i].is_short)
		return (u32)sum;
	if (t->counters[i].is_ticks)
		return jifl_times_ns(sum);
	/* What does not only grow is told as 0. */
	return (s64)sum < 0 ? 0 : sum;
}

/* --- opening and closing --------------------------------------------------------------------- */

static int jifl_times_open_cell(struct jifl_times_counter *c, const void __percpu *cell)
{
	c->cell = cell;
	return cell ? 0 : -ENXIO;
}

/* Data that the kernel itself has for each CPU stays where it is, and can always be read. */
static int jifl_times_open_data(struct jifl_times_counter *c, u64 at, u32 size)
{
	/* Before 6.15 the first is 0. */
	const unsigned long start = jifl_ksym("__per_cpu_start");
	const unsigned long end = jifl_ksym("__per_cpu_end");

	if ((size != sizeof(u32) && size != sizeof(u64)) || !IS_ALIGNED(at, size) || at < start ||
	    at >= end || end - at < size)
		return -ENXIO;
	c->is_short = size == sizeof(u32);
	return jifl_times_open_cell(c, (const void __percpu *)(unsigned long)at);
}

static int jifl_times_open_vmstat(struct jifl_times_counter *c, u64 event)
{
#ifdef CONFIG_VM_EVENT_COUNTERS
	if (event < NR_VM_EVENT_ITEMS)
		return jifl_times_open_cell(c, &vm_event_states.event[event]);
#endif
	return -ENXIO;
}

#define JIFL_TIMES_MIB(mib, n)	\
	((n) < ARRAY_SIZE((mib)->mibs) ? (const void __percpu *)&(mib)->mibs[n] : NULL)

static const void __percpu *jifl_times_mib(const struct net *net, u32 which, u64 n)
{
	switch (which) {
	case JIFL_COUNTER_IP:
		return JIFL_TIMES_MIB(net->mib.ip_statistics, n);
	case JIFL_COUNTER_TCP:
		return JIFL_TIMES_MIB(net->mib.tcp_statistics, n);
	case JIFL_COUNTER_TCP_EXT:
		return JIFL_TIMES_MIB(net->mib.net_statistics, n);
	case JIFL_COUNTER_UDP:
		return JIFL_TIMES_MIB(net->mib.udp_statistics, n);
#if __has_include(<net/udplite.h>)
	/* Later kernels have none. */
	case JIFL_COUNTER_UDP_LITE:
		return JIFL_TIMES_MIB(net->mib.udplite_statistics, n);
#endif
	default:
		return NULL;
	}
}

static int jifl_times_open_snmp(struct jifl_times *t, struct jifl_times_counter *c,
				const struct jifl_counter *asked)
{
	/* As long as it is held its numbers stay. */
	if (!t->net)
		t->net = get_net(current->nsproxy->net_ns);
	return jifl_times_open_cell(c, jifl_times_mib(t->net, asked->type, asked->value));
}

static int jifl_times_open_meter(struct jifl_times_meter *m, const struct jifl_counter *asked,
				 int cpu)
{
	struct perf_event_attr attr = {
		.type = asked->type,
		.config = asked->value,
		.size = sizeof(attr),
		.pinned = 1,
	};
	struct perf_event *event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);

	if (!IS_ERR(event)) {
		m->event = event;
		return 0;
	}
	if (PTR_ERR(event) == -ENOMEM)
		return -ENOMEM;
	/* It has gone. */
	return cpu_online(cpu) ? -ENXIO : 0;
}

static void jifl_times_try_meter(void *arg)
{
	jifl_times_meter_here(arg);
}

/* The lock of CPUs is perf's to take. */
static int jifl_times_open_meters(struct jifl_times_counter *c, const struct jifl_counter *asked)
{
	const bool is_counted = asked->type == PERF_TYPE_HARDWARE ||
				asked->type == PERF_TYPE_SOFTWARE ||
				asked->type == PERF_TYPE_HW_CACHE || asked->type == PERF_TYPE_RAW;
	int cpu, ret = 0;

	if (!is_counted || !jifl_imported(perf_event_read_local))
		return -ENXIO;
	c->meters = JIFL_ALLOC(alloc_percpu(struct jifl_times_meter));
	if (!c->meters)
		return -ENOMEM;
	for_each_online_cpu(cpu) {
		ret = JIFL_TRY(jifl_times_open_meter(per_cpu_ptr(c->meters, cpu), asked, cpu));
		if (ret)
			return ret;
		if (per_cpu_ptr(c->meters, cpu)->event)
			smp_call_function_single(cpu, jifl_times_try_meter, c, true);
	}
	return c->lost ? -ENOSPC : 0;
}

int jifl_times_open_number(struct jifl_times *t, struct jifl_times_counter *c,
			   const struct jifl_counter *asked)
{
	c->is_number = true;
	t->has_numbers = true;
	switch (asked->kind) {
	case JIFL_COUNTER_PROCESSOR:
		return jifl_times_open_data(c, asked->value, asked->type);
	case JIFL_COUNTER_VMSTAT:
		return jifl_times_open_vmstat(c, asked->value);
	case JIFL_COUNTER_SNMP:
		return jifl_times_open_snmp(t, c, asked);
	case JIFL_COUNTER_PERF:
		return jifl_times_open_meters(c, asked);
	case JIFL_COUNTER_INTERRUPTS:
		return jifl_times_open_interrupts(c);
	default:
		return -ENXIO;
	}
}

void jifl_times_close_numbers(struct jifl_times *t)
{
	u32 i;
	int cpu;

	for (i = 0; i < t->ncounters; i++) {
		struct jifl_times_counter *c = &t->counters[i];

		jifl_times_close_interrupts(c);
		if (!c->meters)
			continue;
		for_each_possible_cpu(cpu)
			if (per_cpu_ptr(c->meters, cpu)->event)
				perf_event_release_kernel(per_cpu_ptr(c->meters, cpu)->event);
		free_percpu(c->meters);
		c->meters = NULL;
		c->is_number = false;
	}
	if (t->net)
		put_net(t->net);
	t->net = NULL;
}
