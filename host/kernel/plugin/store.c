// SPDX-License-Identifier: GPL-2.0
/*
 * Objects that plugins make while they are started (include/jifl_store.h). Each plugin has a list
 * of them, so that all are freed at the end. This file has the objects that need only memory: heaps
 * and storage of CPUs. task.c, ring.c and queue.c have the others.
 *
 * Locks: jifl_store_mutex, a leaf. Objects leave a plugin's list only under jifl_plugin_mutex.
 */
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "../plant.h"
#include "plugin.h"

static DEFINE_MUTEX(jifl_store_mutex);	/* lists, type of each */

void *jifl_store_alloc(size_t size)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | __GFP_RETRY_MAYFAIL;

	return JIFL_ALLOC(__vmalloc(size, gfp));
}

int jifl_store_check(struct jifl_plugin *p, const struct jifl_store *s, const char *what)
{
	if (!preemptible())
		return jifl_plugin_mistake(p, -EPERM, what, "not in process context");
	if (!s)
		return jifl_plugin_mistake(p, -EINVAL, what, "NULL");
	if (!jifl_plugin_is_started(p))
		return jifl_plugin_mistake(p, -EPERM, what, "the plugin is not started");
	return 0;
}

int jifl_store_check_made(struct jifl_plugin *p, const struct jifl_store *s, const char *what)
{
	int ret = jifl_store_check(p, s, what);

	if (!ret && !s->type)
		ret = jifl_plugin_mistake(p, -EINVAL, what, "it has not been made");
	return ret;
}

/* True if s has been made already, or another object of a type of which p may have only one. */
static bool jifl_store_is_taken(const struct jifl_plugin *p, const struct jifl_store *s,
				const struct jifl_store_type *type)
{
	const struct jifl_store *other;

	if (s->type)
		return true;
	list_for_each_entry(other, &p->stores, list)
		if (other->type == type && type->single)
			return true;
	return false;
}

int jifl_store_add(struct jifl_plugin *p, struct jifl_store *s, const struct jifl_store_type *type,
		   const char *what)
{
	int ret = -EBUSY;

	mutex_lock(&jifl_store_mutex);
	if (!jifl_store_is_taken(p, s, type)) {
		atomic64_set(&s->refused, 0);
		s->type = type;
		list_add_tail(&s->list, &p->stores);
		ret = 0;
	}
	mutex_unlock(&jifl_store_mutex);
	return ret ? jifl_plugin_mistake(p, ret, what,
					 "it has been made already, or as many as can be") : 0;
}

/* Under jifl_plugin_mutex, or before s can be found. */
void jifl_store_remove(struct jifl_store *s)
{
	mutex_lock(&jifl_store_mutex);
	list_del(&s->list);
	mutex_unlock(&jifl_store_mutex);
	s->type->release(s);
	s->type = NULL;
}

struct jifl_store *jifl_store_find(struct jifl_plugin *p, const struct jifl_store_type *type)
{
	struct jifl_store *s, *found = NULL;

	mutex_lock(&jifl_store_mutex);
	list_for_each_entry(s, &p->stores, list)
		if (s->type == type)
			found = s;
	mutex_unlock(&jifl_store_mutex);
	return found;
}

void jifl_store_log_refused(struct jifl_plugin *p)
{
	const struct jifl_store *s;

	list_for_each_entry(s, &p->stores, list) {
		u64 refused = s->type->refused ? s->type->refused(s) : atomic64_read(&s->refused);

		if (refused)
			pr_warn("plugin %s: %s: %llu times there was no room\n", p->name,
				s->type->name, refused);
	}
}

void jifl_store_release(struct jifl_plugin *p, bool all)
{
	struct jifl_store *s, *next;

	list_for_each_entry_safe(s, next, &p->stores, list)
		if (all || !s->type->outlives)
			jifl_store_remove(s);
}

/* --- heaps ----------------------------------------------------------------------------- */

#define JIFL_HEAP_ALIGN	16

static void jifl_heap_release(struct jifl_store *s)
{
	heap_t *h = container_of(s, heap_t, store);

	vfree(h->memory);
	h->memory = NULL;
	h->size = 0;
}

static const struct jifl_store_type jifl_heap_type = {
	.name = "heap",
	.release = jifl_heap_release,
};

int jifl_heap_init(struct jifl_plugin *p, heap_t *h, size_t bytes)
{
	static const char what[] = "heap_init";
	int ret = jifl_store_check(p, h ? &h->store : NULL, what);
	const size_t size = ALIGN(bytes, JIFL_HEAP_ALIGN);

	if (ret)
		return ret;
	if (!bytes || size < bytes)
		return jifl_plugin_mistake(p, -EINVAL, what, "a heap of no size that can be");
	ret = jifl_store_add(p, &h->store, &jifl_heap_type, what);
	if (ret)
		return ret;
	atomic64_set(&h->used, 0);
	h->memory = jifl_store_alloc(size);
	if (h->memory) {
		h->size = size;
		return 0;
	}
	jifl_store_remove(&h->store);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(jifl_heap_init);

void *jifl_heap_alloc(heap_t *h, size_t size)
{
	s64 used = atomic64_read(&h->used);

	do {
		if (!size || used > h->size || size > h->size - used) {
			atomic64_inc(&h->store.refused);
			return NULL;
		}
	} while (!atomic64_try_cmpxchg(&h->used, &used, ALIGN(used + size, JIFL_HEAP_ALIGN)));
	return h->memory + used;
}
EXPORT_SYMBOL_GPL(jifl_heap_alloc);

int jifl_heap_reset(struct jifl_plugin *p, heap_t *h)
{
	int ret = jifl_store_check_made(p, h ? &h->store : NULL, "heap_reset");

	if (ret)
		return ret;
	memset(h->memory, 0, heap_used(h));
	atomic64_set(&h->used, 0);
	return 0;
}
EXPORT_SYMBOL_GPL(jifl_heap_reset);

/* --- storage of CPUs --------------------------------------------------------------------- */

static void jifl_cpu_storage_release(struct jifl_store *s)
{
	cpu_storage_t *c = container_of(s, cpu_storage_t, store);

	vfree(c->memory);
	c->memory = NULL;
}

static const struct jifl_store_type jifl_cpu_storage_type = {
	.name = "storage of CPUs",
	.release = jifl_cpu_storage_release,
};

int jifl_cpu_storage_init(struct jifl_plugin *p, cpu_storage_t *s, size_t size)
{
	static const char what[] = "cpu_storage_init";
	int ret = jifl_store_check(p, s ? &s->store : NULL, what);

	if (ret)
		return ret;
	if (!size || size > SSIZE_MAX)
		return jifl_plugin_mistake(p, -EINVAL, what, "storage of no size that can be");
	ret = jifl_store_add(p, &s->store, &jifl_cpu_storage_type, what);
	if (ret)
		return ret;
	s->stride = ALIGN(size, SMP_CACHE_BYTES);
	s->memory = jifl_store_alloc(array_size(nr_cpu_ids, s->stride));
	if (s->memory)
		return 0;
	jifl_store_remove(&s->store);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(jifl_cpu_storage_init);
