/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of the tool times share: how long functions run, in what state of their tasks. */
#ifndef JIFL_HOST_TIMES_H
#define JIFL_HOST_TIMES_H

#include <linux/atomic.h>
#include <linux/preempt.h>
#include <linux/types.h>
#include "../../../../include/uapi/jifl.h"
#include "../probe/calls.h"

struct jifl_answer;
struct jifl_group_name;
struct jifl_probe_place;
struct jifl_program;
struct jifl_session;
struct jifl_splice;
struct jifl_times;
struct jifl_times_interrupts;
struct jifl_times_objects;
struct jifl_times_values;
struct net;
struct perf_event;
struct task_struct;
struct tracepoint;

/*
 * What one task, or one CPU in softirqs, interrupts or NMIs, has of one function. The times are
 * sums of the time stamp counter at ends, less that at beginnings: account.c.
 */
struct jifl_times_row {
	u64 wall, blocked, runnable;
	u64 calls;			/* that began */
	u64 ended, jumped;		/* by a return, by a jump to another function */
	u32 depth;			/* calls that have not ended */
	u32 adopted;			/* calls that began before the session */
	u32 strays;			/* ends without a beginning */
	u32 died;			/* calls in which the task died */
};

/* Where a task is that does not run. */
enum jifl_times_off {
	JIFL_TIMES_RUNS = 0,
	JIFL_TIMES_BLOCKED,		/* until it is woken: `woken` */
	JIFL_TIMES_RUNNABLE,
};

/* All rows of a task, or of a CPU at one level. */
struct jifl_times_record {
	u64 blocked, runnable;		/* ticks, since the session began, until it last ran */
	u64 out, woken;			/* when it ceased, or began, to run; was woken, or 0 */
	u32 off;			/* enum jifl_times_off */
	u32 switches;			/* odd while the scheduler's hook writes here */
	const struct task_struct *task;	/* NULL: no task's */
	u32 next;			/* of the free ones: index + 1 */
	u32 used;			/* it is read */
	u64 reserved;
	/*
	 * Since it has the record, how often the task came to the session's tracepoints; of numbers
	 * of processors how much they grew while it ran, until it was switched in (number.c).
	 */
	u64 events[JIFL_COUNTERS_MAX];
	u64 bases[JIFL_COUNTERS_MAX];	/* what the numbers of its CPU were then */
	/*
	 * jifl_times_row(): with counters there are JIFL_COUNTERS_MAX words behind each; where
	 * rows keep what they had a struct jifl_times_call, too.
	 */
	struct jifl_times_row rows[];
};
static_assert(sizeof(struct jifl_times_record) == 128 && sizeof(struct jifl_times_row) == 64);

/* The object of calls that are counted in a sink. */
#define JIFL_TIMES_NOTHING	U64_MAX

/*
 * Of a row: the call that has begun first of those that have not ended. Nobody reads it while depth
 * is 0.
 */
struct jifl_times_call {
	u64 object;			/* the number of its cell */
	/* What the row and its counters were when it began. */
	u64 wall, blocked, runnable, calls;
	u64 counted[JIFL_COUNTERS_MAX];
	u64 is_late;			/* it had begun before the session */
};

/* Of a row with counters; of one that keeps what it had. */
#define JIFL_TIMES_WIDE		(2 * sizeof(struct jifl_times_row))
#define JIFL_TIMES_WIDER	(3 * sizeof(struct jifl_times_row))
static_assert(sizeof(struct jifl_times_row) + JIFL_COUNTERS_MAX * sizeof(u64) <= JIFL_TIMES_WIDE);
static_assert(sizeof(struct jifl_times_row) + JIFL_COUNTERS_MAX * sizeof(u64) +
	      sizeof(struct jifl_times_call) <= JIFL_TIMES_WIDER);

/* The bits of preempt_count() above those of softirqs: hard interrupts, then NMIs. */
#define JIFL_TIMES_ABOVE	(1u << (HARDIRQ_BITS + NMI_BITS))

/* The records that a CPU has beside those of tasks. */
enum {
	JIFL_TIMES_OWN_SOFTIRQ,
	JIFL_TIMES_OWN_IRQ,
	JIFL_TIMES_OWN_NMI,
	JIFL_TIMES_OWN_DEAD,
	JIFL_TIMES_OWN_SINK,
	JIFL_TIMES_OWN,
};

/* Of one CPU, which alone writes it while it is online, with interrupts off. */
struct jifl_times_cpu {
	/* Whose rows code writes: the task's, or the sink. */
	struct jifl_times_record *task;
	/* The same above the level of tasks, by these bits; none is set: a softirq. */
	struct jifl_times_record *above[JIFL_TIMES_ABOVE];
	struct jifl_times_record *sink;	/* nobody reads it: of what the session is not about */
	struct jifl_times_record *dead;	/* sums of tasks that have died on this CPU */
	struct jifl_times_record *own;	/* the running task's, also before the session begins */
	u32 first;			/* index of its own records */
	bool frozen;
	u64 numbers[JIFL_COUNTERS_MAX];	/* of the CPU, when it last switched tasks */
};

/* What is done at a place. */
struct jifl_times_place {
	struct jifl_probe_call call;
	unsigned long at;		/* of its function's row, in a record */
	u32 row;
	u32 action;			/* JIFL_TIMES_* */
	struct jifl_times *times;
};

/* A number that perf counts on one CPU, which alone uses it, with interrupts off. */
struct jifl_times_meter {
	struct perf_event *event;	/* NULL: the CPU was not there when the session began */
	u64 last;
	bool is_read;			/* by what this runs inside of */
};

/* One of the session's counters. */
struct jifl_times_counter {
	struct jifl_times *times;
	u32 index;
	struct tracepoint *tp;		/* NULL: none */
	const u64 *variable;		/* NULL: none */
	u64 last;			/* when the session had ended, `variable` is this */
	bool hooked;
	bool is_value;			/* programs add it up, and nothing else does */
	bool is_distribution;		/* it is the number of values that are in buckets */
	u32 distribution;		/* its number among these */
	u32 of;				/* enum jifl_distribution_of */
	/* A number that each CPU has (number.c): where it is; or what perf counts. */
	bool is_number;
	bool is_short;			/* 4 bytes */
	bool is_ticks;			/* of the time stamp counter */
	u16 handlers[2];		/* interrupts.c: hooks at beginnings, and at ends */
	struct jifl_times_interrupts __percpu *interrupts;
	bool lost;			/* a CPU did not count it */
	const void __percpu *cell;
	struct jifl_times_meter __percpu *meters;
};

/* Of a session: jifl_probe.times. */
struct jifl_times {
	struct jifl_session *session;
	u32 nrows;			/* one for each target, in their order */
	u32 nrecords;
	atomic_t high;			/* all records from here on were never used */
	u32 bits;			/* log 2 of places in `tasks` */
	u32 hooked;			/* how many of the hooks are there */
	size_t stride;			/* bytes of a record */
	size_t width;			/* bytes of a row */
	u32 ncounters;
	bool has_numbers;		/* one of these is a number that each CPU has */
	bool has_values;		/* one of these is added up by programs */
	bool keeps;			/* rows keep what they had when a call began */
	u32 ndistributions;		/* of these, those with buckets */
	u32 ncells;			/* rows, or objects, that have buckets */
	atomic64_t *buckets;		/* distribution.c */
	struct net *net;		/* whose numbers are counted, held; NULL: none's */
	struct jifl_times_counter counters[JIFL_COUNTERS_MAX];
	char *records;
	/* A hash table (record.c): tasks, and the indices of their records. */
	const struct task_struct **tasks;
	u32 *indices;
	atomic64_t free;		/* the first free record's index + 1; above, changes */
	atomic64_t refused;		/* times that a task found no record */
	/* Tasks that have died and had any row; those whose rows are the dead's. */
	atomic64_t deaths, buried;
	struct jifl_times_cpu __percpu *cpus;
	struct jifl_times_place *places; /* in the order of the session's splices */
	struct jifl_times_objects *objects; /* NULL: nobody asks what calls are about */
	u64 begin, end;			/* ticks; 0: not yet */
	bool marks;			/* the rows are another tool's, and are 0 in a new record */
};

static inline struct jifl_times_record *jifl_times_at(const struct jifl_times *t, u32 i)
{
	return (struct jifl_times_record *)(t->records + i * t->stride);
}

static inline struct jifl_times_row *jifl_times_row(const struct jifl_times *t,
						    struct jifl_times_record *r, u32 i)
{
	return (void *)r->rows + i * t->width;
}

/* Behind a row: what counters were at ends, less what they were at beginnings. */
static inline u64 *jifl_times_counted(struct jifl_times_row *row)
{
	return (u64 *)(row + 1);
}

/* Behind these, where rows keep what they had. */
static inline struct jifl_times_call *jifl_times_call(struct jifl_times_row *row)
{
	return (struct jifl_times_call *)(jifl_times_counted(row) + JIFL_COUNTERS_MAX);
}

/* What a counter has while the record's task does not run. Any context. */
static __always_inline u64 jifl_times_counter_off(const struct jifl_times *t,
						  const struct jifl_times_record *r, u32 i)
{
	const u64 *variable = t->counters[i].variable;

	return READ_ONCE(*(variable ?: &r->events[i]));
}

/* One instruction. */
#define jifl_times_inc(cell)	\
	asm volatile("incq %0" : "+m" (cell) : : "memory", "cc")

/* Whose rows code at this level writes on this CPU. count: of preempt_count(). */
static __always_inline struct jifl_times_record *
jifl_times_here(struct jifl_times_cpu __percpu *cpus, unsigned int count)
{
	if (likely(!(count & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET))))
		return this_cpu_read(cpus->task);
	return this_cpu_read(cpus->above[count >> HARDIRQ_SHIFT & (JIFL_TIMES_ABOVE - 1)]);
}

/* --- account.c ------------------------------------------------------------------------------ */

/* Makes what is done at a place. false: there is no instruction that can be read. Sleeps. */
bool jifl_times_fill(struct jifl_times *t, const struct jifl_splice *splice,
		     struct jifl_times_place *place);

/* --- about.c -------------------------------------------------------------------------------- */

/*
 * Does anybody ask about a call that begins at the place now, or ends: what it is about, its
 * values? count: as below. Any context, interrupts off.
 */
bool jifl_times_asks(const struct jifl_probe_place *place, unsigned int count);
/*
 * A call begins at the place, about this object; NULL: nobody knows. Or it ends. used: bytes of the
 * name, behind which it is 0. values: what is added up of it; NULL: nothing. count:
 * preempt_count(), as the code there has it. Any context, interrupts off; with a name, while a
 * program runs on this CPU (probe/act.c).
 */
void jifl_times_at_place(const struct jifl_probe_place *place, struct jifl_group_name *name,
			 u32 used, const struct jifl_times_values *values, unsigned int count);
/* The same without a program, natively. count: as above. Any context, interrupts off. */
void jifl_times_call_here(const struct jifl_times_place *place, unsigned int count);
/* Where rows keep what they had: the place calls a function. Before the start. */
void jifl_times_fill_about(struct jifl_times_place *place);

/* --- object.c -------------------------------------------------------------------------------- */

/* -ENOMEM. Sleeps. */
int jifl_times_open_objects(struct jifl_times *t);
/* Also if opening failed. Sleeps. */
void jifl_times_close_objects(struct jifl_times *t);
/*
 * Are these the ops of a program that tells what a call is about, if objects, and adds up no values
 * but for these counters?
 */
bool jifl_times_is_about(const struct jifl_times *t, const struct jifl_program *program,
			 bool objects);
/* The number of the object's cell, of calls of that row. As jifl_times_at_place. */
u32 jifl_times_object(struct jifl_times *t, u32 row, struct jifl_group_name *name, u32 used);
/* The row's call has ended, or its task has died in so many. Any context, interrupts off. */
void jifl_times_end_about(const struct jifl_times *t, struct jifl_times_row *row, u32 died);
/* How many there may be, with each row's others; how many were told when all were last read. */
u32 jifl_times_objects_room(const struct jifl_times *t);
u32 jifl_times_objects_told(const struct jifl_times *t);
extern const struct jifl_answer jifl_times_objects_answer;

/* --- distribution.c --------------------------------------------------------------------------- */

/* Is one of the session's counters a distribution of calls' times? */
bool jifl_times_has_took(const struct jifl_session *s);
/* -ENXIO: there is no such distribution. */
int jifl_times_open_distribution(struct jifl_times *t, struct jifl_times_counter *c,
				 const struct jifl_counter *asked);
/* Behind objects and counters. -ENOMEM. Sleeps. */
int jifl_times_open_distributions(struct jifl_times *t);
/* Also if opening failed. Sleeps. */
void jifl_times_close_distributions(struct jifl_times *t);
/*
 * A value of a call is in this counter's distribution. cell: the row, or the object. is_below: 0,
 * as a signed number. Any context, interrupts off.
 */
void jifl_times_distribute(const struct jifl_times *t, u32 counter, u64 cell, u64 value,
			   bool is_below);
/* The row's call ends: how long it took. Its times are in the row. Any context, interrupts off. */
void jifl_times_distribute_call(const struct jifl_times *t, struct jifl_times_row *row);
extern const struct jifl_answer jifl_times_distributions_answer;

/* --- record.c -------------------------------------------------------------------------------- */

/* -ENOMEM. Sleeps. */
int jifl_times_open_records(struct jifl_times *t);
/* Nobody writes them any more. Sleeps. */
void jifl_times_close_records(struct jifl_times *t);
/* The task's record; NULL: it has none. Any context. */
struct jifl_times_record *jifl_times_of(const struct jifl_times *t,
					const struct task_struct *task);
/* The next two: interrupts are off; record.c says whose tasks. NULL: there is no room. */
struct jifl_times_record *jifl_times_make(struct jifl_times *t, const struct task_struct *task);
/* The record's task does not write it any more. dead: of this CPU. */
void jifl_times_bury(struct jifl_times *t, struct jifl_times_record *r,
		     struct jifl_times_record *dead, u64 now);

/* --- counter.c ------------------------------------------------------------------------------- */

/* The session's counters: they count from now on. -ENXIO: one is not there. Sleeps. */
int jifl_times_open_counters(struct jifl_times *t);
/* What variables have now they keep: the session has ended. Any context. */
void jifl_times_freeze_counters(struct jifl_times *t);
/* No event is counted any more. Also if opening failed, and twice. Sleeps. */
void jifl_times_close_counters(struct jifl_times *t);

/* --- number.c -------------------------------------------------------------------------------- */

/* -ENXIO: it is not there; -ENOSPC: CPUs cannot count it; -ENOMEM. Sleeps. */
int jifl_times_open_number(struct jifl_times *t, struct jifl_times_counter *c,
			   const struct jifl_counter *asked);
/* Nobody asks for numbers any more. Also if opening failed, and twice. Sleeps. */
void jifl_times_close_numbers(struct jifl_times *t);
/* What a number of this CPU has grown by since the record's task was switched in. Irqs off. */
u64 jifl_times_number_since(const struct jifl_times *t, const struct jifl_times_record *r, u32 i);
/* The same of the CPU on which it runs; 0: on none. Sleeps. */
u64 jifl_times_number_told(const struct jifl_times *t, const struct jifl_times_record *r, u32 i);
/*
 * The next three are for the session's CPU, which runs them with interrupts off. They are for
 * sessions that have numbers. Reads all: tasks are switched.
 */
void jifl_times_read_numbers(const struct jifl_times *t, struct jifl_times_cpu *cpu);
/* The record's task ceases to run, or begins to. */
void jifl_times_number_off(const struct jifl_times *t, const struct jifl_times_cpu *cpu,
			   struct jifl_times_record *r);
void jifl_times_number_on(const struct jifl_times *t, const struct jifl_times_cpu *cpu,
			  struct jifl_times_record *r);
/* The CPU's records keep what they have. It is led to its sink. */
void jifl_times_freeze_numbers(const struct jifl_times *t, struct jifl_times_cpu *cpu);
/* A sum of a counter, as it is told. */
u64 jifl_times_counted_as(const struct jifl_times *t, u32 i, u64 sum);

/* What a counter has now, for who writes the record; with numbers, interrupts are off. */
static __always_inline u64 jifl_times_counter_of(const struct jifl_times *t,
						 const struct jifl_times_record *r, u32 i)
{
	return jifl_times_counter_off(t, r, i) +
	       (t->counters[i].is_number ? jifl_times_number_since(t, r, i) : 0);
}

/* --- interrupts.c ---------------------------------------------------------------------------- */

/* -ENOMEM. Sleeps. */
int jifl_times_open_interrupts(struct jifl_times_counter *c);
/* Nobody reads the number any more. Also if opening failed, and twice. Sleeps. */
void jifl_times_close_interrupts(struct jifl_times_counter *c);
/* What the number lacks of handlers that this CPU is in. It is not NULL. Interrupts off. */
u64 jifl_times_interrupts_now(const struct jifl_times_counter *c);

/* --- switch.c -------------------------------------------------------------------------------- */

/* 0, or -errno after a line in the log: the tracepoints that it needs. At load. */
int jifl_times_switch_init(void);
/* Tasks have records from now on; they are not written yet. -ENOMEM. Sleeps. */
int jifl_times_open_tasks(struct jifl_times *t);
/* Also if opening failed. Sleeps. */
void jifl_times_close_tasks(struct jifl_times *t);
/* The session begins. The machine is stopped. */
void jifl_times_lead(struct jifl_times *t);
/* The same while the machine runs. Sleeps. */
void jifl_times_lead_now(struct jifl_times *t);
/* The task is in one call of the row more, since before. Likewise. */
void jifl_times_is_inside(struct jifl_times *t, struct task_struct *task, u32 row);
/* From the return on nothing is counted. Sleeps. */
void jifl_times_freeze(struct jifl_times *t);
/* How long it has been in which state since it ceased to run, until now. */
void jifl_times_was_off(const struct jifl_times_record *r, u64 now, u64 *blocked, u64 *runnable);

/* --- sum.c ------------------------------------------------------------------------------------ */

u64 jifl_times_ns(u64 ticks);
/* The sums of a row. Sleeps. */
void jifl_times_sum(const struct jifl_times *t, u32 row, struct jifl_time *sum);
/*
 * A row of a record at one moment, with the time until then of a call that has not ended; what its
 * counters have, and, with objects, its call. then: that moment, for tasks that do not run. ended:
 * the session is. false: it is never whole, and the times are 0. Sleeps.
 */
bool jifl_times_read(const struct jifl_times *t, struct jifl_times_record *r, u32 i,
		     u64 then, bool ended, struct jifl_times_row *row, u64 *counted,
		     struct jifl_times_call *call);

#endif
