/* SPDX-License-Identifier: GPL-2.0 */
/* The module's data of each CPU, within reach of one gs-relative instruction. */
#ifndef JIFL_HOST_PERCPU_H
#define JIFL_HOST_PERCPU_H

#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include "../../../engine/engine.h"
#include "../plant.h"
#include "level.h"

/*
 * Sessions that may have the same target at a time; each then has a lane. Each lane costs every
 * switch of tasks a word to read, and each set of sessions on one target is a context of the
 * engine.
 */
#define JIFL_LANES	4

/* What one session counts about the call that runs on a CPU; see count.c. */
struct jifl_lane {
	u64 count;
	u64 call;		/* 0: none; else session and target */
};

/* The lanes of a level that another one has interrupted; see call/levels.c. */
struct jifl_interrupted {
	u64 level;
	struct jifl_lane lanes[JIFL_LANES];
};

/* Added to the address of a stack it makes an address of nothing, up to 255 times. */
#define JIFL_OWN_STACK	(1UL << 56)

struct jifl_cpu {
	struct jifl_lane lanes[JIFL_LANES];	/* of the level `level` */
	u64 exits[JIFL_CAUSES_MAX];
	u64 stack_top;		/* of the private stack on which the dispatcher runs */
	u64 ring;		/* the cell of ring.c */
	u64 ring_limit;		/* from this value on the ring is too full */
	u64 level;		/* enum jifl_level */
	/* > 0: the module's own code runs; see jifl_own_begin. Stubs read the last two as one. */
	u32 own[JIFL_NR_LEVELS] __aligned(16);
	/*
	 * The stack of a task that may enter, or 0, plus JIFL_OWN_STACK times how often the
	 * module's own code runs; see enter/guard.c.
	 */
	u64 stack;
	/* What a level has interrupted that is above the task's, from 0 on. */
	struct jifl_interrupted interrupted[JIFL_NR_LEVELS - 1];
	s64 training[JIFL_TRAINING_CELLS]; /* the engine's */
};
DECLARE_PER_CPU(struct jifl_cpu, jifl_cpu);

/*
 * Around code of the module that calls functions of the kernel while it holds a lock of the
 * module's, or while a thread is about to enter the cache. Calls of functions that this CPU makes
 * meanwhile at this level do not enter the cache (enter/guard.c): they would wait for that lock, or
 * come here again and again. An interrupt does neither: while a lock is held interrupts are off.
 * Those with _at are given the level, or give it, for callers that need it themselves. Any context,
 * with preemption off from the first to the second.
 */
static __always_inline void jifl_own_begin_at(enum jifl_level level)
{
	if (!JIFL_HOST_PLANTED(own_entered)) {
		this_cpu_inc(jifl_cpu.own[level]);
		barrier();
		if (!JIFL_HOST_PLANTED(stack_kept))
			this_cpu_add(jifl_cpu.stack, JIFL_OWN_STACK);
	}
	barrier();
}

static __always_inline void jifl_own_end_at(enum jifl_level level)
{
	barrier();
	if (!JIFL_HOST_PLANTED(own_entered)) {
		if (!JIFL_HOST_PLANTED(stack_kept))
			this_cpu_sub(jifl_cpu.stack, JIFL_OWN_STACK);
		barrier();
		this_cpu_dec(jifl_cpu.own[level]);
	}
}

static __always_inline void jifl_own_begin(void)
{
	jifl_own_begin_at(jifl_level());
}

static __always_inline void jifl_own_end(void)
{
	jifl_own_end_at(jifl_level());
}

/*
 * The same with interrupts off, around code that takes locks which interrupts take, too. Interrupts
 * go off before jifl_own_begin, and lockdep is told behind it: the functions for that may be
 * targets. If lockdep were not told, it would take these locks for ones held with interrupts on.
 */
static __always_inline unsigned long jifl_own_irq_save_at(enum jifl_level *level)
{
	unsigned long flags;

	raw_local_irq_save(flags);
	*level = jifl_level();
	jifl_own_begin_at(*level);
	if (!raw_irqs_disabled_flags(flags))
		trace_hardirqs_off();
	return flags;
}

static __always_inline void jifl_own_irq_restore_at(unsigned long flags, enum jifl_level level)
{
	if (!raw_irqs_disabled_flags(flags))
		trace_hardirqs_on();
	jifl_own_end_at(level);
	raw_local_irq_restore(flags);
}

static __always_inline unsigned long jifl_own_irq_save(void)
{
	enum jifl_level level;

	return jifl_own_irq_save_at(&level);
}

static __always_inline void jifl_own_irq_restore(unsigned long flags)
{
	jifl_own_irq_restore_at(flags, jifl_level());
}

/* gs-relative operand of a field of struct jifl_cpu. */
#define jifl_cpu_operand(field) \
	((struct ir_operand){ .disp = (s32)(unsigned long)&jifl_cpu.field, .gs = true })

#endif
