// SPDX-License-Identifier: GPL-2.0
/*
 * What is done where a call of a function begins and where it ends: a few instructions, which the
 * engine inlines in copies.
 *
 * Why the sums are right:
 *
 * 1. Of a call that began at b and ended at e, the time is e - b. So the sum of all ends less the
 *    sum of all beginnings is the time of all calls that have ended. Calls inside each other are
 *    one time: only the first beginning and the last end of them count (depth).
 * 2. A call that has not ended is in `depth`. Who reads adds the time of reading for it.
 * 3. A task's record has how long the task was blocked, and how long it was runnable and did not
 *    run. Both stand still while it runs, so they are read at a call's beginning and end in the way
 *    in which the counter is. The difference is what the call had of them. The rest of its time the
 *    task ran. So wall = cpu + blocked + runnable is an identity, not a measurement.
 * 4. A record has one writer: the task, or what runs at its level on a CPU. A preempted task goes
 *    on with the record that it has read, which is its own on each CPU. If it is preempted between
 *    the level and the record it reads that of the CPU on which it goes on. What interrupts it is
 *    at another level, and has another record. In between stand only the few instructions on the
 *    way into an interrupt and out of it, where the level is not raised. They end before the
 *    interrupted code goes on. Each change is one instruction, so none is lost.
 * 5. A beginning and its end are at one level (store/level.h), and of one task. Of a function where
 *    they are not, the end is a stray, or ends another call of its, and the beginning is one that
 *    never ends: both are shown.
 * 6. Of a function that is one instruction, beginning and end are one place, and no time.
 * 7. Counters of processors are the same: jifl_moment_is_steady, and the kernel has not found them
 *    apart (check_tsc_unstable).
 *
 * 8. With objects, a row also keeps what it had when the first of its calls began, which is not a
 *    sum. So an NMI-like exception inside another one, which has the same record, must not write
 *    that in the middle of a change. For the whole change depth is above 0: what comes in between
 *    is a call inside this one. These changes are called, with interrupts off.
 *
 * 9. A value of a call is added to its row while depth is above 0, in one instruction. So the call
 *    has it (8), and who reads sees a whole row with or without it. A program does so where the
 *    call begins or ends, and then begins or ends it itself. The values of calls inside each other
 *    are all added.
 *
 * A place of the session has such a call where a probe has a counter, so tools/probe/tool.c says
 * why each execution of it is counted once. Natively the handler of the breakpoint does the same
 * in C. It is one level of NMI itself.
 *
 * Context: any.
 */
#include <linux/bug.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/string.h>
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../probe/calls.h"
#include "../probe/act.h"
#include "../probe/probe.h"
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
	const bool numbers = several && several->has_numbers;
	unsigned long flags;
	u32 i;

	/* The record and the number are those of one CPU. */
	if (numbers)
		raw_local_irq_save(flags);
	for (i = 0; i < n; i++) {
		const u64 now = several ? jifl_times_counter_of(several, r, i) :
				READ_ONCE(*(beside == JIFL_TIMES_EVENT ? &r->events[0] :
									 (const u64 *)arg));

		if (ends)
			jifl_times_add(jifl_times_counted(row)[i], now);
		else
			jifl_times_sub(jifl_times_counted(row)[i], now);
	}
	if (numbers)
		raw_local_irq_restore(flags);
}

/* Who reads sees by calls that it has begun, and by depth that it is done. */
static __always_inline void jifl_times_begin(struct jifl_times_record *r,
					     struct jifl_times_row *row,
					     enum jifl_times_beside beside, const void *arg)
{
	jifl_times_inc(row->calls);
	if (likely(jifl_times_is_0(&row->depth))) {
		jifl_times_count(beside, arg, r, row, false);
		jifl_times_sub(row->wall, rdtsc());
		jifl_times_sub(row->blocked, r->blocked);
		jifl_times_sub(row->runnable, r->runnable);
	}
	jifl_times_inc32(row->depth);
}

/* Likewise by depth, and by `ended`. */
static __always_inline void jifl_times_finish(struct jifl_times_record *r,
					      struct jifl_times_row *row, u64 *ended,
					      enum jifl_times_beside beside, const void *arg)
{
	if (unlikely(jifl_times_is_0(&row->depth))) {
		jifl_times_inc32(row->strays);
		return;
	}
	if (likely(jifl_times_dec(&row->depth))) {
		jifl_times_add(row->wall, rdtsc());
		jifl_times_add(row->blocked, r->blocked);
		jifl_times_add(row->runnable, r->runnable);
		jifl_times_count(beside, arg, r, row, true);
	}
	jifl_times_inc(*ended);
}

/* --- in copies: as short as an inlined function has to be ----------------------------------- */

/*
 * Where a function begins, returns, and jumps to another one, with what is counted beside times.
 * at: of the row, in a record. Those of several counters are called.
 */
#define JIFL_TIMES_FUNCTIONS(name, beside)						\
static void jifl_times_enter_##name(struct jifl_times_cpu __percpu *cpus, unsigned long at, \
				    const void *arg)					\
{											\
	struct jifl_times_record *r = jifl_times_here(cpus, preempt_count());		\
											\
	jifl_times_begin(r, (void *)r + at, beside, arg);				\
}											\
											\
static void jifl_times_leave_##name(struct jifl_times_cpu __percpu *cpus, unsigned long at, \
				    const void *arg)					\
{											\
	struct jifl_times_record *r = jifl_times_here(cpus, preempt_count());		\
	struct jifl_times_row *row = (void *)r + at;					\
											\
	jifl_times_finish(r, row, &row->ended, beside, arg);				\
}											\
											\
static void jifl_times_jump_##name(struct jifl_times_cpu __percpu *cpus, unsigned long at, \
				   const void *arg)					\
{											\
	struct jifl_times_record *r = jifl_times_here(cpus, preempt_count());		\
	struct jifl_times_row *row = (void *)r + at;					\
											\
	jifl_times_finish(r, row, &row->jumped, beside, arg);				\
}

JIFL_TIMES_FUNCTIONS(alone, JIFL_TIMES_ALONE)
JIFL_TIMES_FUNCTIONS(event, JIFL_TIMES_EVENT)
JIFL_TIMES_FUNCTIONS(variable, JIFL_TIMES_VARIABLE)
JIFL_TIMES_FUNCTIONS(several, JIFL_TIMES_SEVERAL)

typedef void (*jifl_times_fn)(struct jifl_times_cpu __percpu *cpus, unsigned long at,
			      const void *arg);

#define JIFL_TIMES_ENTRY(name) { jifl_times_enter_##name, jifl_times_leave_##name, \
				 jifl_times_jump_##name }
static const struct {
	jifl_times_fn enter, leave, jump;
} jifl_times_functions[JIFL_TIMES_BESIDE] = {
	[JIFL_TIMES_ALONE] = JIFL_TIMES_ENTRY(alone),
	[JIFL_TIMES_EVENT] = JIFL_TIMES_ENTRY(event),
	[JIFL_TIMES_VARIABLE] = JIFL_TIMES_ENTRY(variable),
	[JIFL_TIMES_SEVERAL] = JIFL_TIMES_ENTRY(several),
};

static enum jifl_times_beside jifl_times_beside(const struct jifl_times *t)
{
	if (t->ncounters > 1 || t->has_numbers)
		return JIFL_TIMES_SEVERAL;
	if (!t->ncounters)
		return JIFL_TIMES_ALONE;
	return t->counters[0].variable ? JIFL_TIMES_VARIABLE : JIFL_TIMES_EVENT;
}

/* The function is one instruction, with which it returns, or jumps. at: of the row's `calls`. */
static void jifl_times_pass(struct jifl_times_cpu __percpu *cpus, unsigned long at,
			    unsigned long ended)
{
	void *r = jifl_times_here(cpus, preempt_count());

	jifl_times_inc(*(u64 *)(r + at));
	jifl_times_inc(*(u64 *)(r + ended));
}

/* --- with objects: interrupts are off -------------------------------------------------------- */

/* The first call begins: depth is 1, and the call is not in `calls` yet. */
static void jifl_times_keep(const struct jifl_times *t, const struct jifl_times_record *r,
			    struct jifl_times_row *row, u64 object)
{
	struct jifl_times_call *call = jifl_times_call(row);
	u32 i;

	if (!JIFL_HOST_PLANTED(objects_kept) || !call->calls)
		call->object = object;
	call->wall = row->wall;
	call->blocked = row->blocked;
	call->runnable = row->runnable;
	call->calls = row->calls;
	for (i = 0; i < t->ncounters; i++)
		call->counted[i] = jifl_times_counted(row)[i];
	jifl_times_count(JIFL_TIMES_SEVERAL, t, r, row, false);
	jifl_times_sub(row->wall, rdtsc());
	jifl_times_sub(row->blocked, r->blocked);
	jifl_times_sub(row->runnable, r->runnable);
}

/* The last one ends: depth is 1, and the call is in *ended. */
static void jifl_times_give(const struct jifl_times *t, const struct jifl_times_record *r,
			    struct jifl_times_row *row)
{
	jifl_times_add(row->wall, rdtsc());
	jifl_times_add(row->blocked, r->blocked);
	jifl_times_add(row->runnable, r->runnable);
	jifl_times_count(JIFL_TIMES_SEVERAL, t, r, row, true);
	jifl_times_end_about(t, row, 0);
}

/* Who reads sees by depth that it has begun, and by `ended` and `calls` that it is done. */
static void jifl_times_finish_about(const struct jifl_times *t, struct jifl_times_record *r,
				    struct jifl_times_row *row, u64 *ended)
{
	if (unlikely(jifl_times_is_0(&row->depth))) {
		jifl_times_inc32(row->strays);
		return;
	}
	jifl_times_inc(*ended);
	if (READ_ONCE(row->depth) == 1)
		jifl_times_give(t, r, row);
	jifl_times_dec(&row->depth);
}

static void jifl_times_leave_about(struct jifl_times_cpu __percpu *cpus, unsigned long at,
				   const struct jifl_times *t)
{
	struct jifl_times_record *r = jifl_times_here(cpus, preempt_count());
	struct jifl_times_row *row = (void *)r + at;

	jifl_times_finish_about(t, r, row, &row->ended);
}

static void jifl_times_jump_about(struct jifl_times_cpu __percpu *cpus, unsigned long at,
				  const struct jifl_times *t)
{
	struct jifl_times_record *r = jifl_times_here(cpus, preempt_count());
	struct jifl_times_row *row = (void *)r + at;

	jifl_times_finish_about(t, r, row, &row->jumped);
}

/* --- with programs: interrupts are off ------------------------------------------------------- */

bool jifl_times_asks(const struct jifl_probe_place *of, unsigned int count)
{
	const struct jifl_times *t = of->owner->times;
	const struct jifl_times_place *place = &t->places[of - of->owner->places];
	const struct jifl_times_record *r = jifl_times_here(t->cpus, count);
	const struct jifl_times_row *row = (void *)r + place->at;
	const bool is_inside = !jifl_times_is_0(&row->depth);

	if (!r->used)
		return false;
	if (place->action & JIFL_TIMES_ENTER)
		return t->has_values || !is_inside;
	return is_inside;
}

/* While a call of the row goes on. */
static void jifl_times_add_up(const struct jifl_times *t, struct jifl_times_row *row,
			      const struct jifl_times_values *values)
{
	u32 i;

	for (i = 0; values && values->known && i < t->ncounters; i++)
		if (values->known & BIT(i) && !JIFL_HOST_PLANTED(values_not_added))
			jifl_times_add(jifl_times_counted(row)[i], values->value[i]);
}

static void jifl_times_begin_about(struct jifl_times *t, const struct jifl_times_place *place,
				   struct jifl_times_record *r, struct jifl_group_name *name,
				   u32 used)
{
	struct jifl_times_row *row = (void *)r + place->at;
	/* What it calls may be this very function, so depth is asked afterwards. */
	const u64 object = r->used ? jifl_times_object(t, place->row, name, used) :
				     JIFL_TIMES_NOTHING;
	const bool is_first = jifl_times_is_0(&row->depth);

	jifl_times_inc32(row->depth);
	if (is_first)
		jifl_times_keep(t, r, row, object);
	jifl_times_inc(row->calls);
}

void jifl_times_at_place(const struct jifl_probe_place *of, struct jifl_group_name *name, u32 used,
			 const struct jifl_times_values *values, unsigned int count)
{
	struct jifl_times *t = of->owner->times;
	const struct jifl_times_place *place = &t->places[of - of->owner->places];
	struct jifl_times_record *r = jifl_times_here(t->cpus, count);
	struct jifl_times_row *row = (void *)r + place->at;
	u64 *ended = place->action & JIFL_TIMES_JUMP ? &row->jumped : &row->ended;

	if (place->action & JIFL_TIMES_ENTER && t->objects)
		jifl_times_begin_about(t, place, r, name, used);
	else if (place->action & JIFL_TIMES_ENTER)
		jifl_times_begin(r, row, JIFL_TIMES_SEVERAL, t);
	jifl_times_add_up(t, row, values);
	/* Of one instruction both. */
	if (place->action & JIFL_TIMES_LEAVE && t->objects)
		jifl_times_finish_about(t, r, row, ended);
	else if (place->action & JIFL_TIMES_LEAVE)
		jifl_times_finish(r, row, ended, JIFL_TIMES_SEVERAL, t);
}

/* --- natively ------------------------------------------------------------------------------- */

/* In an int3 exception. */
static void jifl_times_natively(const struct jifl_probe_call *call)
{
	const unsigned int own = NMI_OFFSET + HARDIRQ_OFFSET;
	const struct jifl_times_place *place = container_of(call, struct jifl_times_place, call);
	struct jifl_times_record *r = jifl_times_here(place->times->cpus, preempt_count() - own);
	struct jifl_times_row *row = (void *)r + place->at;
	u64 *ended = place->action & JIFL_TIMES_JUMP ? &row->jumped : &row->ended;

	if (place->times->objects) {
		jifl_times_finish_about(place->times, r, row, ended);
	} else if (!(place->action & JIFL_TIMES_ENTER)) {
		jifl_times_finish(r, row, ended, JIFL_TIMES_SEVERAL, place->times);
	} else if (!(place->action & JIFL_TIMES_LEAVE)) {
		jifl_times_begin(r, row, JIFL_TIMES_SEVERAL, place->times);
	} else {
		jifl_times_inc(row->calls);
		jifl_times_inc(*ended);
	}
}

/* --- both ----------------------------------------------------------------------------------- */

bool jifl_times_fill(const struct jifl_times *t, const struct jifl_splice *splice,
		     struct jifl_times_place *place)
{
	const enum jifl_times_beside beside = jifl_times_beside(t);
	const bool jumps = splice->action & JIFL_TIMES_JUMP;
	const bool passes = splice->action & JIFL_TIMES_ENTER && splice->action & JIFL_TIMES_LEAVE;
	struct jifl_probe_call *call = &place->call;
	struct ir_insert *ins = &call->insert;

	if (!jifl_probe_decode(splice->address, &call->insn))
		return false;
	place->at = offsetof(struct jifl_times_record, rows) +
		    splice->target * t->width;
	place->row = splice->target;
	place->action = splice->action;
	place->times = t;
	/* A program does it. */
	if (splice->action / JIFL_TIMES_PROGRAM)
		return true;
	call->natively = jifl_times_natively;
	ins->kind = IR_INSERT_CALL;
	ins->nargs = passes || t->objects || t->ncounters ? 3 : 2;
	ins->args[0] = (unsigned long)t->cpus;
	ins->args[1] = place->at;
	ins->args[2] = beside == JIFL_TIMES_VARIABLE ? (unsigned long)t->counters[0].variable :
						       (unsigned long)t;
	if (passes) {
		ins->fn = (unsigned long)jifl_times_pass;
		ins->args[1] += offsetof(struct jifl_times_row, calls);
		ins->args[2] = place->at + (jumps ? offsetof(struct jifl_times_row, jumped) :
						    offsetof(struct jifl_times_row, ended));
	} else if (t->objects) {
		ins->fn = jumps ? (unsigned long)jifl_times_jump_about :
				  (unsigned long)jifl_times_leave_about;
		ins->args[2] = (unsigned long)t;
	} else if (splice->action & JIFL_TIMES_ENTER) {
		ins->fn = (unsigned long)jifl_times_functions[beside].enter;
	} else {
		ins->fn = (unsigned long)(jumps ? jifl_times_functions[beside].jump :
						  jifl_times_functions[beside].leave);
	}
	if (jifl_probe_guard(call))
		return false;
	/* They call functions, so they are not inlined. */
	return !t->objects || !WARN_ON_ONCE(!call->fn);
}
