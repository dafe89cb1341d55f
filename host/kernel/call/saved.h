/* SPDX-License-Identifier: GPL-2.0 */
/* The lanes of tasks that do not run. */
#ifndef JIFL_HOST_SAVED_H
#define JIFL_HOST_SAVED_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/types.h>
#include "../plant.h"
#include "../store/percpu.h"

struct task_struct;

/* A lane's count means nothing where its call is 0. */
struct jifl_saved {
	struct jifl_lane lanes[JIFL_LANES];
};

#define JIFL_SAVED_BITS		14
#define JIFL_SAVED_WINDOW	16
#define JIFL_SAVED_PLACES	((1u << JIFL_SAVED_BITS) + JIFL_SAVED_WINDOW)

/* By place. The tasks are apart from the values, so that a search reads two cache lines. */
extern struct task_struct **jifl_saved_task;
extern struct jifl_saved *jifl_saved_value;
extern atomic_t *jifl_saved_count;	/* by hash */

int jifl_saved_init(void);
void jifl_saved_exit(void);

static inline u32 jifl_saved_hash(const struct task_struct *t)
{
	return hash_ptr(t, JIFL_SAVED_BITS);
}

/* False: the task has no record. It does not run, or is about to be switched in here. */
static inline bool jifl_saved_may_have(const struct task_struct *t)
{
	const u32 hash = jifl_saved_hash(t);

	return atomic_read(&jifl_saved_count[hash]) &&
	       (hash & 1 || !JIFL_HOST_PLANTED(saved_uncounted));
}

static inline bool jifl_saved_is_empty(const struct jifl_saved *v)
{
	u64 any = 0;
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		any |= v->lanes[lane].call;
	return !any;
}

/*
 * What changes the record of a task is called where it is switched away, where it is switched in,
 * or with the machine stopped.
 */
/* Makes the task's record. False: there is no place. */
bool jifl_saved_try(struct task_struct *t, const struct jifl_saved *v);
/* Takes the task's record away, into *v, which stays as it was if there is none. */
void jifl_saved_take(struct task_struct *t, struct jifl_saved *v);
/* Takes away the record of the task in that place. */
void jifl_saved_free(u32 at, const struct task_struct *t);
/* The task's record; NULL: it has none. */
struct jifl_saved *jifl_saved_find(const struct task_struct *t);

#endif
