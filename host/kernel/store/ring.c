// SPDX-License-Identifier: GPL-2.0
/*
 * The records of a session: a ring for each CPU. Inserted code appends to the ring
 * (engine/emit/record.c says how), and one reader takes from it. The writer never waits: records
 * that the reader does not take in time are overwritten, and counted as lost. The count is known
 * because each CPU's cell tells how many records there have ever been. A session may ask that
 * calls wait for the reader at their ends (JIFL_FLAG_WAIT). Then the records of one call must fit
 * into half a ring, or some are lost. What cannot wait, calls in interrupts and kernel threads, may
 * make more.
 *
 * A reader zeroes the records that it has taken. A writer takes a place before it writes there.
 * The zeroes tell such a place from a written one: reading stops there. In the round that follows
 * an overrun they do not: such a place holds a record of the round before. There the reader leaves
 * the newest records for later. So it takes an old record for a new one only if a thread was
 * preempted between taking a place and writing it, or interrupted for many records; the reported
 * loss says so.
 *
 * The writer may overtake the reader while this takes records. Then zeroes may stand where a newer
 * record stood, which is before the writer's place of that moment: `zeroed`. Reading goes on from
 * there, or it would stop at a zero that nobody will write.
 *
 * Records may carry words (JIFL_RECORD_WORDS). Words lie behind the ring's end where they do not
 * fit in: behind each ring is room for a second one. With words, reading goes from record to
 * record, and behind an overrun it goes on from a mark whose place is known.
 *
 * Calls in softirqs and hard interrupts record in the ring of their CPU, too. A reader can tell
 * whose each record is:
 *
 * 1. All places of a record and its words, and of a mark with its time, are taken by one
 *    instruction. So records of an interrupt lie before them or behind them, never between.
 * 2. What interrupts ends, on the same CPU, before what it has interrupted goes on (step 1 in
 *    call/levels.c). So between the mark where its call begins and that where it ends there are
 *    records of this call and whole calls that interrupt it. Both marks have the level at which the
 *    call was when it began: some functions change it.
 * 3. A call that was given up before it returned has no mark of its end. Its return, which is
 *    hooked (step 2 there), has JIFL_RECORD_CUT instead. Until then whole calls of its own level
 *    may follow, too, since its lane is free.
 * 4. Marks where tasks are switched are made when all interrupts of that CPU have ended (step 5
 *    there). So they are about the task's call.
 * 5. A mark's time is read anew if a place was taken meanwhile. So times rise in each ring as its
 *    clock does.
 *
 * One session at a time has the rings, because their CPU cells are at fixed addresses.
 */
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "moment.h"
#include "percpu.h"
#include "ring.h"
#include "rings.h"

/* Smaller rings where there are many CPUs. */
#define JIFL_RING_LEAST		14
#define JIFL_RING_SIZE		SZ_64M	/* of all rings together */
/*
 * The newest records of a running session that the reader leaves for later behind an overrun: a
 * part of the ring, log 2.
 */
#define JIFL_RING_MARGIN	6

struct jifl_rings jifl_rings = {
	.lock = __MUTEX_INITIALIZER(jifl_rings.lock),
};

struct jifl_ring_layout jifl_ring_layout;

static void jifl_ring_free(void)
{
	vfree(jifl_ring_layout.slots);
	kvfree(jifl_rings.readers);
	jifl_ring_layout.slots = NULL;
	jifl_rings.readers = NULL;
	jifl_rings.owner = NULL;
}

/* The distance of two CPUs' rings, in rings. */
static u32 jifl_ring_distance(void)
{
	return jifl_ring_layout.words ? 2 : 1;
}

static size_t jifl_ring_size(void)
{
	return array3_size(nr_cpu_ids * jifl_ring_distance(), jifl_ring_records(),
			   sizeof(struct jifl_record));
}

static void jifl_ring_choose(const struct jifl_ring_owner *o)
{
	jifl_ring_layout.words = o->words;
	jifl_ring_layout.clock = o->clock;
	jifl_ring_layout.ticks = jifl_moment_is_steady();
	jifl_ring_layout.order = o->order;
	while (jifl_ring_layout.order > JIFL_RING_LEAST && jifl_ring_size() > JIFL_RING_SIZE)
		jifl_ring_layout.order--;
	jifl_ring_layout.one = 1ull << (32 - jifl_ring_layout.order);
}

/* --- when it is too full ---------------------------------------------------------- */

/* The value of a cell when this many records and words have been stored. */
static u64 jifl_ring_cell(u64 count)
{
	return count >> jifl_ring_layout.order << 32 |
	       (u32)(count << (32 - jifl_ring_layout.order));
}

/* Under jifl_rings.lock. The limit is half a ring beyond what has been read. */
static void jifl_ring_limit(unsigned int cpu)
{
	const u64 count = jifl_rings.readers[cpu].read + jifl_ring_records() / 2;

	WRITE_ONCE(per_cpu(jifl_cpu.ring_limit, cpu),
		   jifl_rings.waits ? jifl_ring_cell(count) : U64_MAX);
}

void jifl_ring_limits_lift(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(jifl_cpu.ring_limit, cpu), U64_MAX);
}

void jifl_ring_end_wait(bool of_function)
{
	const u64 *limit = raw_cpu_ptr(&jifl_cpu.ring_limit);

	/* On PREEMPT_RT an allocation may sleep, and preemption is off. */
	if (of_function || IS_ENABLED(CONFIG_PREEMPT_RT))
		jifl_ring_wait_in_kernel(limit);
	else
		jifl_ring_wait(limit);
}

/* --- life ------------------------------------------------------------------------- */

/*
 * Allocates the rings within reach of an absolute 32-bit address, as is the code that writes
 * there.
 */
static int jifl_ring_alloc(const struct jifl_ring_owner *o)
{
	size_t size;
	int cpu;

	jifl_ring_choose(o);
	size = jifl_ring_size();
	jifl_ring_layout.slots = JIFL_ALLOC(jifl_compat_exec_alloc(size));
	jifl_rings.readers = JIFL_ALLOC(kvcalloc(nr_cpu_ids, sizeof(*jifl_rings.readers),
						 GFP_KERNEL));
	if (!jifl_ring_layout.slots || !jifl_rings.readers ||
	    !jifl_fits_s32((s64)(unsigned long)jifl_ring_layout.slots) ||
	    !jifl_fits_s32((s64)((unsigned long)jifl_ring_layout.slots + size))) {
		jifl_ring_free();
		return -ENOMEM;
	}
	memset(jifl_ring_layout.slots, 0, size);
	jifl_rings.waits = o->waits;
	for_each_possible_cpu(cpu) {
		per_cpu(jifl_cpu.ring, cpu) = cpu * jifl_ring_distance();
		if (jifl_ring_layout.ticks)
			jifl_rings.readers[cpu].before = jifl_moment_of(cpu);
		jifl_rings.readers[cpu].told = jifl_rings.readers[cpu].before.ns;
		jifl_ring_limit(cpu);
	}
	jifl_ring_wait_open(jifl_rings.waits ? o->reader : 0);
	return 0;
}

int jifl_ring_open(const struct jifl_ring_owner *o, u64 *busy_session)
{
	int ret = 0;

	mutex_lock(&jifl_rings.lock);
	if (jifl_rings.owner) {
		*busy_session = *jifl_rings.owner->session;
		ret = -EALREADY;
	} else {
		ret = jifl_ring_alloc(o);
	}
	if (!ret)
		jifl_rings.owner = o;
	mutex_unlock(&jifl_rings.lock);
	return ret;
}

static void jifl_ring_stop_waits(void)
{
	if (!jifl_rings.waits)
		return;
	jifl_rings.waits = false;
	jifl_ring_limits_lift();
	jifl_ring_wait_close();
}

void jifl_ring_stop(const struct jifl_ring_owner *o)
{
	mutex_lock(&jifl_rings.lock);
	if (jifl_rings.owner == o)
		jifl_ring_stop_waits();
	mutex_unlock(&jifl_rings.lock);
}

void jifl_ring_close(const struct jifl_ring_owner *o)
{
	mutex_lock(&jifl_rings.lock);
	if (jifl_rings.owner == o) {
		jifl_ring_stop_waits();
		jifl_ring_free();
	}
	mutex_unlock(&jifl_rings.lock);
}

/* --- reading ---------------------------------------------------------------------- */

/* Records and words ever, stored or about to be stored. */
static u64 jifl_ring_total(unsigned int cpu)
{
	return jifl_ring_count(READ_ONCE(per_cpu(jifl_cpu.ring, cpu)));
}

/* A mark in the newer half; if there is none, the place of the next record. */
static u64 jifl_ring_mark_behind(const struct jifl_ring_reader *r, u64 half, u64 total)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(r->marks); i++) {
		u64 mark = READ_ONCE(r->marks[i]);

		if (mark > half && mark <= total)
			return mark;
	}
	return total;
}

/*
 * Behind an overrun half a ring is kept, so that the writer does not overtake the reader again at
 * once.
 */
static void jifl_ring_skip(struct jifl_ring_reader *r, u64 total)
{
	u64 first = max(total - jifl_ring_records() / 2, r->zeroed);

	if (total - r->read <= jifl_ring_records())
		return;
	if (jifl_ring_layout.words)
		first = jifl_ring_mark_behind(r, first, total);
	if (!JIFL_HOST_PLANTED(losses_untold))
		r->lost += first - r->read;
	r->read = first;
	r->unsafe = first + jifl_ring_records();
}

/* The place up to which the reader may read. */
static u64 jifl_ring_readable(const struct jifl_ring_reader *r, u64 total)
{
	if (r->read >= r->unsafe || !READ_ONCE(*jifl_rings.owner->running))
		return total;
	return max(r->read, total - min_t(u64, total, jifl_ring_records() >> JIFL_RING_MARGIN));
}

/* Words behind a record. */
static u32 jifl_ring_words(u32 what)
{
	return jifl_ring_layout.words ? JIFL_RECORD_WORDS(what) : 0;
}

/*
 * Takes a record and its words, which are all there. Zeroes them, but not what was written
 * meanwhile.
 */
static void jifl_ring_take_one(u64 *slot, u64 *to, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		to[i] = READ_ONCE(slot[i]);
		cmpxchg(&slot[i], to[i], 0);
	}
}

/* Bits of a time that its record has not. */
#define JIFL_RING_CUT	(64 - 32 - JIFL_RING_TIME_BITS)

/* A record of the time, as a word. */
static u64 jifl_ring_record_of(u64 ns)
{
	return jifl_ring_time_what(ns) | ns >> JIFL_RING_TIME_BITS << 32;
}

/*
 * The record of a time with what the clock was then. Times of one processor do not go back: before
 * and behind a moment they are made with different speeds of the clock.
 */
static u64 jifl_ring_time(struct jifl_ring_reader *r, const struct jifl_moment *now, u64 record)
{
	u64 time = ((u32)record & ~JIFL_RECORD_TYPE) | record >> 32 << JIFL_RING_TIME_BITS;

	/* The bits of the counter that a record has not are as now, or as they were before. */
	time = now->tsc - ((s64)((now->tsc - time) << JIFL_RING_CUT) >> JIFL_RING_CUT);
	if (time > now->tsc)
		return jifl_ring_record_of(now->ns); /* of a counter that was set back since */
	r->told = max(r->told, min(jifl_moment_at(&r->before, now, time), now->ns));
	return jifl_ring_record_of(r->told);
}

/* Makes times of counters, in records that were taken. *now: made here if it is not yet known. */
static void jifl_ring_times(unsigned int cpu, struct jifl_moment *now, u64 *records, u32 n)
{
	u32 at, what;

	if (!jifl_ring_layout.ticks || JIFL_HOST_PLANTED(times_of_counters))
		return;
	/* Later than the records: each has its time before its place. */
	if (!now->tsc)
		*now = jifl_moment_of(cpu);
	for (at = 0; at < n; at += 1 + jifl_ring_words(what)) {
		what = (u32)records[at];
		if ((what & JIFL_RECORD_TYPE) == JIFL_RECORD_TIME)
			records[at] = jifl_ring_time(&jifl_rings.readers[cpu], now, records[at]);
	}
}

/*
 * Takes at most n words of those before the place total, no record in part; returns how many.
 * first: may skip records that are lost before.
 */
static u32 jifl_ring_take(unsigned int cpu, u64 *to, u32 n, bool first, u64 total)
{
	u64 *slots = (u64 *)&jifl_ring_layout.slots[(size_t)cpu * jifl_ring_distance() <<
						    jifl_ring_layout.order];
	struct jifl_ring_reader *r = &jifl_rings.readers[cpu];
	u32 taken = 0, words;
	u64 end;

	if (first)
		jifl_ring_skip(r, total);
	for (end = jifl_ring_readable(r, total); r->read + taken < end; taken += words) {
		u64 *slot = &slots[(r->read + taken) % jifl_ring_records()];
		u32 what = READ_ONCE(*(u32 *)slot);

		words = 1 + jifl_ring_words(what);
		if (!what || words > n - taken || r->read + taken + words > end)
			break;
		smp_rmb();	/* what belongs to the record was written before */
		jifl_ring_take_one(slot, &to[taken], words);
	}
	/*
	 * The writer has overtaken the reader meanwhile: it is not known how many of these were
	 * overwritten.
	 */
	total = jifl_ring_total(cpu);
	if (total - r->read > jifl_ring_records()) {
		r->zeroed = total;
		return 0;
	}
	r->read += taken;
	return taken;
}

/* Copies req->n words at most by way of the page. *done: how many. */
static int jifl_ring_copy(const struct jifl_records *req, u64 *page, u32 *done)
{
	struct jifl_ring_reader *r = &jifl_rings.readers[req->cpu];
	const u64 total = jifl_ring_total(req->cpu);
	struct jifl_moment now = {};
	u32 n, taken;
	int ret = 0;

	while (!ret && *done < req->n) {
		n = min_t(u32, PAGE_SIZE / sizeof(u64), req->n - *done);
		/* A loss lies before the records taken by this call, not between them. */
		taken = jifl_ring_take(req->cpu, page, n, !*done, total);
		if (!taken)
			break;
		jifl_ring_times(req->cpu, &now, page, taken);
		ret = copy_to_user(u64_to_user_ptr(req->buf + *done * sizeof(u64)), page,
				   taken * sizeof(u64)) ? -EFAULT : 0;
		/* What could not be copied has made room, too. */
		*done += taken;
		cond_resched();
	}
	if (now.tsc && r->read == total)
		r->before = now;
	return ret;
}

int jifl_ring_read(const struct jifl_ring_owner *o, struct jifl_records *req)
{
	u64 *page = JIFL_ALLOC((u64 *)__get_free_page(GFP_KERNEL));
	u32 done = 0;
	int ret = 0;

	if (!page)
		return -ENOMEM;
	mutex_lock(&jifl_rings.lock);
	if (jifl_rings.owner != o)
		ret = -ENOENT;
	else if (req->cpu >= nr_cpu_ids || !cpu_possible(req->cpu))
		ret = -EINVAL;
	else
		ret = jifl_ring_copy(req, page, &done);
	req->n = done;
	req->lost = ret ? 0 : jifl_rings.readers[req->cpu].lost;
	if (done) {
		jifl_ring_limit(req->cpu);
		jifl_ring_wait_wake();
	}
	jifl_ring_wait_count(&req->waits, &req->waited_ns);
	mutex_unlock(&jifl_rings.lock);
	free_page((unsigned long)page);
	return ret;
}
