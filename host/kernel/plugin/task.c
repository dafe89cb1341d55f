// SPDX-License-Identifier: GPL-2.0
/*
 * Storage of tasks for plugins: a hash table from tasks to places. All places are allocated at the
 * beginning.
 *
 * A search takes no lock. Only the task itself takes a place. The place becomes free when the
 * kernel frees the task, after the task has run for the last time. So a place found for an existing
 * task is its own. Other places may leave a list, and enter another, while the list is walked. Then
 * the walk may go astray and find nothing, so it is repeated under the lock, which is a leaf.
 *
 * The tracepoint sched_process_free reports freed tasks, from RCU's callbacks.
 *
 * Context: init, drain and release sleep; the others: any but NMI.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../store/percpu.h"
#include "plugin.h"

#define JIFL_TASK_MAX	(1u << 20)	/* a mistake is refused, not allocated */
/* Maximum of places in a walk without the lock: more than lists commonly have. */
#define JIFL_TASK_STEPS	16

struct jifl_task_place {
	const struct task_struct *task;	/* NULL: free */
	u32 next;		/* in its bucket, or in the free list: index + 1 */
	u32 reserved;
	char data[];
};
static_assert(sizeof(struct jifl_task_place) == 16, "what is behind it is aligned");

struct jifl_task_table {
	raw_spinlock_t lock;	/* lists */
	u32 max, bits;		/* places; buckets, log 2 */
	u32 free;		/* the first: index + 1 */
	size_t size, stride;
	task_gone gone;		/* or NULL */
	u32 *buckets;		/* heads of lists: index + 1 */
	char *places;
};

static struct tracepoint *jifl_task_tracepoint;	/* sched_process_free; NULL: there is none */

static struct jifl_task_place *jifl_task_at(const struct jifl_task_table *t, u32 i)
{
	return (struct jifl_task_place *)(t->places + i * t->stride);
}

static u32 *jifl_task_bucket(const struct jifl_task_table *t, const struct task_struct *task)
{
	return &t->buckets[hash_ptr(task, t->bits)];
}

/*
 * What is called for it is the module's own: a function with a door whose analysis function asks
 * for storage, too, would wait for itself.
 */
static unsigned long jifl_task_lock(struct jifl_task_table *t)
{
	const unsigned long flags = jifl_own_irq_save();

	raw_spin_lock(&t->lock);
	return flags;
}

static void jifl_task_unlock(struct jifl_task_table *t, unsigned long flags)
{
	raw_spin_unlock(&t->lock);
	jifl_own_irq_restore(flags);
}

/* --- finding ----------------------------------------------------------------------------- */

/* The task's place, if it is among the first `steps` of its list, and its link; or NULL. */
static struct jifl_task_place *jifl_task_walk(const struct jifl_task_table *t,
					      const struct task_struct *task, u32 steps, u32 **link)
{
	struct jifl_task_place *place;
	u32 at;

	for (*link = jifl_task_bucket(t, task); steps; steps--, *link = &place->next) {
		/* Pairs with the release in jifl_task_take. */
		at = smp_load_acquire(*link);
		if (!at)
			return NULL;
		place = jifl_task_at(t, at - 1);
		if (READ_ONCE(place->task) == task)
			return place;
	}
	return NULL;
}

/* Searches without the lock; NULL: search under it. */
static struct jifl_task_place *jifl_task_find(const struct jifl_task_table *t,
					      const struct task_struct *task)
{
	u32 *link;

	return jifl_task_walk(t, task, JIFL_TASK_STEPS, &link);
}

static struct jifl_task_place *jifl_task_find_locked(const struct jifl_task_table *t,
						     const struct task_struct *task)
{
	u32 *link;

	return jifl_task_walk(t, task, t->max, &link);
}

/* Takes a free place for a task without one, or returns NULL. Under the lock. */
static struct jifl_task_place *jifl_task_take(struct jifl_task_table *t,
					      const struct task_struct *task)
{
	u32 *bucket = jifl_task_bucket(t, task), at = t->free;
	struct jifl_task_place *place;

	if (!at)
		return NULL;
	place = jifl_task_at(t, at - 1);
	t->free = place->next;
	memset(place->data, 0, t->size);
	WRITE_ONCE(place->task, task);
	WRITE_ONCE(place->next, *bucket);
	/* Pairs with the acquires of walks. */
	smp_store_release(bucket, at);
	return place;
}

void *jifl_task_storage(task_storage_t *s)
{
	struct jifl_task_table *t = s->table;
	struct jifl_task_place *place = t ? jifl_task_find(t, current) : NULL;
	unsigned long flags;

	if (place || !t)
		return place ? place->data : NULL;
	flags = jifl_task_lock(t);
	place = jifl_task_find_locked(t, current) ?: jifl_task_take(t, current);
	jifl_task_unlock(t, flags);
	if (place)
		return place->data;
	atomic64_inc(&s->store.refused);
	return NULL;
}
EXPORT_SYMBOL_GPL(jifl_task_storage);

void *jifl_task_storage_of(task_storage_t *s, const struct task_struct *task)
{
	struct jifl_task_table *t = s->table;
	struct jifl_task_place *place;
	unsigned long flags;

	if (!t || !task)
		return NULL;
	place = jifl_task_find(t, task);
	if (place)
		return place->data;
	flags = jifl_task_lock(t);
	place = jifl_task_find_locked(t, task);
	jifl_task_unlock(t, flags);
	return place ? place->data : NULL;
}
EXPORT_SYMBOL_GPL(jifl_task_storage_of);

/* --- giving back --------------------------------------------------------------------------- */

/* Takes the task's place off its list, so that only one caller gets it; NULL: none. */
static struct jifl_task_place *jifl_task_unlink(struct jifl_task_table *t,
						const struct task_struct *task)
{
	struct jifl_task_place *place;
	unsigned long flags;
	u32 *link;

	flags = jifl_task_lock(t);
	place = jifl_task_walk(t, task, t->max, &link);
	if (place)
		WRITE_ONCE(*link, place->next);
	jifl_task_unlock(t, flags);
	return place;
}

static void jifl_task_give_back(struct jifl_task_table *t, struct jifl_task_place *place)
{
	unsigned long flags;

	flags = jifl_task_lock(t);
	WRITE_ONCE(place->task, NULL);
	WRITE_ONCE(place->next, t->free);
	t->free = ((char *)place - t->places) / t->stride + 1;
	jifl_task_unlock(t, flags);
}

static void jifl_task_end(struct jifl_task_table *t, const struct task_struct *task)
{
	struct jifl_task_place *place = jifl_task_unlink(t, task);

	if (!place)
		return;
	if (t->gone)
		t->gone(place->data);
	jifl_task_give_back(t, place);
}

/* The probe of sched_process_free; data: the table. */
static void jifl_task_freed(void *data, struct task_struct *task)
{
	if (!JIFL_HOST_PLANTED(tasks_kept))
		jifl_task_end(data, task);
}

int jifl_task_storage_drain(struct jifl_plugin *p, task_storage_t *s)
{
	int ret = jifl_store_check_made(p, s ? &s->store : NULL, "task_storage_drain");
	const struct task_struct *task;
	u32 i;

	for (i = 0; !ret && i < s->table->max; i++) {
		task = READ_ONCE(jifl_task_at(s->table, i)->task);
		if (task)
			jifl_task_end(s->table, task);
	}
	/* Waits until gone has been called for tasks that were freed at the same time. */
	if (!ret)
		tracepoint_synchronize_unregister();
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_task_storage_drain);

/* --- making ---------------------------------------------------------------------------------- */

static void jifl_task_table_free(struct jifl_task_table *t)
{
	if (!t)
		return;
	vfree(t->places);
	vfree(t->buckets);
	vfree(t);
}

static void jifl_task_release(struct jifl_store *store)
{
	task_storage_t *s = container_of(store, task_storage_t, store);

	if (s->table) {
		tracepoint_probe_unregister(jifl_task_tracepoint, (void *)jifl_task_freed,
					    s->table);
		tracepoint_synchronize_unregister();
	}
	jifl_task_table_free(s->table);
	s->table = NULL;
}

static const struct jifl_store_type jifl_task_type = {
	.name = "storage of tasks",
	.release = jifl_task_release,
};

static struct jifl_task_table *jifl_task_table_alloc(size_t size, u32 max, task_gone gone)
{
	struct jifl_task_table *t = jifl_store_alloc(sizeof(*t));
	u32 i;

	if (!t)
		return NULL;
	raw_spin_lock_init(&t->lock);
	t->max = max;
	t->bits = ilog2(roundup_pow_of_two(max + 1));
	t->size = size;
	t->stride = ALIGN(sizeof(struct jifl_task_place) + size, 16);
	t->gone = gone;
	t->buckets = jifl_store_alloc(sizeof(u32) << t->bits);
	t->places = jifl_store_alloc(array_size(max, t->stride));
	if (!t->buckets || !t->places) {
		jifl_task_table_free(t);
		return NULL;
	}
	for (i = 0; i < max - 1; i++)
		jifl_task_at(t, i)->next = i + 2;
	t->free = 1;
	return t;
}

static int jifl_task_make(task_storage_t *s, size_t size, u32 max, task_gone gone)
{
	struct jifl_task_table *t;
	int ret;

	if (!jifl_task_tracepoint)
		return -EOPNOTSUPP;
	t = jifl_task_table_alloc(size, max, gone);
	if (!t)
		return -ENOMEM;
	ret = JIFL_TRY(tracepoint_probe_register(jifl_task_tracepoint, (void *)jifl_task_freed, t));
	if (ret)
		jifl_task_table_free(t);
	else
		s->table = t;
	return ret;
}

int jifl_task_storage_init(struct jifl_plugin *p, task_storage_t *s, size_t size, unsigned int max,
			   task_gone gone)
{
	static const char what[] = "task_storage_init";
	int ret = jifl_store_check(p, s ? &s->store : NULL, what);

	if (ret)
		return ret;
	if (!size || size > TASK_STORAGE_SIZE_MAX)
		return jifl_plugin_mistake(p, -EINVAL, what, "storage of no size that can be");
	if (!max || max > JIFL_TASK_MAX)
		return jifl_plugin_mistake(p, -EINVAL, what, "a number of tasks that cannot be");
	ret = jifl_store_add(p, &s->store, &jifl_task_type, what);
	if (ret)
		return ret;
	ret = jifl_task_make(s, size, max, gone);
	if (ret)
		jifl_store_remove(&s->store);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_task_storage_init);

void jifl_task_init(void)
{
	jifl_task_tracepoint = jifl_compat_tracepoint("sched_process_free");
}
