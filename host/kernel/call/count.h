/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What count.c, stats.c and switch.c share: how a running call is known, and the figures
 * that it goes into at its end.
 */
#ifndef JIFL_HOST_COUNT_H
#define JIFL_HOST_COUNT_H

#include "../kernel.h"
#include "../store/histogram.h"

/* --- the identity of a call -------------------------------------------------- */

/*
 * struct jifl_lane.call is (slot << 16 | nr + 1): small enough for the 32-bit
 * immediate that the entry piece stores, and never 0.
 */
#define JIFL_COUNT_SLOTS	4096	/* counting sessions at a time, one less */

/*
 * Set and cleared under jifl_session_mutex. A call of a slot's session can be
 * in flight only between the two, so readers need no lock.
 */
extern struct jifl_session *jifl_count_slots[JIFL_COUNT_SLOTS];

static inline u32 jifl_count_id(const struct jifl_session *s, unsigned int nr)
{
	return s->slot << 16 | (nr + 1);
}

static inline struct jifl_session *jifl_count_session(u64 call)
{
	return jifl_count_slots[(call >> 16) % JIFL_COUNT_SLOTS];
}

static inline unsigned int jifl_count_nr(u64 call)
{
	return ((call & 0xffff) - 1) % JIFL_NR_MAX;
}

/* What the call has counted is final: the task died in it. With preemption off. */
void jifl_count_finish_dead(u64 call, u64 count);
/* The call is missed; it may be 0. */
void jifl_count_miss_call(u64 call, enum jifl_miss why);

/* --- stats.c: the figures of one system call of a session --------------------- */

/* One CPU's part. Written on this CPU with preemption off, read from any. */
struct jifl_stats_cpu {
	u64 calls;
	u64 no_return;
	u64 sum;
	u64 min;
	u64 max;
	u32 hist[JIFL_HIST_BUCKETS];	/* a full bucket stays full */
};

struct jifl_stats {
	DECLARE_FLEX_ARRAY(struct jifl_stats_cpu *, cpu);	/* nr_cpu_ids */
};

/* Cells for JIFL_KIND_CALL, shared by sessions: does it count calls there? */
static inline bool jifl_stats_in_cells(const struct jifl_session *s)
{
	return (s->kind == JIFL_KIND_CALL || s->kind == JIFL_KIND_LOCK) && !s->lane &&
	       !(s->flags & (JIFL_FLAGS_BY | JIFL_FLAGS_VALUE));
}

int jifl_stats_init(void);
void jifl_stats_exit(void);
/* Fills in the cell of a system call; false when all are taken. Under jifl_entry_lock. */
bool jifl_stats_cell(unsigned int nr, struct ir_operand *cell);
/* What s has counted in shared cells becomes its own. */
void jifl_stats_settle(struct jifl_session *s);

/* Preemption is off, here and below. Inlined: it is what the end of each call costs. */
static __always_inline void jifl_stats_call(struct jifl_stats_cpu *st, bool no_return)
{
	WRITE_ONCE(st->calls, st->calls + 1);
	if (no_return)
		WRITE_ONCE(st->no_return, st->no_return + 1);
}

static __always_inline void jifl_stats_sum(struct jifl_stats_cpu *st, u64 value)
{
	WRITE_ONCE(st->sum, st->sum + value);
	if (value < st->min)
		WRITE_ONCE(st->min, value);
	if (value > st->max)
		WRITE_ONCE(st->max, value);
}

static __always_inline void jifl_stats_bucket(struct jifl_stats_cpu *st, u32 bucket)
{
	if (st->hist[bucket] != U32_MAX)
		WRITE_ONCE(st->hist[bucket], st->hist[bucket] + 1);
}

static __always_inline void jifl_stats_add(struct jifl_stats_cpu *st, u64 value, bool no_return)
{
	jifl_stats_call(st, no_return);
	jifl_stats_sum(st, value);
	jifl_stats_bucket(st, jifl_hist_bucket(value));
}

/* An argument, or what a call returned. */
static inline void jifl_stats_add_signed(struct jifl_stats_cpu *st, u64 value)
{
	jifl_stats_call(st, false);
	if ((s64)value >= 0)
		jifl_stats_sum(st, value);
	jifl_stats_bucket(st, jifl_hist_power(value));
}

/* --- switch.c: the calls of tasks that are not running ------------------------- */

int jifl_switch_init(void);
void jifl_switch_exit(void);
/* The hook in sched_switch. Sleep. */
int jifl_switch_hook(void);
void jifl_switch_unhook(void);
/* What a CPU records next is of the thread that comes to run there: is there a session that asks? */
void jifl_switch_marks(bool wanted);

#endif
