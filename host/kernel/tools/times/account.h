/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A call of a function begins, or ends: what account.c and about.c do to its row. account.c says
 * why the sums are right. Context: any.
 */
#ifndef JIFL_HOST_TIMES_ACCOUNT_H
#define JIFL_HOST_TIMES_ACCOUNT_H

#include <linux/irqflags.h>
#include <linux/types.h>
#include <asm/msr.h>

#include "times.h"

/* Each is one instruction. On x86 others see stores in their order. */
#define jifl_times_add(cell, value)	\
	asm volatile("addq %1, %0" : "+m" (cell) : "r" ((u64)(value)) : "memory", "cc")
#define jifl_times_sub(cell, value)	\
	asm volatile("subq %1, %0" : "+m" (cell) : "r" ((u64)(value)) : "memory", "cc")
#define jifl_times_inc32(cell)	\
	asm volatile("incl %0" : "+m" (cell) : : "memory", "cc")

static __always_inline bool jifl_times_is_0(const u32 *depth)
{
	bool is_0;

	asm volatile("cmpl $0, %1" : "=@ccz" (is_0) : "m" (*depth) : "memory");
	return is_0;
}

/* Less by one: is it 0 now? */
static __always_inline bool jifl_times_dec(u32 *depth)
{
	bool is_0;

	asm volatile("decl %1" : "=@ccz" (is_0), "+m" (*depth) : : "memory");
	return is_0;
}

/* What is counted beside times. */
enum jifl_times_beside {
	JIFL_TIMES_ALONE,	/* nothing */
	JIFL_TIMES_EVENT,	/* one tracepoint's events */
	JIFL_TIMES_VARIABLE,	/* one variable, `arg` */
	JIFL_TIMES_SEVERAL,	/* the counters of the session, `arg`; or a number of CPUs */
	JIFL_TIMES_BESIDE,
};

/* At a beginning the counters are taken off the row, at an end they are added. */
static __always_inline void jifl_times_count(enum jifl_times_beside beside, const void *arg,
					     const struct jifl_times_record *r,
					     struct jifl_times_row *row, bool ends)
{
	const struct jifl_times *several = beside == JIFL_TIMES_SEVERAL ? arg : NULL;
	const u32 n = several ? several->ncounters : beside != JIFL_TIMES_ALONE;
	u32 i;

	for (i = 0; i < n; i++) {
		const u64 now = several ? jifl_times_counter_of(several, r, i) :
				READ_ONCE(*(beside == JIFL_TIMES_EVENT ? &r->events[0] :
									 (const u64 *)arg));

		if (ends)
			jifl_times_add(jifl_times_counted(row)[i], now);
		else
			jifl_times_sub(jifl_times_counted(row)[i], now);
	}
}

/*
 * With numbers of CPUs interrupts are off while a call's are read: the record and the number are
 * those of one CPU, and an interrupt is in the call's time if it is in its number.
 */
static __always_inline unsigned long jifl_times_hold(enum jifl_times_beside beside,
						     const void *arg)
{
	const struct jifl_times *several = beside == JIFL_TIMES_SEVERAL ? arg : NULL;
	unsigned long flags = 0;

	if (several && several->has_numbers)
		raw_local_irq_save(flags);
	return flags;
}

static __always_inline void jifl_times_let_go(enum jifl_times_beside beside, const void *arg,
					      unsigned long flags)
{
	const struct jifl_times *several = beside == JIFL_TIMES_SEVERAL ? arg : NULL;

	if (several && several->has_numbers)
		raw_local_irq_restore(flags);
}

/* Who reads sees by calls that it has begun, and by depth that it is done. */
static __always_inline void jifl_times_begin(struct jifl_times_record *r,
					     struct jifl_times_row *row,
					     enum jifl_times_beside beside, const void *arg)
{
	unsigned long flags;

	jifl_times_inc(row->calls);
	if (likely(jifl_times_is_0(&row->depth))) {
		flags = jifl_times_hold(beside, arg);
		jifl_times_count(beside, arg, r, row, false);
		jifl_times_sub(row->wall, rdtsc());
		jifl_times_sub(row->blocked, r->blocked);
		jifl_times_sub(row->runnable, r->runnable);
		jifl_times_let_go(beside, arg, flags);
	}
	jifl_times_inc32(row->depth);
}

/* Likewise by depth, and by `ended`. */
static __always_inline void jifl_times_finish(struct jifl_times_record *r,
					      struct jifl_times_row *row, u64 *ended,
					      enum jifl_times_beside beside, const void *arg)
{
	unsigned long flags;

	if (unlikely(jifl_times_is_0(&row->depth))) {
		jifl_times_inc32(row->strays);
		return;
	}
	if (likely(jifl_times_dec(&row->depth))) {
		flags = jifl_times_hold(beside, arg);
		jifl_times_add(row->wall, rdtsc());
		jifl_times_add(row->blocked, r->blocked);
		jifl_times_add(row->runnable, r->runnable);
		jifl_times_count(beside, arg, r, row, true);
		jifl_times_let_go(beside, arg, flags);
	}
	jifl_times_inc(*ended);
}

#endif
