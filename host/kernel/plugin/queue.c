// SPDX-License-Identifier: GPL-2.0
/*
 * Queues for plugins: bounded, with any number of writers and readers, in any context. Each place
 * has a turn: the number of the put or take that may use it next. A writer or reader counts its end
 * up by a compare-and-exchange, and then owns the place (D. Vyukov, "Bounded MPMC queue",
 * 1024cores.net).
 *
 * Interrupts are off from the count to the turn. Otherwise a writer that is preempted between them
 * would make the queue look empty to all readers, although others have put records in.
 */
#include <linux/cache.h>
#include <linux/irqflags.h>
#include <linux/log2.h>
#include <linux/overflow.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "plugin.h"

#define JIFL_QUEUE_MAX	(1u << 24)	/* records; a mistake is refused, not allocated */

struct jifl_queue_end {
	atomic64_t at;			/* ever */
} ____cacheline_aligned;

struct jifl_queue_ends {
	struct jifl_queue_end put, take;
};

/* Turn of place i of n: i + n * k before the k-th put, one more before the k-th take. */
struct jifl_queue_place {
	u64 turn;
	char record[];
};

static struct jifl_queue_place *jifl_queue_place(const jifl_queue_t *q, u64 at)
{
	return (struct jifl_queue_place *)(q->memory + (at & (q->n - 1)) * q->stride);
}

/*
 * Takes the next place at *end if its turn has come, which is `later` turns after its number;
 * otherwise NULL. *at: its number.
 */
static struct jifl_queue_place *jifl_queue_claim(const jifl_queue_t *q, atomic64_t *end,
						 unsigned int later, s64 *at)
{
	struct jifl_queue_place *place;
	s64 ahead;

	*at = atomic64_read(end);
	for (;;) {
		place = jifl_queue_place(q, *at);
		/* Pairs with the releases below: the record has been written, or read. */
		ahead = (s64)(smp_load_acquire(&place->turn) - (u64)*at - later);
		if (ahead < 0)
			return NULL;
		if (ahead > 0)
			*at = atomic64_read(end);
		else if (atomic64_try_cmpxchg(end, at, *at + 1))
			return place;
	}
}

/* Can records of this size be put and taken? Another size is a logged mistake. */
static bool jifl_queue_check(struct jifl_plugin *p, const jifl_queue_t *q, size_t size,
			     const char *what)
{
	unsigned long flags;

	/* Pairs with the release in jifl_plugin_queue_init. */
	if (!smp_load_acquire(&q->ends))
		return false;
	if (size == q->size)
		return true;
	/* With interrupts off the line is logged later: the interrupted code may hold any lock. */
	local_irq_save(flags);
	jifl_plugin_mistake(p, -EINVAL, what, "not of the size of the queue's records");
	local_irq_restore(flags);
	return false;
}

bool jifl_plugin_enqueue(struct jifl_plugin *p, jifl_queue_t *q, const void *record, size_t size)
{
	struct jifl_queue_place *place;
	unsigned long flags;
	s64 at;

	if (!jifl_queue_check(p, q, size, "jifl_enqueue"))
		return false;
	local_irq_save(flags);
	place = jifl_queue_claim(q, &q->ends->put.at, 0, &at);
	if (place) {
		memcpy(place->record, record, q->size);
		smp_store_release(&place->turn, (u64)at + 1);
	}
	local_irq_restore(flags);
	if (!place)
		atomic64_inc(&q->store.refused);
	return place;
}
EXPORT_SYMBOL_GPL(jifl_plugin_enqueue);

bool jifl_plugin_dequeue(struct jifl_plugin *p, jifl_queue_t *q, void *record, size_t size)
{
	struct jifl_queue_place *place;
	unsigned long flags;
	s64 at;

	if (!jifl_queue_check(p, q, size, "jifl_dequeue"))
		return false;
	local_irq_save(flags);
	place = jifl_queue_claim(q, &q->ends->take.at, 1, &at);
	if (place) {
		memcpy(record, place->record, q->size);
		smp_store_release(&place->turn, (u64)at + q->n);
	}
	local_irq_restore(flags);
	return place;
}
EXPORT_SYMBOL_GPL(jifl_plugin_dequeue);

/* --- making -------------------------------------------------------------------------- */

static void jifl_queue_release(struct jifl_store *s)
{
	jifl_queue_t *q = container_of(s, jifl_queue_t, store);

	vfree(q->ends);
	vfree(q->memory);
	q->ends = NULL;
	q->memory = NULL;
}

static const struct jifl_store_type jifl_queue_type = {
	.name = "queue",
	.release = jifl_queue_release,
};

int jifl_plugin_queue_init(struct jifl_plugin *p, jifl_queue_t *q, size_t size, unsigned int n)
{
	static const char what[] = "jifl_queue_init";
	struct jifl_queue_ends *ends;
	int ret = jifl_store_check(p, q ? &q->store : NULL, what);
	u32 i;

	if (ret)
		return ret;
	if (!size || size > QUEUE_RECORD_MAX)
		return jifl_plugin_mistake(p, -EINVAL, what, "records of no size that can be");
	if (!n || n > JIFL_QUEUE_MAX)
		return jifl_plugin_mistake(p, -EINVAL, what, "a number of records that cannot be");
	ret = jifl_store_add(p, &q->store, &jifl_queue_type, what);
	if (ret)
		return ret;
	q->size = size;
	q->stride = ALIGN(sizeof(struct jifl_queue_place) + size, sizeof(u64));
	/* At least two: with one place the turn of a take would be that of the next put. */
	q->n = max(roundup_pow_of_two(n), 2ul);
	q->memory = jifl_store_alloc(array_size(q->n, q->stride));
	ends = jifl_store_alloc(sizeof(*ends));
	for (i = 0; q->memory && i < q->n; i++)
		jifl_queue_place(q, i)->turn = i;
	if (q->memory && ends) {
		/* From now on the queue can be used. */
		smp_store_release(&q->ends, ends);
		return 0;
	}
	vfree(ends);
	jifl_store_remove(&q->store);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(jifl_plugin_queue_init);
