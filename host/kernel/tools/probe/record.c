// SPDX-License-Identifier: GPL-2.0
/*
 * Records of programs at places: a ring for each processor. A program writes its record right where
 * the reader takes it from. A record that finds no room is lost, and counted; those that are there
 * stay.
 *
 * Why a ring has one writer at a time, and needs neither a lock nor an atomic operation:
 *
 * 1. A program writes to the ring of the processor that it runs on. It does not change processors:
 *    interrupts are off.
 * 2. One program runs on a processor at a time, in whatever context (act.c, step 2). So from
 *    jifl_hit_ring_room to jifl_hit_ring_commit nobody else writes to the ring, not in an NMI
 *    either.
 *
 * Why the reader sees whole records, and no record is written over before it is read:
 *
 * 3. `head` and `tail` count bytes, and are never set back. The writer alone writes `head`, after
 *    the record (release, which pairs with the reader's acquire). The reader alone writes `tail`,
 *    after it has copied the record (release, which pairs with the writer's acquire). Readers take
 *    turns: the lock of the session's file is held.
 * 4. Between `tail` and `head` lie records that nobody has taken. There is room for a record of the
 *    greatest size if JIFL_HIT_MAX bytes more than these are at most the ring's size. `seen` is a
 *    `tail` of before. It is never beyond `tail`, so room that it shows is there.
 * 5. A record lies in one piece. It begins below the ring's end, and may reach beyond it:
 *    JIFL_HIT_MAX bytes lie there. The bytes at the ring's beginning that it would have had stay
 *    unused until the next round, so step 4 counts right.
 */
#include <linux/cpumask.h>
#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "act.h"

/* The writer's words and the reader's are in cache lines of their own. */
struct jifl_hit_ring_cpu {
	u8 *data;		/* size + JIFL_HIT_MAX bytes */
	u64 head, seen;		/* the CPU's own */
	u64 lost;		/* likewise: there was no room */
	u64 tail ____cacheline_aligned; /* under the lock of the session's file */
};

struct jifl_hit_ring {
	u32 size;		/* bytes, a power of 2 */
	struct jifl_hit_ring_cpu __percpu *cpus;
};

int jifl_hit_ring_open(struct jifl_hit_ring **ring, u32 bytes)
{
	struct jifl_hit_ring *r = JIFL_ALLOC(kzalloc(sizeof(*r), GFP_KERNEL));
	unsigned int cpu;
	u8 *data;

	*ring = r;
	if (!r)
		return -ENOMEM;
	static_assert(!(JIFL_RING_MAX & (JIFL_RING_MAX - 1)));
	r->size = roundup_pow_of_two(max_t(u32, bytes, 2 * JIFL_HIT_MAX));
	r->cpus = JIFL_ALLOC(alloc_percpu(struct jifl_hit_ring_cpu));
	if (!r->cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		data = JIFL_ALLOC(vmalloc_node(r->size + JIFL_HIT_MAX, cpu_to_node(cpu)));
		per_cpu_ptr(r->cpus, cpu)->data = data;
		if (!data || fatal_signal_pending(current))
			return data ? -EINTR : -ENOMEM;
		cond_resched();
	}
	return 0;
}

void jifl_hit_ring_close(struct jifl_hit_ring *r)
{
	unsigned int cpu;

	if (!r)
		return;
	if (r->cpus)
		for_each_possible_cpu(cpu)
			vfree(per_cpu_ptr(r->cpus, cpu)->data);
	free_percpu(r->cpus);
	kfree(r);
}

static void *jifl_hit_ring_at(const struct jifl_hit_ring *r, const struct jifl_hit_ring_cpu *c,
			      u64 position)
{
	return c->data + (position & (r->size - 1));
}

struct jifl_hit *jifl_hit_ring_room(struct jifl_hit_ring *r)
{
	struct jifl_hit_ring_cpu *c = this_cpu_ptr(r->cpus);

	if (unlikely(c->head + JIFL_HIT_MAX - c->seen > r->size)) {
		/* Pairs with the release in jifl_hit_ring_copy. */
		c->seen = smp_load_acquire(&c->tail);
		if (c->head + JIFL_HIT_MAX - c->seen > r->size &&
		    !JIFL_HOST_PLANTED(hits_overwritten))
			return NULL;
	}
	return jifl_hit_ring_at(r, c, c->head);
}

void jifl_hit_ring_commit(struct jifl_hit_ring *r, u32 bytes)
{
	struct jifl_hit_ring_cpu *c = this_cpu_ptr(r->cpus);

	/* Pairs with the acquire in jifl_hit_ring_copy. */
	smp_store_release(&c->head, c->head + bytes);
}

void jifl_hit_ring_lose(struct jifl_hit_ring *r)
{
	this_cpu_inc(r->cpus->lost);
}

/*
 * Copies records until there are no more, or there may be no room for the next one. A record that
 * cannot be copied stays; after others it is not told of now.
 */
static int jifl_hit_ring_copy(struct jifl_hit_ring *r, struct jifl_hit_ring_cpu *c,
			      struct jifl_hit_read *req, u32 room)
{
	/* Pairs with the release in jifl_hit_ring_commit. */
	const u64 head = smp_load_acquire(&c->head);
	const struct jifl_hit *hit;

	while (c->tail != head && room - req->bytes >= JIFL_HIT_MAX &&
	       !fatal_signal_pending(current)) {
		hit = jifl_hit_ring_at(r, c, c->tail);
		if (copy_to_user(u64_to_user_ptr(req->buf + req->bytes), hit, hit->size))
			return req->bytes ? 0 : -EFAULT;
		req->bytes += hit->size;
		/* Pairs with the acquire in jifl_hit_ring_room. */
		smp_store_release(&c->tail, c->tail + hit->size);
		cond_resched();
	}
	return 0;
}

int jifl_hit_ring_read(struct jifl_hit_ring *r, struct jifl_hit_read *req)
{
	struct jifl_hit_ring_cpu *c;
	const u32 room = req->bytes;

	if (!r)
		return -ENOENT;
	if (req->reserved || req->cpu >= nr_cpu_ids || !cpu_possible(req->cpu) ||
	    room < JIFL_HIT_MAX)
		return -EINVAL;
	req->bytes = 0;
	c = per_cpu_ptr(r->cpus, req->cpu);
	req->lost = READ_ONCE(c->lost);
	return jifl_hit_ring_copy(r, c, req, room);
}
