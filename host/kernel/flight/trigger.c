// SPDX-License-Identifier: GPL-2.0
/*
 * Stops the recording at what it is to stop at: an event, the error of a system call, or two events
 * that belong together and have too much time between them.
 *
 * Two events belong together that have the same key: a thread, a CPU, or an argument. The first one
 * leaves its key and its time in a table of words, the second one takes them. A word has both, so a
 * reader sees those of one event, whoever writes. Of two keys that come to the same word, the later
 * replaces the earlier, whose second event then finds another key and is not measured: a time is
 * missed, and none is invented. Keys of more than JIFL_SLOW_KEY bits are hashed. Then two of them
 * can be equal, once in 2^20 pairs that meet in a word.
 *
 * Context: where records are written, NMI too. No locks, no calls of what may be instrumented.
 */
#include <linux/hash.h>
#include <linux/math64.h>
#include <linux/mm.h>
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

#define JIFL_SLOW_KEY	30	/* bits of a key: a thread's number has 22 */
#define JIFL_SLOW_ORDER	10	/* words of the table, as a power of two */
/* The word has the key's other 20 bits above 44 bits of time, in units of 1,024 ticks. */
#define JIFL_SLOW_TIME	44
#define JIFL_SLOW_UNIT	10

DEFINE_STATIC_KEY_FALSE(jifl_flight_may_stop);

/* Written while nobody records, but for stop_mask. */
static struct {
	u64 stop_mask;			/* these events stop it */
	s64 stop_errno;			/* a system call with this result does; 0: none */
	u64 after;			/* ticks that are recorded after that */
	u64 slow;			/* ticks between two events; 0: it is not asked for */
	u64 slow_value;			/* the first one's first argument; all ones: any */
	u16 slow_from, slow_to;
	u8 slow_from_key, slow_to_key;	/* enum jifl_flight_key */
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

void jifl_flight_trip(enum jifl_flight_stop why, u32 event, u64 after)
{
	struct jifl_flight_head *head = jifl_aim.head;
	unsigned long flags;

	/* The first event decides; who asks may have it stop earlier. */
	if (!jifl_flight_stop_by(head, rdtsc() + after, why == JIFL_FLIGHT_AT_REQUEST))
		return;
	WRITE_ONCE(head->stop_why, why);
	WRITE_ONCE(head->stop_event, event);
	if (in_nmi())
		return;
	flags = jifl_own_irq_save();
	jifl_region_flush_head(head);
	jifl_own_irq_restore(flags);
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
		return (u32)current->pid;
	}
	return key >> JIFL_SLOW_KEY ? hash_64(key, JIFL_SLOW_KEY) : key;
}

static void jifl_slow_begins(u64 key)
{
	const u64 time = rdtsc() >> JIFL_SLOW_UNIT & (BIT_ULL(JIFL_SLOW_TIME) - 1);

	WRITE_ONCE(jifl_aim.table[key & (BIT(JIFL_SLOW_ORDER) - 1)],
		   key >> JIFL_SLOW_ORDER << JIFL_SLOW_TIME | time);
}

/* How many ticks ago an event with the same key was the first; 0: it is not known. */
static u64 jifl_slow_ends(u64 key)
{
	u64 *word = &jifl_aim.table[key & (BIT(JIFL_SLOW_ORDER) - 1)];
	u64 was = READ_ONCE(*word), now = rdtsc() >> JIFL_SLOW_UNIT;

	if (!was || was >> JIFL_SLOW_TIME != key >> JIFL_SLOW_ORDER)
		return 0;
	/* Of two that find it, one takes it. */
	if (!try_cmpxchg(word, &was, 0))
		return 0;
	now = (now - was) & (BIT_ULL(JIFL_SLOW_TIME) - 1);
	/* Counters of CPUs may differ a little: the other one's is ahead. */
	return now >> (JIFL_SLOW_TIME - 1) ? 0 : now << JIFL_SLOW_UNIT;
}

void jifl_flight_look(u32 event, u64 a, u64 b)
{
	if (READ_ONCE(jifl_aim.stop_mask) >> event & 1)
		jifl_flight_trip(JIFL_FLIGHT_AT_EVENT, event, jifl_aim.after);
	if (jifl_aim.stop_errno && event == JIFL_FLIGHT_EXIT && (s64)b == jifl_aim.stop_errno)
		jifl_flight_trip(JIFL_FLIGHT_AT_ERRNO, event, jifl_aim.after);
	if (!jifl_aim.slow)
		return;
	/* First the end: an event may be both. */
	if (event == jifl_aim.slow_to &&
	    jifl_slow_ends(jifl_slow_key(jifl_aim.slow_to_key, a, b)) >= jifl_aim.slow)
		jifl_flight_trip(JIFL_FLIGHT_AT_SLOW, event, jifl_aim.after);
	if (event == jifl_aim.slow_from &&
	    (jifl_aim.slow_value == U64_MAX || jifl_aim.slow_value == a))
		jifl_slow_begins(jifl_slow_key(jifl_aim.slow_from_key, a, b));
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
		/* The unit's remainder is on the side of the bound that is not exceeded. */
		jifl_aim.slow = max(jifl_flight_ticks(req->slow_ns), 1ull);
		jifl_aim.slow_value = req->slow_value;
		jifl_aim.slow_from = req->slow_from;
		jifl_aim.slow_to = req->slow_to;
		jifl_aim.slow_from_key = req->slow_from_key;
		jifl_aim.slow_to_key = req->slow_to_key;
	}
	if (req->stop_mask || req->stop_errno || req->slow_ns)
		static_branch_enable(&jifl_flight_may_stop);
	return 0;
}

void jifl_flight_aim_at(u32 event)
{
	WRITE_ONCE(jifl_aim.stop_mask, jifl_aim.stop_mask | 1ull << event);
	static_branch_enable(&jifl_flight_may_stop);
}

void jifl_flight_aim_away(void)
{
	static_branch_disable(&jifl_flight_may_stop);
	kfree(jifl_aim.table);
	memset(&jifl_aim, 0, sizeof(jifl_aim));
}
