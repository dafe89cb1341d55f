/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records of one session.
 *
 *   ring.c		a ring for each CPU, and its reader
 *   ring_write.c	what is written there
 *   ring_wait.c	tasks that wait until the reader has taken records
 */
#ifndef JIFL_RING_H
#define JIFL_RING_H

#include <linux/bitops.h>
#include <linux/percpu.h>
#include <asm/tsc.h>

#include "../kernel.h"
#include "percpu.h"

/* --- ring.c ------------------------------------------------------------------- */

#define JIFL_RING_ORDER		16	/* 64 Ki records, 512 KiB: a record for each function */
#define JIFL_RING_PATH_ORDER	18	/* 2 MiB: a record for each block */
#define JIFL_RING_WORDS_ORDER	20	/* with words: 8 MiB, and as much behind each ring */

/* Who has the rings, and how. It stays where it is until jifl_ring_close. */
struct jifl_ring_owner {
	const u64 *session;	/* its number, for others that want the rings */
	const bool *running;	/* does it still record? */
	pid_t reader;		/* tasks of this process do not wait */
	unsigned int order;	/* of a ring's records, log 2; less where there are many CPUs */
	bool words;		/* records may carry words */
	bool clock;		/* marks carry the time stamp counter */
	bool waits;		/* tasks wait for the reader */
};

/*
 * Makes the rings belong to o. -EALREADY with *busy_session set when another session has them,
 * -ENOMEM. Sleeps.
 */
int jifl_ring_open(const struct jifl_ring_owner *o, u64 *busy_session);
/*
 * From here on no task waits for the rings to be read. Does nothing if the rings are not o's.
 * Sleeps.
 */
void jifl_ring_stop(const struct jifl_ring_owner *o);
/* Called when no inserted code of o is left. Does nothing if the rings are not o's. Sleeps. */
void jifl_ring_close(const struct jifl_ring_owner *o);
/*
 * Makes the task wait, on its way back to user space, until some records of this CPU's ring are
 * taken. of_function: a call of a function has ended, where any lock may be held.
 */
void jifl_ring_end_wait(bool of_function);
/* From here on no task waits until the ring is read again. */
void jifl_ring_limits_lift(void);
/* JIFL_IOC_RECORDS. Sleeps. */
int jifl_ring_read(const struct jifl_ring_owner *o, struct jifl_records *req);

/* --- ring_write.c ---------------------------------------------------------------- */

/* Adds a record of `what`, and of rsp; NULL: there was no room for the insert. */
struct ir_insert *jifl_ring_record(struct ir_block *b, enum ir_place place, u16 at, u32 what);
/* Makes *ins, whose place and words are the caller's, such an insert; for entry pieces, too. */
void jifl_ring_fill(struct ir_insert *ins, u32 what);
/* The same before instruction `at` of a function's block, which begins the block or returns. */
struct ir_insert *jifl_ring_insert(struct ir_block *b, u16 at, u32 what);

/* --- writing: what every call costs -------------------------------------------------- */

#define JIFL_RING_TIME_BITS	28	/* in the first word */

/* Constant while a session has the rings. */
extern struct jifl_ring_layout {
	struct jifl_record *slots;	/* nr_cpu_ids rings */
	u64 one;			/* one place, as a cell's value */
	unsigned int order;		/* of a ring's records, log 2 */
	bool words;			/* records may carry words */
	bool clock;			/* marks carry the time stamp counter */
	bool ticks;			/* times are of that counter until they are read */
} jifl_ring_layout;

/* ring_write.c: the time, where the counter cannot be used. Preemption is off. */
u64 jifl_ring_clock(void);

/* Calls no function of the kernel, where the counter can be used. Preemption is off. */
static __always_inline u64 jifl_ring_now(const struct jifl_ring_layout *l)
{
	return likely(l->ticks) ? rdtsc_ordered() : jifl_ring_clock();
}

/* The first of n places, as a cell's value. */
static __always_inline u64 jifl_ring_reserve(const struct jifl_ring_layout *l, u32 n)
{
	return this_cpu_add_return(jifl_cpu.ring, n * l->one) - n * l->one;
}

/* A moment: its time, and if it is asked for the time stamp counter. */
struct jifl_ring_stamp {
	u64 time, tsc;
};

/*
 * The same, with the stamp of that moment: stamps rise from place to place, also where an interrupt
 * comes between reading the time and taking the places. clock: with the counter. Preemption is off.
 */
static __always_inline u64 jifl_ring_reserve_at_time(const struct jifl_ring_layout *l, u32 n,
						     bool clock, struct jifl_ring_stamp *stamp)
{
	u64 at;

	do {
		at = this_cpu_read(jifl_cpu.ring);
		stamp->time = jifl_ring_now(l);
		stamp->tsc = !clock || l->ticks ? stamp->time : rdtsc_ordered();
	} while (unlikely(this_cpu_cmpxchg(jifl_cpu.ring, at, at + n * l->one) != at));
	return at;
}

/* Stores a record. The place of the cell's value belongs to this record. */
static __always_inline void jifl_ring_store(const struct jifl_ring_layout *l, u64 cell, u32 what,
					    u32 value)
{
	struct jifl_record *slot = &l->slots[rol32((u32)cell, l->order)];

	WRITE_ONCE(slot->value, value);
	smp_wmb();	/* the reader looks at `what` first */
	WRITE_ONCE(slot->what, what);
}

/* The first word of a record of the time. */
static __always_inline u32 jifl_ring_time_what(u64 time)
{
	return JIFL_RECORD_TIME | (time & ((1u << JIFL_RING_TIME_BITS) - 1));
}

static __always_inline void jifl_ring_store_mark(const struct jifl_ring_layout *l, u64 cell,
						 u32 what, u32 value, u64 time)
{
	jifl_ring_store(l, cell, what, value);
	jifl_ring_store(l, cell + l->one, jifl_ring_time_what(time),
			(u32)(time >> JIFL_RING_TIME_BITS));
}

/* The bits of a call's result that a record has. */
#define JIFL_RING_RESULT_BITS	59

static __always_inline bool jifl_ring_fits_result(u64 result)
{
	return (s64)(result << (64 - JIFL_RING_RESULT_BITS)) >> (64 - JIFL_RING_RESULT_BITS) ==
	       (s64)result;
}

/* Stores the result of a call; of one that does not fit, the bits that a record has. */
static __always_inline void jifl_ring_store_result(const struct jifl_ring_layout *l, u64 cell,
						   u64 result)
{
	jifl_ring_store(l, cell, JIFL_RECORD_RESULT | ((u32)(result >> 32) & JIFL_RECORD_HIGH),
			(u32)result);
}

/*
 * ring_write.c: jifl_ring_mark in any ring, also one whose records carry words. The cell's value.
 */
u64 jifl_ring_mark_words(u32 what, u32 value);
/*
 * ring_write.c: jifl_ring_end in any ring, also of a result that does not fit. The cell's value.
 */
u64 jifl_ring_end_rare(u32 what, u32 value, const u64 *result);

/* Records `what` and a value. */
static __always_inline void jifl_ring_put(u32 what, u32 value)
{
	const struct jifl_ring_layout l = jifl_ring_layout;

	jifl_ring_store(&l, jifl_ring_reserve(&l, 1), what, value);
}

/* Records what | JIFL_RECORD_TIME and the time. With preemption off. */
static __always_inline void jifl_ring_mark(u32 what, u32 value)
{
	const struct jifl_ring_layout l = jifl_ring_layout;
	struct jifl_ring_stamp now;
	u64 at;

	if (l.words) {
		jifl_ring_mark_words(what, value);
		return;
	}
	at = jifl_ring_reserve_at_time(&l, 2, false, &now);
	jifl_ring_store_mark(&l, at, what, value, now.time);
}

/*
 * The same at a call's end; result: recorded before that. Returns true when the task should wait
 * then.
 */
static __always_inline bool jifl_ring_end(u32 what, u32 value, const u64 *result)
{
	const struct jifl_ring_layout l = jifl_ring_layout;
	const u32 n = result ? 1 : 0;
	struct jifl_ring_stamp now;
	u64 at;

	if (l.words || unlikely(result && !jifl_ring_fits_result(*result))) {
		at = jifl_ring_end_rare(what, value, result);
	} else {
		at = jifl_ring_reserve_at_time(&l, n + 2, false, &now);
		if (result)
			jifl_ring_store_result(&l, at, *result);
		jifl_ring_store_mark(&l, at + n * l.one, what, value, now.time);
	}
	return at >= this_cpu_read(jifl_cpu.ring_limit);
}

/* --- ring_wait.c ---------------------------------------------------------------- */

void jifl_ring_wait_exit(void);
/* From here on tasks may wait, except those of process `reader`; 0: no task may wait. */
void jifl_ring_wait_open(pid_t reader);
/* From here on no task waits. Sleeps. */
void jifl_ring_wait_close(void);
/* The current task waits, on its way back to user space, until *limit has another value. */
void jifl_ring_wait(const u64 *limit);
/*
 * The same at a function's return: any lock may be held. Kernel threads do not wait, as they never
 * are on their way to user space.
 */
void jifl_ring_wait_in_kernel(const u64 *limit);
/* Called when some limits have another value. */
void jifl_ring_wait_wake(void);
/* How often tasks waited since the wait was opened, and the nanoseconds of all waits together. */
void jifl_ring_wait_count(u64 *waits, u64 *ns);

#endif
