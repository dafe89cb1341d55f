// SPDX-License-Identifier: GPL-2.0
/*
 * Stops the recording at what it is to stop at: an event, the error of a system call, or two events
 * that belong together and have too much time between them.
 *
 * Why a time is missed rather than invented:
 *
 * 1. Two events belong together that have the same key: a thread, a CPU, or an argument. The first
 *    one leaves its key and its time in a table of words, the second one takes them. A word has
 *    both, so a reader sees those of one event, whoever writes. Of two keys that come to the same
 *    word, the later replaces the earlier, whose second event then finds another key and is not
 *    measured. Keys of more than JIFL_SLOW_KEY bits are hashed. Then two of them can be equal, once
 *    in 2^22 pairs that meet in a word. Times are those of the two records.
 * 2. A word whose second event was not recorded would be taken by a later one. So words do not
 *    outlive a time in which less was recorded: jifl_flight_aim_pause is called before the mask
 *    changes, and before a stopped recording goes on. It has nobody look at words, waits for those
 *    that do, which are readers of RCU (write.h, 5), and empties the table.
 * 3. Some calls have no end of their own: exit has none, and execve may end in a thread that has
 *    got its leader's number. Others have an end alone: a new thread comes out of a call that its
 *    parent has begun. So the key of a call has its number, too, beside the thread's: another
 *    call's end finds no word. Call numbers below 512, and that they are of a 32-bit program, fit
 *    without a hash.
 *
 * Context: where records are written, NMI too. No locks, no calls of what may be instrumented.
 */
#include <linux/bitops.h>
#include <linux/hash.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <asm/msr.h>
#include <asm/tsc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "flight.h"
#include "trigger.h"

#define JIFL_SLOW_THREAD 22	/* bits of a thread's number: PID_MAX_LIMIT */
#define JIFL_SLOW_KEY	32	/* bits of a key */
#define JIFL_SLOW_ORDER	10	/* words of the table, as a power of two */
/* The word has the key's other 22 bits above 42 bits of time, in units of 1,024 ticks: days. */
#define JIFL_SLOW_TIME	42
#define JIFL_SLOW_UNIT	10

DEFINE_STATIC_KEY_FALSE(jifl_flight_may_stop);

/* Written while nobody records, but for stop_mask, slow and the table. */
static struct {
	u64 stop_mask;			/* these events stop it */
	s64 stop_errno;			/* a system call with this result does; 0: none */
	u64 after;			/* ticks that are recorded after that */
	u64 bound;			/* ticks between two events that stop it; 0: none do */
	u64 slow;			/* the same; 0 while nobody looks at words: step 2 */
	u64 slow_value;			/* the first one's first argument; all ones: any */
	u16 slow_from, slow_to;
	u8 slow_from_key, slow_to_key;	/* enum jifl_flight_key */
	bool of_calls;			/* from the beginning of a system call to its end */
	u64 *table;
	struct jifl_flight_head *head;
} jifl_aim __read_mostly;

u64 jifl_flight_ticks(u64 ns)
{
	return mul_u64_u64_div_u64(ns, tsc_khz, NSEC_PER_MSEC);
}

/* --- stopping --------------------------------------------------------------------------------- */

/* It is to stop then, or before. Whether that was not so. */
static bool jifl_flight_stop_by(struct jifl_flight_head *head, u64 until, bool earlier)
{
	u64 old = READ_ONCE(head->stop_at);

	do {
		if (old != U64_MAX && !(earlier && until < old))
			return false;
	} while (!try_cmpxchg(&head->stop_at, &old, until));
	return true;
}

void jifl_flight_trip(enum jifl_flight_stop why, u32 event, u64 after, bool nmi)
{
	struct jifl_flight_head *head = jifl_aim.head;
	unsigned long flags;

	/* The first event decides; who asks may have it stop earlier. */
	if (!jifl_flight_stop_by(head, rdtsc() + after, why == JIFL_FLIGHT_AT_REQUEST))
		return;
	WRITE_ONCE(head->stop_why, why);
	WRITE_ONCE(head->stop_event, event);
	/* What an NMI calls may be instrumented. A panic flushes, too. */
	if (nmi)
		return;
	flags = jifl_own_irq_save();
	jifl_region_flush_head(head);
	jifl_own_irq_restore(flags);
}

bool jifl_flight_cut_short(struct jifl_flight_head *head)
{
	if (READ_ONCE(head->stop_at) == U64_MAX)
		return false;
	jifl_flight_stop_by(head, rdtsc(), true);
	return true;
}

/* --- time between two events ------------------------------------------------------------------ */

static u64 jifl_slow_key(enum jifl_flight_key kind, u64 a, u64 b)
{
	u64 key;

	switch (kind) {
	case JIFL_FLIGHT_KEY_ARG0:
		key = a;
		break;
	case JIFL_FLIGHT_KEY_ARG1:
		key = b;
		break;
	case JIFL_FLIGHT_KEY_CPU:
		return raw_smp_processor_id();
	default:
		key = (u32)current->pid;
		/* Step 3. The bit of 32-bit programs comes to stand below the number. */
		if (jifl_aim.of_calls)
			key |= (u64)rol32(a, 1) << JIFL_SLOW_THREAD;
	}
	return key >> JIFL_SLOW_KEY ? hash_64(key, JIFL_SLOW_KEY) : key;
}

static void jifl_slow_begins(u64 key, u64 time)
{
	time = time >> JIFL_SLOW_UNIT & (BIT_ULL(JIFL_SLOW_TIME) - 1);
	WRITE_ONCE(jifl_aim.table[key & (BIT(JIFL_SLOW_ORDER) - 1)],
		   key >> JIFL_SLOW_ORDER << JIFL_SLOW_TIME | time);
}

/* How many ticks before an event with the same key was the first; 0: it is not known. */
static u64 jifl_slow_ends(u64 key, u64 time)
{
	u64 *word = &jifl_aim.table[key & (BIT(JIFL_SLOW_ORDER) - 1)];
	u64 was = READ_ONCE(*word), now = time >> JIFL_SLOW_UNIT;

	if (!was || was >> JIFL_SLOW_TIME != key >> JIFL_SLOW_ORDER)
		return 0;
	/* Of two that find it, one takes it. */
	if (!try_cmpxchg(word, &was, 0))
		return 0;
	now = (now - was) & (BIT_ULL(JIFL_SLOW_TIME) - 1);
	/* Counters of CPUs may differ a little: the other one's is ahead. */
	return now >> (JIFL_SLOW_TIME - 1) ? 0 : now << JIFL_SLOW_UNIT;
}

void jifl_flight_look(u32 event, u64 a, u64 b, u64 time, bool nmi)
{
	u64 slow;

	if (READ_ONCE(jifl_aim.stop_mask) >> event & 1)
		jifl_flight_trip(JIFL_FLIGHT_AT_EVENT, event, jifl_aim.after, nmi);
	if (jifl_aim.stop_errno && event == JIFL_FLIGHT_EXIT && (s64)b == jifl_aim.stop_errno)
		jifl_flight_trip(JIFL_FLIGHT_AT_ERRNO, event, jifl_aim.after, nmi);
	slow = READ_ONCE(jifl_aim.slow);
	if (!slow)
		return;
	/* First the end: an event may be both. */
	if (event == jifl_aim.slow_to &&
	    jifl_slow_ends(jifl_slow_key(jifl_aim.slow_to_key, a, b), time) >= slow)
		jifl_flight_trip(JIFL_FLIGHT_AT_SLOW, event, jifl_aim.after, nmi);
	if (event == jifl_aim.slow_from &&
	    (jifl_aim.slow_value == U64_MAX || jifl_aim.slow_value == a))
		jifl_slow_begins(jifl_slow_key(jifl_aim.slow_from_key, a, b), time);
}

/* --- beginning and end ------------------------------------------------------------------------ */

int jifl_flight_aim(struct jifl_flight_head *head, const struct jifl_flight *req)
{
	memset(&jifl_aim, 0, sizeof(jifl_aim));
	jifl_aim.head = head;
	jifl_aim.stop_mask = req->stop_mask;
	jifl_aim.stop_errno = req->stop_errno;
	jifl_aim.after = jifl_flight_ticks(req->after_ns);
	if (req->slow_ns) {
		jifl_aim.table = JIFL_ALLOC(kcalloc(BIT(JIFL_SLOW_ORDER), sizeof(u64),
						    GFP_KERNEL));
		if (!jifl_aim.table)
			return -ENOMEM;
		/* Both times are cut to units: what is measured may be one unit too long. */
		jifl_aim.bound = jifl_flight_ticks(req->slow_ns) + BIT(JIFL_SLOW_UNIT);
		jifl_aim.slow_value = req->slow_value;
		jifl_aim.slow_from = req->slow_from;
		jifl_aim.slow_to = req->slow_to;
		jifl_aim.slow_from_key = req->slow_from_key;
		jifl_aim.slow_to_key = req->slow_to_key;
		jifl_aim.of_calls = req->slow_from == JIFL_FLIGHT_ENTER &&
				    req->slow_to == JIFL_FLIGHT_EXIT &&
				    req->slow_from_key == JIFL_FLIGHT_KEY_THREAD &&
				    req->slow_to_key == JIFL_FLIGHT_KEY_THREAD;
	}
	if (req->stop_mask || req->stop_errno || req->slow_ns)
		static_branch_enable(&jifl_flight_may_stop);
	return 0;
}

void jifl_flight_aim_pause(void)
{
	if (!jifl_aim.bound)
		return;
	WRITE_ONCE(jifl_aim.slow, 0);
	synchronize_rcu();
	memset(jifl_aim.table, 0, BIT(JIFL_SLOW_ORDER) * sizeof(u64));
}

void jifl_flight_aim_resume(void)
{
	/* Who reads this finds the table empty: stores are seen in their order. */
	smp_store_release(&jifl_aim.slow, jifl_aim.bound);
}

void jifl_flight_aim_at(u32 event, bool stops)
{
	const u64 rest = jifl_aim.stop_mask & ~(1ull << event);

	WRITE_ONCE(jifl_aim.stop_mask, rest | (u64)stops << event);
	if (stops)
		static_branch_enable(&jifl_flight_may_stop);
}

void jifl_flight_aim_away(void)
{
	static_branch_disable(&jifl_flight_may_stop);
	kfree(jifl_aim.table);
	memset(&jifl_aim, 0, sizeof(jifl_aim));
}
