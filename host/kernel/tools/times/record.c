// SPDX-License-Identifier: GPL-2.0
/*
 * Records of tasks, and where they are found. A hash table with open addressing, as call/switch.c
 * has it: a task's place is one of JIFL_TIMES_WINDOW from its hash on.
 *
 * 1. A record is made by the CPU that switches its task in, or for the task that runs on it, or
 *    with the machine stopped. It is buried by the CPU that switches its task away for the last
 *    time. So of one task only one CPU does either at a time, and nobody is in a change of a record
 *    that is buried.
 * 2. Others search without a lock: who wakes a task. A place has the task's address when its index
 *    is written. A task whose record is being buried does not sleep, so nobody wakes it.
 * 3. A buried record's rows are added to those of the CPU's dead. The records of the dead have one
 *    writer, which has interrupts off.
 * 4. The rows of a free record are 0, but for struct jifl_times_call.
 *
 * Context: interrupts are off, but for opening and closing; a run queue may be locked.
 */
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "times.h"

/* Tasks may come while a session runs; what is kept of all is bounded. */
#define JIFL_TIMES_MORE		2048
#define JIFL_TIMES_LEAST	256
#define JIFL_TIMES_BYTES	(64ul << 20)
#define JIFL_TIMES_WINDOW	16

/* In a place whose index is not written yet. */
#define JIFL_TIMES_TAKEN	((const struct task_struct *)1)

/* --- free records --------------------------------------------------------------------------- */

static struct jifl_times_record *jifl_times_take(struct jifl_times *t)
{
	u64 old = atomic64_read(&t->free), new;
	struct jifl_times_record *r;

	do {
		if (!(u32)old)
			return NULL;
		r = jifl_times_at(t, (u32)old - 1);
		new = ((old >> 32) + 1) << 32 | READ_ONCE(r->next);
	} while (!atomic64_try_cmpxchg(&t->free, (s64 *)&old, new));
	return r;
}

static u32 jifl_times_index(const struct jifl_times *t, const struct jifl_times_record *r)
{
	return ((char *)r - t->records) / t->stride;
}

static void jifl_times_give_back(struct jifl_times *t, struct jifl_times_record *r)
{
	u64 old = atomic64_read(&t->free), new;

	do {
		WRITE_ONCE(r->next, (u32)old);
		new = ((old >> 32) + 1) << 32 | (jifl_times_index(t, r) + 1);
	} while (!atomic64_try_cmpxchg(&t->free, (s64 *)&old, new));
}

/* --- records by task ------------------------------------------------------------------------ */

/* The place of a task in the table; negative: it has none. */
static long jifl_times_find(const struct jifl_times *t, const struct task_struct *task)
{
	u32 at = hash_ptr(task, t->bits);
	const u32 end = at + JIFL_TIMES_WINDOW;

	for (; at < end; at++)
		if (READ_ONCE(t->tasks[at]) == task)
			return at;
	return -1;
}

struct jifl_times_record *jifl_times_of(const struct jifl_times *t,
					const struct task_struct *task)
{
	const long at = jifl_times_find(t, task);

	/* On x86 the index is seen that was written before the task. */
	return at < 0 ? NULL : jifl_times_at(t, READ_ONCE(t->indices[at]));
}

static void jifl_times_raise(struct jifl_times *t, u32 index)
{
	int high = atomic_read(&t->high);

	while (high <= (int)index && !atomic_try_cmpxchg(&t->high, &high, index + 1))
		;
}

static bool jifl_times_take_place(struct jifl_times *t, u32 at)
{
	return !READ_ONCE(t->tasks[at]) && !cmpxchg(&t->tasks[at], NULL, JIFL_TIMES_TAKEN);
}

struct jifl_times_record *jifl_times_make(struct jifl_times *t, const struct task_struct *task)
{
	struct jifl_times_record *r = jifl_times_take(t);
	u32 at = hash_ptr(task, t->bits);
	const u32 end = at + JIFL_TIMES_WINDOW;

	for (; r && at < end; at++) {
		if (!jifl_times_take_place(t, at))
			continue;
		memset(r, 0, t->marks ? t->stride : sizeof(*r));
		r->task = task;
		t->indices[at] = jifl_times_index(t, r);
		jifl_times_raise(t, t->indices[at]);
		smp_store_release(&r->used, 1);
		smp_store_release(&t->tasks[at], task);
		return r;
	}
	if (r)
		jifl_times_give_back(t, r);
	atomic64_inc(&t->refused);
	return NULL;
}

static bool jifl_times_is_used(const struct jifl_times_row *row)
{
	return row->calls || row->adopted || row->strays;
}

/* The row goes to the dead. Without its depth it is not whole for who reads meanwhile (sum.c). */
static void jifl_times_bury_row(const struct jifl_times *t, const struct jifl_times_record *r,
				struct jifl_times_row *row, struct jifl_times_row *to, u64 now)
{
	const u32 depth = row->depth;
	u32 i;

	WRITE_ONCE(row->depth, 0);
	smp_wmb();
	if (depth) {
		row->wall += now;
		row->blocked += r->blocked;
		row->runnable += r->runnable;
	}
	for (i = 0; depth && i < t->ncounters; i++)
		jifl_times_counted(row)[i] += jifl_times_counter_of(t, r, i);
	if (depth && t->objects)
		jifl_times_end_about(t, row, depth);
	for (i = 0; i < t->ncounters; i++) {
		jifl_times_counted(to)[i] += jifl_times_counted(row)[i];
		jifl_times_counted(row)[i] = 0;
	}
	to->wall += row->wall;
	to->blocked += row->blocked;
	to->runnable += row->runnable;
	to->calls += row->calls;
	to->ended += row->ended;
	to->jumped += row->jumped;
	to->strays += row->strays;
	to->adopted += row->adopted;
	to->died += depth;
	*row = (struct jifl_times_row){};
}

void jifl_times_bury(struct jifl_times *t, struct jifl_times_record *r,
		     struct jifl_times_record *dead, u64 now)
{
	const long at = jifl_times_find(t, r->task);
	bool any = false;
	u32 i;

	for (i = 0; i < t->nrows; i++) {
		if (!jifl_times_is_used(jifl_times_row(t, r, i)))
			continue;
		if (!any)
			atomic64_inc(&t->deaths);
		any = true;
		smp_mb__after_atomic();
		jifl_times_bury_row(t, r, jifl_times_row(t, r, i), jifl_times_row(t, dead, i),
				    now);
	}
	WRITE_ONCE(r->used, 0);
	smp_mb__before_atomic();
	if (any)
		atomic64_inc(&t->buried);
	r->task = NULL;
	if (at >= 0)
		smp_store_release(&t->tasks[at], NULL);
	jifl_times_give_back(t, r);
}

/* --- opening and closing -------------------------------------------------------------------- */

static void *jifl_times_room(size_t n, size_t size)
{
	return JIFL_ALLOC(__vmalloc(array_size(n, size), GFP_KERNEL | __GFP_ZERO |
				    __GFP_RETRY_MAYFAIL | __GFP_NOWARN));
}

/* How many tasks have room. */
static u32 jifl_times_tasks(const struct jifl_times *t)
{
	struct task_struct *group, *task;
	u32 n = JIFL_TIMES_MORE;

	rcu_read_lock();
	for_each_process_thread(group, task)
		n++;
	rcu_read_unlock();
	return clamp_t(u32, JIFL_TIMES_BYTES / t->stride, JIFL_TIMES_LEAST, n);
}

int jifl_times_open_records(struct jifl_times *t)
{
	const u32 own = num_possible_cpus() * JIFL_TIMES_OWN;
	size_t places;
	u32 n, i;

	t->width = t->ncounters ? JIFL_TIMES_WIDE : sizeof(struct jifl_times_row);
	if (t->keeps)
		t->width = JIFL_TIMES_WIDER;
	t->stride = sizeof(struct jifl_times_record) + t->nrows * t->width;
	n = jifl_times_tasks(t);
	t->nrecords = own + n;
	t->bits = ilog2(roundup_pow_of_two(4 * n));
	places = (1ul << t->bits) + JIFL_TIMES_WINDOW;
	t->records = jifl_times_room(t->nrecords, t->stride);
	t->tasks = jifl_times_room(places, sizeof(*t->tasks));
	t->indices = jifl_times_room(places, sizeof(*t->indices));
	if (!t->records || !t->tasks || !t->indices)
		return -ENOMEM;
	for (i = own; i < t->nrecords - 1; i++)
		jifl_times_at(t, i)->next = i + 2;
	atomic64_set(&t->free, own + 1);
	atomic_set(&t->high, own);
	return 0;
}

void jifl_times_close_records(struct jifl_times *t)
{
	vfree(t->indices);
	vfree(t->tasks);
	vfree(t->records);
}
