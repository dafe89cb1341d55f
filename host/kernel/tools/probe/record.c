// SPDX-License-Identifier: GPL-2.0
/*
 * Records of programs at places, in a ring buffer of the kernel's (kernel/trace/ring_buffer.c): one
 * for each CPU, which interrupts and NMIs may write to in the middle of a write. A record that
 * finds no room is lost, and counted; those that are there stay.
 */
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/ring_buffer.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "act.h"

/* Records that nobody gets. */
struct jifl_hit_lost {
	u64 full;		/* no room in the ring; the CPU's own */
	u64 unread;		/* the reader's buffer was bad; under the lock of its file */
};

struct jifl_hit_ring {
	struct trace_buffer *buffer;
	struct jifl_hit_lost __percpu *lost;
};

int jifl_hit_ring_open(struct jifl_hit_ring **ring, u32 bytes)
{
	struct jifl_hit_ring *r = JIFL_ALLOC(kzalloc(sizeof(*r), GFP_KERNEL));

	*ring = r;
	if (!r)
		return -ENOMEM;
	r->lost = JIFL_ALLOC(alloc_percpu(struct jifl_hit_lost));
	r->buffer = JIFL_ALLOC(ring_buffer_alloc(bytes, 0));
	return r->lost && r->buffer ? 0 : -ENOMEM;
}

void jifl_hit_ring_close(struct jifl_hit_ring *r)
{
	if (!r)
		return;
	if (r->buffer)
		ring_buffer_free(r->buffer);
	free_percpu(r->lost);
	kfree(r);
}

void jifl_hit_ring_write(struct jifl_hit_ring *r, struct jifl_hit *hit)
{
	if (ring_buffer_write(r->buffer, hit->size, hit))
		this_cpu_inc(r->lost->full);
}

/*
 * Copies records until there are no more, or there may be no room for the next one. After an error
 * what was copied before is the answer; the next request meets the error.
 */
static int jifl_hit_ring_copy(struct jifl_hit_ring *r, struct jifl_hit_read *req, u32 room)
{
	struct ring_buffer_event *event;
	const struct jifl_hit *hit;

	while (room - req->bytes >= JIFL_HIT_MAX && !fatal_signal_pending(current)) {
		event = ring_buffer_consume(r->buffer, req->cpu, NULL, NULL);
		if (!event)
			return 0;
		/* It stays where it is until the next one is taken; the file is locked. */
		hit = ring_buffer_event_data(event);
		if (copy_to_user(u64_to_user_ptr(req->buf + req->bytes), hit, hit->size)) {
			per_cpu_ptr(r->lost, req->cpu)->unread++;
			return req->bytes ? 0 : -EFAULT;
		}
		req->bytes += hit->size;
		cond_resched();
	}
	return 0;
}

int jifl_hit_ring_read(struct jifl_hit_ring *r, struct jifl_hit_read *req)
{
	const struct jifl_hit_lost *lost;
	const u32 room = req->bytes;

	if (!r)
		return -ENOENT;
	if (req->reserved || req->cpu >= nr_cpu_ids || !cpu_possible(req->cpu) ||
	    room < JIFL_HIT_MAX)
		return -EINVAL;
	req->bytes = 0;
	lost = per_cpu_ptr(r->lost, req->cpu);
	req->lost = READ_ONCE(lost->full) + lost->unread;
	return jifl_hit_ring_copy(r, req, room);
}
