// SPDX-License-Identifier: GPL-2.0
/*
 * Runs where a wait for a lock begins and ends, and where a locked cmpxchg is tried again.
 *
 * A wait is identified by the stack pointer at its slow path's entry, which is the same before the
 * slow path returns. So waits within waits are told apart (a mutex's slow path takes a spinlock),
 * and it does not matter on which CPUs the task has run meanwhile. If the end of a wait is not
 * seen, because its session ended or it returned natively, it has no time. Its record stays until
 * another wait begins at the same place of the same stack. A slow path that is entered natively
 * returns natively, or its task is taken over there when the session starts (session/adopt.c). Then
 * the session has no wait yet. So no end is taken for that of another wait.
 *
 * Context: any lock may be held, that of a run queue, too; interrupts on or off. These functions
 * allocate nothing, and take only the table's own lock, a leaf.
 */
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/ksym.h"
#include "../../compat/preempt.h"
#include "../../store/percpu.h"
#include "lock.h"

/* Maximum of frames of locking functions, and of JIFL's, below the caller. */
#define DEPTH	12
/* Number of places in which a wait may be, from that of its hash on. */
#define WINDOW	16

/* Functions of scheduler and mutexes, as in in_sched_functions(), which is not exported. */
static unsigned long sched_start, sched_end;

void jifl_lock_wait_init(void)
{
	sched_start = jifl_ksym("__sched_text_start");
	sched_end = jifl_ksym("__sched_text_end");
}

/* --- the function that wants the lock ---------------------------------------------------- */

/* True if the call that returns to addr is in a function that takes locks for others. */
static bool jifl_lock_is_locking(unsigned long addr)
{
	const unsigned long call = addr - 1;

	return within_module(call, THIS_MODULE) || in_lock_functions(call) ||
	       (call >= sched_start && call < sched_end) || jifl_lock_slow_at(call);
}

/* The return address in the function that wants the lock; 0: not found. */
static unsigned long jifl_lock_caller_of(unsigned long outer)
{
	unsigned long frames[DEPTH];
	unsigned int i, n = stack_trace_save(frames, DEPTH, 0);

	for (i = 0; i < n; i++)
		if (!jifl_lock_is_locking(frames[i]) && !outer--)
			return frames[i];
	return 0;
}

/* --- waits ------------------------------------------------------------------------------- */

/* The identity of a wait. */
static unsigned long jifl_lock_place_of(unsigned long sp)
{
	return JIFL_HOST_PLANTED(waits_by_task) ? (unsigned long)current : sp;
}

static struct jifl_lock_wait *jifl_lock_wait_at(struct jifl_lock_waits *w, unsigned long sp,
						unsigned int i)
{
	return &w->waits[(hash_long(sp, JIFL_LOCK_WAITS_BITS) + i) &
			 ((1u << JIFL_LOCK_WAITS_BITS) - 1)];
}

static struct jifl_lock_wait *jifl_lock_find_wait(struct jifl_lock_waits *w, unsigned long sp)
{
	struct jifl_lock_wait *wait;
	unsigned int i;

	for (i = 0; i < WINDOW; i++) {
		wait = jifl_lock_wait_at(w, sp, i);
		if (READ_ONCE(wait->sp) == sp)
			return wait;
	}
	return NULL;
}

/* An old wait at this place of the stack will not end any more: its record is reused. */
static struct jifl_lock_wait *jifl_lock_take_wait(struct jifl_lock_waits *w, unsigned long sp)
{
	struct jifl_lock_wait *wait = jifl_lock_find_wait(w, sp);
	unsigned int i;

	for (i = 0; !wait && i < WINDOW; i++) {
		wait = jifl_lock_wait_at(w, sp, i);
		/* Pairs with the releases in lock_end and jifl_lock_forget_wait. */
		if (READ_ONCE(wait->sp) || cmpxchg_acquire(&wait->sp, 0, sp))
			wait = NULL;
	}
	return wait;
}

/* Drops an old wait at this place of the stack, which could be mistaken for the new one. */
static void jifl_lock_forget_wait(struct jifl_lock_waits *w, unsigned long sp)
{
	struct jifl_lock_wait *wait = jifl_lock_find_wait(w, sp);

	/* Pairs with the acquire in jifl_lock_take_wait. */
	if (wait)
		smp_store_release(&wait->sp, 0);
}

/*
 * mutex_lock_io() enters the slow path without trying first. So does mutex_lock() in kernels that
 * debug locks.
 */
static bool jifl_lock_is_free(const struct jifl_lock_slow *slow, unsigned long lock)
{
	return slow->type == JIFL_LOCK_MUTEX &&
	       !atomic_long_read((const atomic_long_t *)lock);
}

static void lock_begin(struct jifl_lock_table *t, unsigned long lock, unsigned long sp,
		       const struct jifl_lock_slow *slow)
{
	/* Read before the stack walk, because its time is part of the wait. */
	const u64 now = ktime_get_mono_fast_ns();
	struct jifl_lock_waits *w = jifl_lock_waits(t);
	struct jifl_lock_wait *wait;
	struct jifl_lock_name name;
	struct jifl_lock_cell *cell;

	static_assert(!offsetof(struct mutex, owner));
	if (jifl_lock_is_free(slow, lock)) {
		jifl_lock_forget_wait(w, jifl_lock_place_of(sp));
		return;
	}
	name = (struct jifl_lock_name){
		.lock = lock,
		.caller = jifl_lock_caller_of(0),
		.site = slow->start,
		.type = slow->type,
	};
	cell = jifl_lock_cell(t, &name);
	atomic64_inc(&cell->contended);
	wait = jifl_lock_take_wait(w, jifl_lock_place_of(sp));
	if (!wait) {
		atomic64_inc(&w->untimed);
		return;
	}
	wait->since = now;
	wait->cell = cell;
}

static void jifl_lock_add_wait(struct jifl_lock_cell *cell, s64 ns)
{
	s64 max = atomic64_read(&cell->max_ns);

	atomic64_inc(&cell->ended);
	atomic64_add(ns, &cell->wait_ns);
	while (ns > max && !atomic64_try_cmpxchg(&cell->max_ns, &max, ns))
		;
}

static void lock_end(struct jifl_lock_table *t, unsigned long sp)
{
	struct jifl_lock_waits *w = jifl_lock_waits(t);
	struct jifl_lock_wait *wait = jifl_lock_find_wait(w, jifl_lock_place_of(sp));

	if (!wait)
		return;
	jifl_lock_add_wait(wait->cell, ktime_get_mono_fast_ns() - wait->since);
	/* Pairs with the acquire in jifl_lock_take_wait. */
	smp_store_release(&wait->sp, 0);
}

/*
 * The stack is walked only if another function wants the lock. The longer this takes, the more
 * probably the next try fails, too.
 */
static void lock_retry(struct jifl_lock_table *t, unsigned long lock, unsigned long site,
		       unsigned long outer)
{
	const struct jifl_lock_name name = {
		.lock = lock,
		.caller = outer ? jifl_lock_caller_of(outer) : site,
		.site = site,
		.type = JIFL_LOCK_CMPXCHG,
	};

	atomic64_inc(&jifl_lock_cell(t, &name)->contended);
}

/* --- what is inserted -------------------------------------------------------------------- */

/*
 * The functions of the kernel that are called here may be targets. Their doors would lead back here
 * (jifl_own_begin).
 */
static void leave_alone(void)
{
	preempt_disable_notrace();
	jifl_own_begin();
}

static void leave_alone_no_more(void)
{
	jifl_own_end();
	jifl_preempt_enable();
}

void jifl_lock_begin(struct jifl_lock_table *t, unsigned long lock, unsigned long sp,
		     const struct jifl_lock_slow *slow)
{
	leave_alone();
	lock_begin(t, lock, sp, slow);
	leave_alone_no_more();
}

void jifl_lock_end(struct jifl_lock_table *t, unsigned long sp)
{
	leave_alone();
	lock_end(t, sp);
	leave_alone_no_more();
}

void jifl_lock_retry(struct jifl_lock_table *t, unsigned long lock, unsigned long site,
		     unsigned long outer)
{
	leave_alone();
	lock_retry(t, lock, site, outer);
	leave_alone_no_more();
}
