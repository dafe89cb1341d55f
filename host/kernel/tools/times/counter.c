// SPDX-License-Identifier: GPL-2.0
/*
 * What is counted beside times: any number that only grows. How much of it belongs to calls is told
 * as their time is, by the difference between end and beginning (account.c).
 *
 * 1. Of a tracepoint each record has a number: how often its task, or its CPU at that level, came
 *    to it. The record's writer adds to it alone, in one instruction, as to rows (account.c, 4). It
 *    stands still while the task does not run.
 * 2. A variable is everybody's. What grows in it meanwhile counts for a call, whoever did it, also
 *    while the task sleeps; and once for each call that is inside.
 *    A number that each CPU has is the task's (number.c).
 *    A value of calls is what programs add up: nothing of it grows between (account.c, 9). A
 *    distribution is the number of its values.
 * 3. A hook gets the tracepoint's own arguments behind its data, and does not look at them. By the
 *    calling convention of x86-64 it may have fewer parameters than its caller gives.
 * 4. CPUs have no records before jifl_times_open_tasks gives them sinks. A hook that comes earlier
 *    does nothing. Preemption is off from the choice of a record to its end. When a CPU is led to
 *    its sink at the end (jifl_times_freeze) events are the sink's.
 *
 * Context: hooks run in any context that has tracepoints; the others sleep.
 */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/compat.h"
#include "../../compat/ksym.h"
#include "../../compat/tracepoint.h"
#include "../../call/whose.h"
#include "times.h"

static void jifl_times_event(void *data)
{
	const struct jifl_times_counter *c = data;
	struct jifl_times_cpu __percpu *cpus = READ_ONCE(c->times->cpus);
	struct jifl_times_record *r;

	jifl_compat_hook_begin();
	r = cpus ? jifl_times_here(cpus, preempt_count()) : NULL;
	if (r && !JIFL_HOST_PLANTED(events_uncounted))
		jifl_times_inc(r->events[c->index]);
	jifl_compat_hook_end();
}

static bool jifl_times_is_between(unsigned long at, const char *begin, const char *end)
{
	const unsigned long from = jifl_ksym(begin), to = jifl_ksym(end);

	return from && at >= from && at < to && to - at >= sizeof(u64);
}

/* Data of the kernel itself stays where it is, and can always be read. */
static bool jifl_times_is_variable(unsigned long at)
{
	unsigned long start, size;

	return IS_ALIGNED(at, sizeof(u64)) &&
	       (jifl_times_is_between(at, "_sdata", "_edata") ||
		jifl_times_is_between(at, "__bss_start", "__bss_stop")) &&
	       jifl_ksym_range(at, &start, &size) && start + size - at >= sizeof(u64);
}

static int jifl_times_open_counter(struct jifl_times *t, u32 i)
{
	const struct jifl_counter *asked = &t->session->meters[i];
	struct jifl_times_counter *c = &t->counters[i];
	int ret;

	c->times = t;
	c->index = i;
	if (asked->kind == JIFL_COUNTER_VARIABLE) {
		c->variable = (const u64 *)(unsigned long)asked->value;
		return jifl_times_is_variable(asked->value) ? 0 : -ENXIO;
	}
	if (asked->kind == JIFL_COUNTER_VALUE) {
		c->is_value = true;
		t->has_values = true;
		return 0;
	}
	if (asked->kind == JIFL_COUNTER_DISTRIBUTION)
		return jifl_times_open_distribution(t, c, asked);
	if (asked->kind != JIFL_COUNTER_TRACEPOINT)
		return jifl_times_open_number(t, c, asked);
	c->tp = jifl_compat_tracepoint(asked->tracepoint);
	if (!c->tp)
		return -ENXIO;
	ret = JIFL_TRY(tracepoint_probe_register(c->tp, (void *)jifl_times_event, c));
	c->hooked = !ret;
	return ret;
}

int jifl_times_open_counters(struct jifl_times *t)
{
	int ret = 0;
	u32 i;

	for (i = 0; !ret && i < t->ncounters; i++) {
		ret = jifl_times_open_counter(t, i);
		t->session->bad_meter = i;
	}
	return ret;
}

void jifl_times_freeze_counters(struct jifl_times *t)
{
	u32 i;

	for (i = 0; i < t->ncounters; i++) {
		struct jifl_times_counter *c = &t->counters[i];

		if (!c->variable)
			continue;
		c->last = READ_ONCE(*c->variable);
		WRITE_ONCE(c->variable, &c->last);
	}
}

void jifl_times_close_counters(struct jifl_times *t)
{
	bool any = false;
	u32 i;

	for (i = 0; i < t->ncounters; i++) {
		struct jifl_times_counter *c = &t->counters[i];

		if (c->hooked)
			tracepoint_probe_unregister(c->tp, (void *)jifl_times_event, c);
		any |= c->hooked;
		c->hooked = false;
	}
	if (any)
		tracepoint_synchronize_unregister();
}
