// SPDX-License-Identifier: GPL-2.0
/*
 * Rings of records for plugins. Analysis functions put records in, and the command takes them out
 * as lines (JIFL_IOC_PLUGIN_READ).
 *
 * Each CPU has a ring of its own. It has one writer, because interrupts are off during a write, and
 * one reader, which holds jifl_plugin_mutex. So two counters are enough. If the ring is full, the
 * new record is lost. So the records are complete up to the first loss, and no record is written to
 * while it is read. The ring of sessions (store/ring.c) overwrites old records instead: its writers
 * are five inserted instructions without a check, and its reader always runs.
 *
 * Context: ring_put: any but NMI; the others sleep.
 */
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "plugin.h"

#define JIFL_RECORDS_MAX	(1u << 24)	/* a mistake is refused, not allocated */

static_assert(RING_LINE_MAX == JIFL_PLUGIN_LINE_MAX);

struct jifl_ring_cpu {
	u64 put, lost;			/* ever; written by this CPU */
	u64 taken ____cacheline_aligned;	/* by the reader */
} ____cacheline_aligned;

struct jifl_ring_place {
	u64 ns;
	char record[];
};

static struct jifl_ring_place *jifl_ring_place(const ring_t *r, unsigned int cpu, u64 at)
{
	return (struct jifl_ring_place *)(r->memory + ((size_t)cpu * r->n + at % r->n) * r->stride);
}

/* --- putting in --------------------------------------------------------------------------- */

static void jifl_ring_put_here(ring_t *r, unsigned int cpu, const void *record)
{
	struct jifl_ring_cpu *c = &r->cpus[cpu];
	struct jifl_ring_place *place;

	/* Pairs with the release in jifl_ring_take_line: the place has been read. */
	if (c->put - smp_load_acquire(&c->taken) >= r->n) {
		WRITE_ONCE(c->lost, c->lost + 1);
		return;
	}
	place = jifl_ring_place(r, cpu, c->put);
	place->ns = ktime_get_mono_fast_ns();
	memcpy(place->record, record, r->size);
	/* Pairs with the acquire in jifl_ring_oldest. */
	smp_store_release(&c->put, c->put + 1);
}

void jifl_plugin_ring_put(ring_t *r, const void *record)
{
	unsigned long flags;

	/* Pairs with the release in jifl_plugin_ring_init. */
	if (!smp_load_acquire(&r->cpus))
		return;
	/* What it calls may be a target: a record of that would take the same place. */
	flags = jifl_own_irq_save();
	jifl_ring_put_here(r, smp_processor_id(), record);
	jifl_own_irq_restore(flags);
}
EXPORT_SYMBOL_GPL(jifl_plugin_ring_put);

u64 jifl_plugin_ring_lost(const ring_t *r)
{
	u64 lost = 0;
	int cpu;

	if (!r->cpus || JIFL_HOST_PLANTED(losses_untold))
		return 0;
	for_each_possible_cpu(cpu)
		lost += READ_ONCE(r->cpus[cpu].lost);
	return lost;
}
EXPORT_SYMBOL_GPL(jifl_plugin_ring_lost);

/* --- taking out ----------------------------------------------------------------------------- */

/* The CPU whose next record is the oldest; -1: there is none, or all are newer than until. */
static int jifl_ring_oldest(const ring_t *r, u64 until)
{
	u64 oldest = until ?: U64_MAX;
	int cpu, found = -1;

	for_each_possible_cpu(cpu) {
		const struct jifl_ring_cpu *c = &r->cpus[cpu];
		u64 ns;

		/* Pairs with the release in jifl_ring_put_here. */
		if (smp_load_acquire(&c->put) == c->taken)
			continue;
		ns = jifl_ring_place(r, cpu, c->taken)->ns;
		if (ns < oldest || (ns == oldest && found < 0)) {
			oldest = ns;
			found = cpu;
		}
	}
	return found;
}

/* Takes the next record of a CPU; returns the length of its line, including the end. */
static size_t jifl_ring_show_line(const ring_t *r, unsigned int cpu, char *line)
{
	const struct jifl_ring_place *place = jifl_ring_place(r, cpu, r->cpus[cpu].taken);
	const struct ring_info info = { .ns = place->ns, .cpu = cpu };
	size_t len;

	line[0] = '\0';
	r->show(place->record, &info, line, RING_LINE_MAX);
	len = strnlen(line, RING_LINE_MAX - 1);
	line[len] = '\n';
	return len + 1;
}

/* Adds one line to the lines of req; 0, -ENODATA: no more records, -ENOSPC, -EFAULT. */
static int jifl_ring_take_line(ring_t *r, struct jifl_plugin_read *req, u32 room, char *line)
{
	int cpu = jifl_ring_oldest(r, req->until);
	struct jifl_ring_cpu *c;
	size_t len;

	if (cpu < 0)
		return -ENODATA;
	len = jifl_ring_show_line(r, cpu, line);
	if (len > room - req->n)
		return -ENOSPC;
	if (copy_to_user(u64_to_user_ptr(req->buf + req->n), line, len))
		return -EFAULT;
	req->n += len;
	req->records++;
	c = &r->cpus[cpu];
	/* Pairs with the acquire in jifl_ring_put_here. */
	smp_store_release(&c->taken, c->taken + 1);
	return 0;
}

static u64 jifl_ring_refused(const struct jifl_store *s)
{
	return jifl_plugin_ring_lost(container_of(s, ring_t, store));
}

static void jifl_ring_release(struct jifl_store *s)
{
	ring_t *r = container_of(s, ring_t, store);

	vfree(r->cpus);
	vfree(r->memory);
	r->cpus = NULL;
	r->memory = NULL;
}

static const struct jifl_store_type jifl_ring_type = {
	.name = "ring",
	.single = true,
	.outlives = true,
	.release = jifl_ring_release,
	.refused = jifl_ring_refused,
};

int jifl_plugin_ring_read(struct jifl_plugin *p, struct jifl_plugin_read *req)
{
	struct jifl_store *s = jifl_store_find(p, &jifl_ring_type);
	ring_t *r = s ? container_of(s, ring_t, store) : NULL;
	const u32 room = req->n;
	char *line;
	int ret = 0;

	/* Pairs with the release in jifl_plugin_ring_init: it may be in the making. */
	if (!r || !smp_load_acquire(&r->cpus))
		return -ENODATA;
	if (room < RING_LINE_MAX)
		return -EINVAL;
	line = JIFL_ALLOC(kmalloc(RING_LINE_MAX, GFP_KERNEL));
	if (!line)
		return -ENOMEM;
	req->n = 0;
	req->records = 0;
	while (!ret) {
		ret = jifl_ring_take_line(r, req, room, line);
		cond_resched();
	}
	req->lost = jifl_plugin_ring_lost(r);
	kfree(line);
	return ret == -EFAULT ? ret : 0;
}

/* --- making -------------------------------------------------------------------------- */

static const char *jifl_ring_wrong(size_t size, unsigned int n, ring_show show)
{
	if (!size || size > RING_RECORD_MAX)
		return "records of no size that can be";
	if (!n || n > JIFL_RECORDS_MAX)
		return "a number of records that cannot be";
	return show ? NULL : "no function that shows records";
}

int jifl_plugin_ring_init(struct jifl_plugin *p, ring_t *r, size_t size, unsigned int n,
			  ring_show show)
{
	static const char what[] = "ring_init";
	struct jifl_ring_cpu *cpus;
	char *memory;
	int ret = jifl_store_check(p, r ? &r->store : NULL, what);
	const char *wrong = jifl_ring_wrong(size, n, show);

	if (ret)
		return ret;
	if (wrong)
		return jifl_plugin_mistake(p, -EINVAL, what, wrong);
	ret = jifl_store_add(p, &r->store, &jifl_ring_type, what);
	if (ret)
		return ret;
	r->size = size;
	r->stride = ALIGN(sizeof(struct jifl_ring_place) + size, sizeof(u64));
	r->n = n;
	r->show = show;
	memory = jifl_store_alloc(array3_size(nr_cpu_ids, n, r->stride));
	cpus = jifl_store_alloc(array_size(nr_cpu_ids, sizeof(*cpus)));
	if (memory && cpus) {
		r->memory = memory;
		/* From now on there are records, for writers and readers. */
		smp_store_release(&r->cpus, cpus);
		return 0;
	}
	vfree(memory);
	vfree(cpus);
	jifl_store_remove(&r->store);
	return -ENOMEM;
}
EXPORT_SYMBOL_GPL(jifl_plugin_ring_init);
