// SPDX-License-Identifier: GPL-2.0
/*
 * A hash table with open addressing: a task's record is in one of the JIFL_SAVED_WINDOW places from
 * its hash on. Only the CPU that switches a task away writes its record. Only the CPU that switches
 * the task in again removes it. The scheduler orders the two, so a search needs no lock, and to
 * take a place needs one cmpxchg.
 *
 * Most tasks have no record. That is known by one load: of each hash the records are counted. A
 * record is counted before its place is taken, and until its place is free. So the CPU that
 * switches a task in finds the task's own record counted. What others change in the same number
 * meanwhile only has it search in vain.
 *
 * Context: a run queue is locked, or the machine is stopped; jifl_saved_find: it is not known
 * whether the record stays.
 */
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "saved.h"

struct task_struct **jifl_saved_task;
struct jifl_saved *jifl_saved_value;
atomic_t *jifl_saved_count;

bool jifl_saved_try(struct task_struct *t, const struct jifl_saved *v)
{
	const u32 hash = jifl_saved_hash(t);
	u32 at;

	atomic_inc(&jifl_saved_count[hash]);
	for (at = hash; at < hash + JIFL_SAVED_WINDOW; at++) {
		if (READ_ONCE(jifl_saved_task[at]) || cmpxchg(&jifl_saved_task[at], NULL, t))
			continue;
		jifl_saved_value[at] = *v;
		return true;
	}
	atomic_dec(&jifl_saved_count[hash]);
	return false;
}

void jifl_saved_free(u32 at, const struct task_struct *t)
{
	/* Pairs with the next owner's cmpxchg: it writes only after what was read here. */
	smp_store_release(&jifl_saved_task[at], NULL);
	atomic_dec(&jifl_saved_count[jifl_saved_hash(t)]);
}

static u32 jifl_saved_place(const struct task_struct *t)
{
	u32 at = jifl_saved_hash(t);
	const u32 end = at + JIFL_SAVED_WINDOW;

	while (at < end && READ_ONCE(jifl_saved_task[at]) != t)
		at++;
	return at < end ? at : JIFL_SAVED_PLACES;
}

void jifl_saved_take(struct task_struct *t, struct jifl_saved *v)
{
	const u32 at = jifl_saved_may_have(t) ? jifl_saved_place(t) : JIFL_SAVED_PLACES;

	if (at == JIFL_SAVED_PLACES)
		return;
	*v = jifl_saved_value[at];
	jifl_saved_free(at, t);
}

struct jifl_saved *jifl_saved_find(const struct task_struct *t)
{
	const u32 at = jifl_saved_place(t);

	return at < JIFL_SAVED_PLACES ? &jifl_saved_value[at] : NULL;
}

int jifl_saved_init(void)
{
	jifl_saved_task = JIFL_ALLOC(vcalloc(JIFL_SAVED_PLACES, sizeof(*jifl_saved_task)));
	jifl_saved_value = JIFL_ALLOC(vcalloc(JIFL_SAVED_PLACES, sizeof(*jifl_saved_value)));
	jifl_saved_count = JIFL_ALLOC(vcalloc(1u << JIFL_SAVED_BITS, sizeof(*jifl_saved_count)));
	return jifl_saved_task && jifl_saved_value && jifl_saved_count ? 0 : -ENOMEM;
}

void jifl_saved_exit(void)
{
	vfree(jifl_saved_count);
	vfree(jifl_saved_value);
	vfree(jifl_saved_task);
	jifl_saved_count = NULL;
	jifl_saved_value = NULL;
	jifl_saved_task = NULL;
}
