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
 * 6. Of a function that is one instruction, beginning and end are one place. In copies that is no
 *    time; natively, and with programs or distributions, it is that of the two readings.
 * 7. Counters of processors are the same: jifl_moment_is_steady, and the kernel has not found them
 *    apart (check_tsc_unstable).
 *
 * 8. With objects, or with distributions of calls' times, a row also keeps what it had when the
 *    first of its calls began (about.c), which is not a sum. So an NMI-like exception inside
 *    another one, which has the same record, must not write that in the middle of a change. For the
 *    whole change depth is above 0: what comes in between is a call inside this one. These changes
 *    are called, with interrupts off.
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
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../probe/calls.h"
#include "../probe/probe.h"
#include "account.h"
#include "times.h"

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

/* --- natively ------------------------------------------------------------------------------- */

/* In an int3 exception, which is one level of NMI itself. */
static void jifl_times_natively(const struct jifl_probe_call *call)
{
	const unsigned int own = NMI_OFFSET + HARDIRQ_OFFSET;

	jifl_times_call_here(container_of(call, struct jifl_times_place, call),
			     preempt_count() - own);
}

/* --- both ----------------------------------------------------------------------------------- */

bool jifl_times_fill(struct jifl_times *t, const struct jifl_splice *splice,
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
	ins->nargs = passes || t->ncounters ? 3 : 2;
	ins->args[0] = (unsigned long)t->cpus;
	ins->args[1] = place->at;
	ins->args[2] = beside == JIFL_TIMES_VARIABLE ? (unsigned long)t->counters[0].variable :
						       (unsigned long)t;
	if (t->keeps) {
		jifl_times_fill_about(place);
	} else if (passes) {
		ins->fn = (unsigned long)jifl_times_pass;
		ins->args[1] += offsetof(struct jifl_times_row, calls);
		ins->args[2] = place->at + (jumps ? offsetof(struct jifl_times_row, jumped) :
						    offsetof(struct jifl_times_row, ended));
	} else if (splice->action & JIFL_TIMES_ENTER) {
		ins->fn = (unsigned long)jifl_times_functions[beside].enter;
	} else {
		ins->fn = (unsigned long)(jumps ? jifl_times_functions[beside].jump :
						  jifl_times_functions[beside].leave);
	}
	if (jifl_probe_guard(call))
		return false;
	/* They call functions, so they are not inlined. */
	return !t->keeps || !WARN_ON_ONCE(!call->fn);
}
