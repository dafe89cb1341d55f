// SPDX-License-Identifier: GPL-2.0
/*
 * How values of calls are distributed, by powers of two: what programs ADD_UP, and how long calls
 * took. Each row has buckets for each such counter; with objects, each object.
 *
 * 1. All CPUs add to the same buckets, each value once, in one instruction with a lock. What the
 *    row has of the counter is the number of these values.
 * 2. Of a value of programs that is done where the call begins or ends, while it goes on. So it is
 *    about the object of that call.
 * 3. A time is known when the last of calls inside each other ends: what the row has more than when
 *    the first began (about.c). A call that had begun before the session has no such time, nor has
 *    one that ends with its task.
 * 4. Nothing is added when the session has ended: then no call has a record that is read
 *    (jifl_times_freeze).
 *
 * Contexts: adding: any, interrupts off; the others sleep.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/overflow.h>
#include <linux/vmalloc.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../session/session.h"
#include "../../store/answer.h"
#include "../probe/probe.h"
#include "times.h"

static atomic64_t *jifl_times_buckets(const struct jifl_times *t, u64 cell, u32 distribution)
{
	return t->buckets + (cell * t->ndistributions + distribution) * JIFL_GROUP_BUCKETS;
}

void jifl_times_distribute(const struct jifl_times *t, u32 counter, u64 cell, u64 value,
			   bool is_below)
{
	u32 bucket = is_below ? JIFL_GROUP_NEGATIVE : fls64(value);

	/* What is about nothing is in a sink. */
	if (cell >= t->ncells)
		return;
	if (JIFL_HOST_PLANTED(distribution_flat))
		bucket = 0;
	atomic64_inc(jifl_times_buckets(t, cell, t->counters[counter].distribution) + bucket);
}

/* The time of this kind that the call took, in ticks. */
static u64 jifl_times_took(u32 of, const struct jifl_times_row *row,
			   const struct jifl_times_call *call)
{
	const u64 wall = row->wall - call->wall;
	const u64 blocked = row->blocked - call->blocked;
	const u64 runnable = row->runnable - call->runnable;

	switch (of) {
	case JIFL_DISTRIBUTION_WALL:
		return wall;
	case JIFL_DISTRIBUTION_BLOCKED:
		return blocked;
	case JIFL_DISTRIBUTION_RUNNABLE:
		return runnable;
	default:
		return wall - blocked - runnable;
	}
}

void jifl_times_distribute_call(const struct jifl_times *t, struct jifl_times_row *row)
{
	const struct jifl_times_call *call = jifl_times_call(row);
	u32 i;

	for (i = 0; !call->is_late && i < t->ncounters; i++) {
		const struct jifl_times_counter *c = &t->counters[i];

		if (!c->is_distribution || c->is_value)
			continue;
		jifl_times_inc(jifl_times_counted(row)[i]);
		jifl_times_distribute(t, i, call->object,
				      jifl_times_ns(jifl_times_took(c->of, row, call)), false);
	}
}

/* --- reading --------------------------------------------------------------------------------- */

static const struct jifl_times *jifl_times_of_table(const void *table)
{
	const struct jifl_probe *p = table;

	return p->times;
}

static u32 jifl_times_distributions_end(const void *table)
{
	const struct jifl_times *t = jifl_times_of_table(table);

	return (t->objects ? jifl_times_objects_told(t) : t->nrows) * t->ndistributions;
}

static void jifl_times_distributions_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_times *t = jifl_times_of_table(table);
	const u32 cell = i / t->ndistributions, distribution = i % t->ndistributions;
	const atomic64_t *buckets = jifl_times_buckets(t, cell, distribution);
	struct jifl_distribution *d = answer;
	u32 k;

	for (k = 0; t->counters[k].distribution != distribution ||
		    !t->counters[k].is_distribution; k++)
		;
	d->row = cell;
	d->counter = k;
	for (k = 0; k < JIFL_GROUP_BUCKETS; k++)
		d->bucket[k] = atomic64_read(&buckets[k]);
}

static void jifl_times_distributions_rest(const void *table, struct jifl_table_read *req)
{
}

static_assert(sizeof(struct jifl_distribution) <= JIFL_ANSWER_MAX);
const struct jifl_answer jifl_times_distributions_answer = {
	.size = sizeof(struct jifl_distribution),
	.end = jifl_times_distributions_end,
	.fill = jifl_times_distributions_fill,
	.rest = jifl_times_distributions_rest,
};

/* --- opening and closing --------------------------------------------------------------------- */

bool jifl_times_has_took(const struct jifl_session *s)
{
	u32 i;

	for (i = 0; i < s->nmeters; i++)
		if (s->meters[i].kind == JIFL_COUNTER_DISTRIBUTION &&
		    s->meters[i].type != JIFL_DISTRIBUTION_VALUE)
			return true;
	return false;
}

int jifl_times_open_distribution(struct jifl_times *t, struct jifl_times_counter *c,
				 const struct jifl_counter *asked)
{
	if (asked->type >= JIFL_DISTRIBUTIONS)
		return -ENXIO;
	c->is_distribution = true;
	c->of = asked->type;
	c->distribution = t->ndistributions++;
	c->is_value = asked->type == JIFL_DISTRIBUTION_VALUE;
	t->has_values |= c->is_value;
	return 0;
}

int jifl_times_open_distributions(struct jifl_times *t)
{
	const size_t n = array3_size(JIFL_GROUP_BUCKETS * sizeof(atomic64_t), t->ndistributions,
				     t->objects ? jifl_times_objects_room(t) : t->nrows);

	if (!t->ndistributions)
		return 0;
	t->buckets = JIFL_ALLOC(__vmalloc(n, GFP_KERNEL | __GFP_ZERO | __GFP_RETRY_MAYFAIL |
					  __GFP_NOWARN));
	if (!t->buckets)
		return -ENOMEM;
	t->ncells = t->objects ? jifl_times_objects_room(t) : t->nrows;
	return 0;
}

void jifl_times_close_distributions(struct jifl_times *t)
{
	vfree(t->buckets);
}
