/* SPDX-License-Identifier: GPL-2.0 */
/* The figures of one target of a session: figures of each CPU, or a counter (stats.c). */
#ifndef JIFL_HOST_STATS_H
#define JIFL_HOST_STATS_H

#include <linux/types.h>
#include "../../../engine/engine.h"
#include "../store/histogram.h"
#include "tool.h"
#include "whose.h"

/*
 * One CPU's part. Written on this CPU with preemption off, read from any. Of functions, with
 * interrupts off, too, but for jifl_stats_call.
 */
struct jifl_stats_cpu {
	u64 calls;
	u64 no_return;
	u64 sum;
	u64 min;
	u64 max;
	u32 hist[];	/* jifl_stats_buckets of the session; a full bucket stays full */
};

int jifl_stats_init(void);
void jifl_stats_exit(void);
/*
 * Where calls of the aim, whose session counts calls and nothing else of them, are to be counted.
 * Any context.
 */
u64 __percpu *jifl_stats_counter(const struct jifl_aim *aim);
/* Gives the aim a nearer counter, if it can use one and one is free. Under jifl_entry_lock. */
void jifl_stats_take_cell(struct jifl_aim *aim);

/* From here on: preemption is off. Inlined, because each call executes them at its end. */
static __always_inline void jifl_stats_call(struct jifl_stats_cpu *st, bool no_return)
{
	/* One instruction, between whose parts no interrupt can add to the same. */
	asm volatile("incq %0" : "+m" (st->calls));
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

/* value: an argument of a call, or its result. */
static inline void jifl_stats_add_signed(struct jifl_stats_cpu *st, u64 value)
{
	jifl_stats_call(st, false);
	if ((s64)value >= 0)
		jifl_stats_sum(st, value);
	jifl_stats_bucket(st, jifl_hist_power(value));
}

#endif
