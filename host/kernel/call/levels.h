/* SPDX-License-Identifier: GPL-2.0 */
/* Which level the lanes of a CPU are of: that of its task, or of what has interrupted it. */
#ifndef JIFL_HOST_LEVELS_H
#define JIFL_HOST_LEVELS_H

#include <linux/percpu.h>
#include <linux/types.h>
#include "../store/percpu.h"
#include "../../../include/uapi/jifl.h"

/* Does a call at this level interrupt the calls that the lanes are of? Preemption is off. */
bool jifl_levels_is_above(enum jifl_level level);
/*
 * The lanes become those of this level, which is above theirs, until jifl_levels_leave. At that
 * level, with preemption off; the call's return is hooked already.
 */
void jifl_levels_enter(enum jifl_level level);
/* The lanes are again what they were before jifl_levels_enter. Interrupts are off. */
void jifl_levels_leave(enum jifl_level level);
/*
 * At a switch of tasks: has an interrupt not ended? Its calls are counted as missed then. A run
 * queue is locked.
 */
void jifl_levels_check(void);
/* Is there something for jifl_levels_check? */
static inline bool jifl_levels_is_raised(void)
{
	return this_cpu_read(jifl_cpu.level);
}

/* The calls that run in a lane of a CPU, one at each level: how many. Any CPU; they may change. */
u32 jifl_levels_calls(int cpu, unsigned int lane, u64 calls[JIFL_NR_LEVELS]);

#endif
