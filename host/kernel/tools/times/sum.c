// SPDX-License-Identifier: GPL-2.0
/*
 * What all records have of a function, while they are written.
 *
 * 1. Of a row, what began is what ended and what has not ended, but while a beginning or an end is
 *    written: the first store of each breaks that, its last one mends it, and the times are stored
 *    between (account.c). So times are right that were read between two readings of the numbers
 *    that are whole, and are the same. Otherwise the row is read again.
 * 2. A task that was preempted within these instructions keeps its row from being whole, so who
 *    reads sleeps in between. If the task does not come to run, this reading is without the times
 *    of its row. At the end there is no such task: jifl_evict has waited for all
 *    (tools/probe/tool.c, step 6).
 * 3. What the scheduler's hook writes is read between two readings of `switches` that are even, and
 *    the same.
 * 4. The rows of a task that dies meanwhile may be met twice, or not at all: its own, and those of
 *    the dead. So all is read again if one has died that had any. Where some die all the time it is
 *    given up after some readings, while the session runs. When it has ended none dies (switch.c).
 *
 * Context: process, sleeps.
 */
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <asm/div64.h>
#include <asm/msr.h>
#include <asm/tsc.h>

#include "../../kernel.h"
#include "times.h"

/* Readings of all, and of a row; how many of these without giving way. */
#define JIFL_TIMES_READINGS	20
#define JIFL_TIMES_TRIES	500
#define JIFL_TIMES_SPINS	100

/* Is no call of it being written? */
static bool jifl_times_is_whole(const struct jifl_times_row *row)
{
	return (u32)(row->calls + row->adopted - row->ended - row->jumped - row->died) ==
	       row->depth;
}

static struct jifl_times_row jifl_times_numbers(const struct jifl_times_row *from)
{
	return (struct jifl_times_row){
		.calls = READ_ONCE(from->calls), .ended = READ_ONCE(from->ended),
		.jumped = READ_ONCE(from->jumped), .depth = READ_ONCE(from->depth),
		.adopted = READ_ONCE(from->adopted), .strays = READ_ONCE(from->strays),
		.died = READ_ONCE(from->died),
	};
}

/*
 * The row as it is at one moment; and, if a call has not ended, with its time until now. For a task
 * that does not run that is `then`, so that all of these have the same time. ended: the session is,
 * since then.
 */
static bool jifl_times_try(const struct jifl_times *t, struct jifl_times_record *r, u32 i, u64 then,
			   bool ended, struct jifl_times_row *row, u64 *counted,
			   struct jifl_times_call *call)
{
	struct jifl_times_row *from = jifl_times_row(t, r, i);
	const u32 switches = READ_ONCE(r->switches);
	struct jifl_times_row again;
	u64 blocked, runnable, now;
	u32 k;

	smp_rmb();
	/* Waits that have ended since then are in the sums, and so are calls that have begun. */
	now = r->off || ended ? max(then, READ_ONCE(r->out)) : rdtsc();
	*row = jifl_times_numbers(from);
	smp_rmb();
	row->wall = READ_ONCE(from->wall) + (row->depth ? now : 0);
	jifl_times_was_off(r, now, &blocked, &runnable);
	row->blocked = READ_ONCE(from->blocked) + (row->depth ? r->blocked + blocked : 0);
	row->runnable = READ_ONCE(from->runnable) + (row->depth ? r->runnable + runnable : 0);
	for (k = 0; k < t->ncounters; k++)
		counted[k] = READ_ONCE(jifl_times_counted(from)[k]) +
			     (row->depth ? jifl_times_counter_off(t, r, k) +
					   jifl_times_number_told(t, r, k) : 0);
	if (call)
		memcpy(call, jifl_times_call(from), sizeof(*call));
	smp_rmb();
	again = jifl_times_numbers(from);
	smp_rmb();
	return !(switches & 1) && switches == READ_ONCE(r->switches) &&
	       jifl_times_is_whole(row) &&
	       !memcmp(&row->calls, &again.calls, sizeof(again) - offsetof(typeof(again), calls));
}

bool jifl_times_read(const struct jifl_times *t, struct jifl_times_record *r, u32 i,
		     u64 then, bool ended, struct jifl_times_row *row, u64 *counted,
		     struct jifl_times_call *call)
{
	u32 tries;

	for (tries = 0; tries < JIFL_TIMES_TRIES; tries++) {
		if (jifl_times_try(t, r, i, then, ended, row, counted, call))
			return true;
		if (tries < JIFL_TIMES_SPINS)
			cpu_relax();
		else
			usleep_range(50, 100);
	}
	row->wall = 0;
	row->blocked = 0;
	row->runnable = 0;
	memset(counted, 0, t->ncounters * sizeof(*counted));
	return false;
}

u64 jifl_times_ns(u64 ticks)
{
	/* A sum of differences between processors may be a little below 0. */
	if ((s64)ticks < 0)
		return 0;
	return mul_u64_u64_div_u64(ticks, NSEC_PER_MSEC, tsc_khz);
}

static void jifl_times_add_up(const struct jifl_times *t, u32 i, struct jifl_time *sum)
{
	const u64 end = READ_ONCE(t->end), then = end ?: rdtsc();
	u64 wall = 0, blocked = 0, runnable = 0;
	u64 counted[JIFL_COUNTERS_MAX];
	u32 n, k;

	memset(sum, 0, sizeof(*sum));
	sum->elapsed_ns = jifl_times_ns(then - t->begin);
	for (n = 0; n < (u32)atomic_read(&t->high); n++) {
		struct jifl_times_record *r = jifl_times_at(t, n);
		struct jifl_times_row row;

		if (!smp_load_acquire(&r->used))
			continue;
		jifl_times_read(t, r, i, then, end, &row, counted, NULL);
		for (k = 0; k < t->ncounters; k++)
			sum->counted[k] += counted[k];
		wall += row.wall;
		blocked += row.blocked;
		runnable += row.runnable;
		sum->calls += row.calls;
		sum->jumped += row.jumped;
		sum->strays += row.strays;
		sum->died += row.died;
		sum->adopted += row.adopted;
		sum->inside += row.depth;
	}
	for (k = 0; k < t->ncounters; k++)
		sum->counted[k] = jifl_times_counted_as(t, k, sum->counted[k]);
	sum->blocked_ns = jifl_times_ns(blocked);
	sum->runnable_ns = jifl_times_ns(runnable);
	sum->cpu_ns = jifl_times_ns(wall - blocked - runnable);
}

void jifl_times_sum(const struct jifl_times *t, u32 row, struct jifl_time *sum)
{
	u32 readings = 0;
	s64 buried;

	do {
		cond_resched();
		buried = atomic64_read_acquire(&t->buried);
		jifl_times_add_up(t, row, sum);
		smp_rmb();
	} while (buried != atomic64_read(&t->deaths) && ++readings < JIFL_TIMES_READINGS);
}
