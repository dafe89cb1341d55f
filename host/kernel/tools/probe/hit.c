// SPDX-License-Identifier: GPL-2.0
/*
 * Records of programs at places: two rings for each processor. To one of them inserted code writes
 * (engine/emit/hit.c), to the other the interpreter: natively, and where inserted code has found no
 * room or could not read a value. The writer writes its record right where the reader takes it
 * from. A record that finds no room is lost, and counted; those that are there stay.
 *
 * Why a ring has one writer at a time, and needs neither a lock nor an atomic operation:
 *
 * 1. An interpreted program writes to the ring of the processor that it runs on. It does not
 *    change processors: interrupts are off.
 * 2. One program runs on a processor at a time, in whatever context (act.c, step 2). So from
 *    jifl_hit_ring_room to jifl_hit_ring_commit nobody else writes to the ring, not in an NMI
 *    either. Of the ring of inserted code emit/hit.c has the proof.
 *
 * Why the reader sees whole records, and no record is written over before it is read:
 *
 * 3. `head` and `tail` count bytes, and are never set back. The writer alone writes `head`, after
 *    the record (release, which pairs with the reader's acquire). The reader alone writes `tail`,
 *    after it has copied the record, and `limit` behind that, with a barrier between; the writer
 *    writes where `limit` lets it only after it has read it, which its branch orders. Readers take
 *    turns: the lock of the session's file is held.
 * 4. Between `tail` and `head` lie records that nobody has taken. There is room for a record of the
 *    greatest size if JIFL_HIT_MAX bytes more than these are at most the ring's size. `limit` is
 *    the greatest `head` for which that holds with a `tail` of before. The reader alone writes it,
 *    behind `tail`. It is never beyond what `tail` allows, so room that it shows is there.
 * 5. A record lies in one piece. It begins below the ring's end, and may reach beyond it:
 *    JIFL_HIT_MAX bytes lie there. The bytes at the ring's beginning that it would have had stay
 *    unused until the next round, so step 4 counts right.
 *
 * Inserted code leaves to the reader what costs it instructions (jifl_hit_finish): the time is the
 * processor's time stamp counter (store/moment.h), the level is what it follows from, and the size
 * and the place are one number, which an instruction can hold.
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
#include "../../compat/compat.h"
#include "../../compat/current.h"
#include "../../store/moment.h"
#include "../../../../engine/engine.h"
#include "act.h"

/* The writer's words and the reader's are in cache lines of their own. */
struct jifl_hit_ring_cpu {
	/* data: size + JIFL_HIT_MAX bytes. head: the CPU's own. limit: the reader's. */
	struct ir_hit_ring ring;
	u64 lost;		/* the CPU's own: there was no room */
	/* The rest under the lock of the session's file. */
	u64 tail ____cacheline_aligned;
	struct jifl_moment before; /* of the last reading; inlined */
};

struct jifl_hit_ring {
	u32 size;		/* bytes, a power of 2 */
	bool inlined;
	struct jifl_hit_ring_cpu __percpu *cpus;
};

/* --- life ---------------------------------------------------------------------------------- */

static void jifl_hit_ring_limit(const struct jifl_hit_ring *r, struct jifl_hit_ring_cpu *c)
{
	WRITE_ONCE(c->ring.limit, c->tail + r->size - JIFL_HIT_MAX);
}

int jifl_hit_ring_open(struct jifl_hit_ring **ring, u32 bytes, bool inlined)
{
	struct jifl_hit_ring *r = JIFL_ALLOC(kzalloc(sizeof(*r), GFP_KERNEL));
	struct jifl_hit_ring_cpu *c;
	unsigned int cpu;
	u8 *data;

	*ring = r;
	if (!r)
		return -ENOMEM;
	static_assert(!(JIFL_RING_MAX & (JIFL_RING_MAX - 1)));
	r->inlined = inlined;
	r->size = roundup_pow_of_two(max_t(u32, bytes, 2 * JIFL_HIT_MAX));
	r->cpus = JIFL_ALLOC(alloc_percpu(struct jifl_hit_ring_cpu));
	if (!r->cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		data = JIFL_ALLOC(vmalloc_node(r->size + JIFL_HIT_MAX, cpu_to_node(cpu)));
		c = per_cpu_ptr(r->cpus, cpu);
		c->ring.data = (unsigned long)data;
		jifl_hit_ring_limit(r, c);
		if (inlined)
			c->before = jifl_moment_of(cpu);
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
			vfree((void *)per_cpu_ptr(r->cpus, cpu)->ring.data);
	free_percpu(r->cpus);
	kfree(r);
}

static void *jifl_hit_ring_at(const struct jifl_hit_ring *r, const struct jifl_hit_ring_cpu *c,
			      u64 position)
{
	return (u8 *)c->ring.data + (position & (r->size - 1));
}

/* --- writing ------------------------------------------------------------------------------- */

struct jifl_hit *jifl_hit_ring_room(struct jifl_hit_ring *r)
{
	struct jifl_hit_ring_cpu *c = this_cpu_ptr(r->cpus);

	if (unlikely(c->ring.head > READ_ONCE(c->ring.limit)) &&
	    !JIFL_HOST_PLANTED(hits_overwritten))
		return NULL;
	return jifl_hit_ring_at(r, c, c->ring.head);
}

void jifl_hit_ring_commit(struct jifl_hit_ring *r, u32 bytes)
{
	struct jifl_hit_ring_cpu *c = this_cpu_ptr(r->cpus);

	/* Pairs with the acquire in jifl_hit_ring_copy. */
	smp_store_release(&c->ring.head, c->ring.head + bytes);
}

void jifl_hit_ring_lose(struct jifl_hit_ring *r)
{
	this_cpu_inc(r->cpus->lost);
}

bool jifl_hits_inline(void)
{
	return jifl_moment_may() && jifl_compat_irq_stack(0) &&
	       offsetof(struct task_struct, tgid) == offsetof(struct task_struct, pid) + 4;
}

void jifl_hit_ring_describe(const struct jifl_hit_ring *ring, struct ir_hit *hit)
{
	static const struct ir_hit_word words[] = {
		{ IR_HIT_CLOCK, offsetof(struct jifl_hit, time), 0 },
		{ IR_HIT_TASK, offsetof(struct jifl_hit, pid), offsetof(struct task_struct, pid) },
		{ IR_HIT_TASK, offsetof(struct jifl_hit, comm),
		  offsetof(struct task_struct, comm) },
		{ IR_HIT_TASK, offsetof(struct jifl_hit, comm) + 8,
		  offsetof(struct task_struct, comm) + 8 },
		{ IR_HIT_STACK, offsetof(struct jifl_hit, unknown), 0 },
		{ IR_HIT_CELL, offsetof(struct jifl_hit, level), 0 },
	};
	u32 i;

	static_assert(ARRAY_SIZE(words) <= IR_HIT_WORDS && sizeof(struct jifl_hit) <= U8_MAX);
	hit->ring = (unsigned long)ring->cpus;
	hit->mask = ring->size - 1;
	hit->task = (s32)(unsigned long)JIFL_CURRENT_CELL;
	hit->at = sizeof(struct jifl_hit);
	hit->size = sizeof(struct jifl_hit) + hit->nvalues * sizeof(u64);
	hit->nwords = ARRAY_SIZE(words);
	for (i = 0; i < hit->nwords; i++)
		hit->words[i] = words[i];
	hit->words[i - 1].disp = (s32)(unsigned long)JIFL_PREEMPT_CELL;
}

enum { JIFL_HIT_SIZE_BITS = 8 };

s32 jifl_hit_ring_word(const struct ir_hit *hit, u32 place)
{
	static_assert(sizeof(struct jifl_hit) + IR_HIT_VALUES * sizeof(u64) <
		      1u << JIFL_HIT_SIZE_BITS);
	static_assert(JIFL_SPLICES_MAX <= 1u << (31 - JIFL_HIT_SIZE_BITS));
	return (s32)(hit->size | place << JIFL_HIT_SIZE_BITS);
}

/* --- reading ------------------------------------------------------------------------------- */

/*
 * As jifl_level(), from the count and the stack. Interrupts are the only code with another stack
 * than the task's that runs in copies.
 */
static enum jifl_level jifl_hit_level(unsigned int cpu, u32 count, u64 sp)
{
	const u64 end = (unsigned long)jifl_compat_irq_stack(cpu) + sizeof(u64);


	if (count & HARDIRQ_MASK)
		return JIFL_LEVEL_IRQ;
	if (count & SOFTIRQ_MASK & SOFTIRQ_OFFSET)
		return JIFL_LEVEL_SOFTIRQ;
	return end - sp <= IRQ_STACK_SIZE ? JIFL_LEVEL_IRQ : JIFL_LEVEL_TASK;
}

/* Makes of what inserted code has written what the interpreter writes. */
static void jifl_hit_finish(struct jifl_hit *hit, unsigned int cpu,
			    const struct jifl_moment *before, const struct jifl_moment *now)
{
	hit->place = hit->size >> JIFL_HIT_SIZE_BITS;
	hit->size &= (1u << JIFL_HIT_SIZE_BITS) - 1;
	hit->time = jifl_moment_at(before, now, hit->time);
	hit->cpu = cpu;
	hit->level = jifl_hit_level(cpu, hit->level, hit->unknown);
	hit->unknown = 0;
	/* The task has them the other way round. */
	swap(hit->pid, hit->tid);
	if (hit->level != JIFL_LEVEL_TASK && !JIFL_HOST_PLANTED(hits_unfinished)) {
		hit->pid = 0;
		hit->tid = 0;
		memcpy(hit->comm, jifl_number_comm(hit->level), sizeof(hit->comm));
	}
	hit->comm[sizeof(hit->comm) - 1] = '\0';
}

/* Returns the record's bytes. */
static int jifl_hit_copy(const struct jifl_hit_ring *r, const struct jifl_hit_ring_cpu *c,
			 const struct jifl_moment *now, const struct jifl_hit_read *req,
			 const struct jifl_hit *hit)
{
	u8 __user *to = u64_to_user_ptr(req->buf + req->bytes);
	struct jifl_hit head = *hit;

	if (r->inlined)
		jifl_hit_finish(&head, req->cpu, &c->before, now);
	if (copy_to_user(to, &head, sizeof(head)) ||
	    copy_to_user(to + sizeof(head), hit + 1, head.size - sizeof(head)))
		return -EFAULT;
	return head.size;
}

/*
 * Copies records until there are no more, or there may be no room for the next one. A record that
 * cannot be copied stays; after others it is not told of now.
 */
static int jifl_hit_ring_copy(struct jifl_hit_ring *r, struct jifl_hit_read *req, u32 room)
{
	struct jifl_hit_ring_cpu *c = per_cpu_ptr(r->cpus, req->cpu);
	struct jifl_moment now = {};
	const struct jifl_hit *hit;
	u64 head;
	int ret = 0;

	if (r->inlined && c->tail != READ_ONCE(c->ring.head))
		now = jifl_moment_of(req->cpu);
	/* Later than the moment. Pairs with the release in jifl_hit_ring_commit. */
	head = smp_load_acquire(&c->ring.head);
	if (!now.tsc && r->inlined)
		head = c->tail;
	while (c->tail != head && room - req->bytes >= JIFL_HIT_MAX &&
	       !fatal_signal_pending(current)) {
		hit = jifl_hit_ring_at(r, c, c->tail);
		ret = jifl_hit_copy(r, c, &now, req, hit);
		if (ret < 0)
			break;
		req->bytes += ret;
		c->tail += ret;
		cond_resched();
	}
	/* Behind the copies: release. */
	smp_mb();
	jifl_hit_ring_limit(r, c);
	if (now.tsc && c->tail == head)
		c->before = now;
	return req->bytes ? 0 : min(ret, 0);
}

int jifl_hit_rings_read(struct jifl_hit_ring *inlined, struct jifl_hit_ring *r,
			struct jifl_hit_read *req)
{
	const u32 room = req->bytes;
	int ret = 0;

	if (!r)
		return -ENOENT;
	if (req->reserved || req->cpu >= nr_cpu_ids || !cpu_possible(req->cpu) ||
	    room < JIFL_HIT_MAX)
		return -EINVAL;
	req->bytes = 0;
	req->lost = READ_ONCE(per_cpu_ptr(r->cpus, req->cpu)->lost);
	/* First the ring to which inserted code that finds no room leaves its records. */
	ret = jifl_hit_ring_copy(r, req, room);
	return !ret && inlined ? jifl_hit_ring_copy(inlined, req, room) : ret;
}
