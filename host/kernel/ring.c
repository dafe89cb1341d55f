// SPDX-License-Identifier: GPL-2.0
/*
 * The records of a session: a ring for each CPU, which inserted code appends to
 * (engine/emit/record.c says how) and one reader takes from. The writer asks
 * nobody: what the reader does not take in time is overwritten, and counted as
 * lost, since each CPU's cell tells how many records there have ever been.
 *
 * A reader zeroes what it has taken, so that a place that was given away but
 * not written yet, by a thread preempted between the two, is told from one that
 * was: reading stops there. Only in the half ring behind an overrun such a place
 * may hold a record of the round before; the loss that is reported says so.
 *
 * One session at a time has the rings: their CPU cells are at fixed addresses.
 */
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "kernel.h"
#include "plant.h"
#include "compat/compat.h"

#define JIFL_RING_ORDER		16	/* 64 Ki records, 512 KiB */
#define JIFL_RING_RECORDS	(1u << JIFL_RING_ORDER)
#define JIFL_RING_ONE		(1ull << (32 - JIFL_RING_ORDER))	/* of a cell */

#define JIFL_RING_TIME_BITS	28	/* in the first word */

union jifl_ring_slot {
	struct jifl_record record;
	u64 whole;
};

static struct {
	struct mutex lock;		/* all but the slots */
	const struct jifl_session *owner;
	union jifl_ring_slot *slots;	/* nr_cpu_ids rings */
	struct jifl_ring_reader {
		u64 read, lost;
	} *readers;			/* nr_cpu_ids */
} ring = {
	.lock = __MUTEX_INITIALIZER(ring.lock),
};

static void jifl_ring_free(void)
{
	vfree(ring.slots);
	kvfree(ring.readers);
	ring.slots = NULL;
	ring.readers = NULL;
	ring.owner = NULL;
}

/* In reach of an absolute 32-bit address, like the code that writes there. */
static int jifl_ring_alloc(void)
{
	size_t size = array3_size(nr_cpu_ids, JIFL_RING_RECORDS, sizeof(*ring.slots));
	int cpu;

	ring.slots = JIFL_ALLOC(jifl_compat_exec_alloc(size));
	ring.readers = JIFL_ALLOC(kvcalloc(nr_cpu_ids, sizeof(*ring.readers), GFP_KERNEL));
	if (!ring.slots || !ring.readers ||
	    !jifl_fits_s32((s64)(unsigned long)ring.slots)) {
		jifl_ring_free();
		return -ENOMEM;
	}
	memset(ring.slots, 0, size);
	for_each_possible_cpu(cpu)
		per_cpu(jifl_cpu.ring, cpu) = cpu;
	return 0;
}

int jifl_ring_open(const struct jifl_session *s, u64 *busy_session)
{
	int ret = 0;

	mutex_lock(&ring.lock);
	if (ring.owner) {
		*busy_session = ring.owner->id;
		ret = -EALREADY;
	} else {
		ret = jifl_ring_alloc();
	}
	if (!ret)
		ring.owner = s;
	mutex_unlock(&ring.lock);
	return ret;
}

void jifl_ring_close(const struct jifl_session *s)
{
	mutex_lock(&ring.lock);
	if (ring.owner == s)
		jifl_ring_free();
	mutex_unlock(&ring.lock);
}

/*
 * A function with an ftrace site has been made by a compiler, and keeps to the
 * System V ABI (section 3.2.3): r11 and the flags say nothing when it begins and when
 * it returns. Compiled with -pg, it has no other agreement with its callers either:
 * GCC does not use -fipa-ra then.
 */
void jifl_ring_insert(struct ir_block *b, u16 at, u32 what)
{
	struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, at);

	if (!ins)
		return;
	ins->kind = IR_INSERT_RECORD;
	ins->cell = jifl_cpu_operand(ring);
	ins->rings = (s32)(unsigned long)ring.slots;
	ins->order = JIFL_RING_ORDER;
	ins->imm = (s32)what;
	ins->convention = jifl_ksym_fentry(jifl_ksym_start(b->addr.v)) != 0;
}

/* The place of a cell's value is the record's own from here on. */
static void jifl_ring_store(u64 cell, u32 what, u32 value)
{
	union jifl_ring_slot *slot = &ring.slots[rol32((u32)cell, JIFL_RING_ORDER)];

	WRITE_ONCE(slot->record.value, value);
	smp_wmb();	/* the reader looks at `what` first */
	WRITE_ONCE(slot->record.what, what);
}

void jifl_ring_mark(u32 what, u32 value)
{
	u64 now = ktime_get_mono_fast_ns();
	u64 after = this_cpu_add_return(jifl_cpu.ring, 2 * JIFL_RING_ONE);

	jifl_ring_store(after - 2 * JIFL_RING_ONE, what, value);
	jifl_ring_store(after - JIFL_RING_ONE,
			JIFL_RECORD_TIME | (now & ((1u << JIFL_RING_TIME_BITS) - 1)),
			(u32)(now >> JIFL_RING_TIME_BITS));
}

/* Records ever, stored or about to be. */
static u64 jifl_ring_total(unsigned int cpu)
{
	u64 cell = READ_ONCE(per_cpu(jifl_cpu.ring, cpu));

	return (cell >> 32 << JIFL_RING_ORDER) | (u32)cell >> (32 - JIFL_RING_ORDER);
}

/* Behind an overrun half a ring is kept, lest it overtakes again at once. */
static void jifl_ring_skip(struct jifl_ring_reader *r, u64 total)
{
	u64 first = total - JIFL_RING_RECORDS / 2;

	if (total - r->read <= JIFL_RING_RECORDS)
		return;
	if (!JIFL_HOST_PLANTED(losses_untold))
		r->lost += first - r->read;
	r->read = first;
}

/* Takes at most n; returns how many. */
static u32 jifl_ring_take(unsigned int cpu, u64 *to, u32 n)
{
	union jifl_ring_slot *slots = &ring.slots[(size_t)cpu << JIFL_RING_ORDER];
	struct jifl_ring_reader *r = &ring.readers[cpu];
	u64 total = jifl_ring_total(cpu);
	u32 taken = 0;

	jifl_ring_skip(r, total);
	for (; taken < n && r->read + taken != total; taken++) {
		u64 *slot = &slots[(r->read + taken) % JIFL_RING_RECORDS].whole;
		u64 value = READ_ONCE(*slot);

		if (!(u32)value)
			break;
		to[taken] = value;
		/* Not a new one that came between. */
		cmpxchg(slot, value, 0);
	}
	/* Overtaken meanwhile: nobody knows by how much of these. */
	if (jifl_ring_total(cpu) - r->read > JIFL_RING_RECORDS)
		return 0;
	r->read += taken;
	return taken;
}

int jifl_ring_read(const struct jifl_session *s, struct jifl_records *req)
{
	const u32 room = PAGE_SIZE / sizeof(u64);
	u64 *page = JIFL_ALLOC((u64 *)__get_free_page(GFP_KERNEL));
	u32 n, taken, done = 0;
	int ret = 0;

	if (!page)
		return -ENOMEM;
	mutex_lock(&ring.lock);
	if (ring.owner != s)
		ret = -ENOENT;
	else if (req->cpu >= nr_cpu_ids || !cpu_possible(req->cpu))
		ret = -EINVAL;
	while (!ret && done < req->n) {
		n = min(room, req->n - done);
		taken = jifl_ring_take(req->cpu, page, n);
		if (copy_to_user(u64_to_user_ptr(req->buf + done * sizeof(u64)), page,
				 taken * sizeof(u64)))
			ret = -EFAULT;
		done += taken;
		if (taken < n)
			break;
		cond_resched();
	}
	req->n = done;
	req->lost = ret ? 0 : ring.readers[req->cpu].lost;
	mutex_unlock(&ring.lock);
	free_page((unsigned long)page);
	return ret;
}
