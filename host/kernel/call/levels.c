// SPDX-License-Identifier: GPL-2.0
/*
 * Calls in softirqs and hard interrupts. A CPU's lanes are those of one level (store/level.h). A
 * call that enters the cache at a higher level, and is followed to its end by a session, puts the
 * lanes of the lower one aside, and its return gives them back. So the call that is counted is one
 * for each task and each level above it.
 *
 * Why that is right:
 *
 * 1. What interrupts ends before what it has interrupted goes on. It does so on the same CPU, and
 *    does not sleep. So what it changes of this CPU's data and changes back was never changed for
 *    what it has interrupted, wherever that was: between two inserted instructions, in jifl_choose,
 *    here. Softirqs are no exception: they run with preemption off, in ksoftirqd too. With
 *    PREEMPT_RT they do not, so guard.c refuses them there.
 * 2. The call that changes the level has a return hook, because a session follows it. Where no
 *    hook is free, the call passes and is missed. The hook is there before the level changes. It
 *    runs at the function's return, on the same CPU. A function that does not return does not end
 *    at the level where it began, and is refused by name. Hooks stand in a list of the interrupted
 *    task, the newest first. By 1 those of the interrupt are off it when the task goes on.
 * 3. Code of the cache is of a mix. If a session of the mix follows its calls, the code is run by
 *    such a call: at the level of the lanes by 2, below it by 4, or above it where the call runs
 *    softirqs itself, which then belong to it. So nothing is added to an interrupted call. If no
 *    session does, the lanes may be of a level below, and of any calls there. The code leaves them
 *    alone:
 *    a. What is inserted for a session that follows no calls uses no lane (count.c, tools/).
 *    b. A trap or a fault in code concerns the calls of its mix's sessions alone (switch.c).
 *    c. A translated block is added to the call that is in a session's lane if the call is one of
 *       that session (jifl_count_attribute).
 *    d. Where the code calls a function that others follow, their call begins as at a door
 *       (session/choose_inside.c): 2 holds for it.
 * 4. A call inside another one of its session and level is nested, as at task level. A call at the
 *    level of the lanes or below changes nothing. It can be below: a softirq that begins on the way
 *    out of an interrupt, inside a function that was called there.
 * 5. When tasks are switched, and when the machine is stopped, all interrupts of that CPU have
 *    ended by 1. So the lanes are those of the task. Nothing else has to know levels: not switch.c,
 *    and not jifl_evict, its cut or its sweep. A kernel that switches tasks inside an interrupt has
 *    a defect. jifl_levels_check gives up such calls.
 * 6. Figures of a function are changed with interrupts off, or by a single instruction (returns.c,
 *    stats.h). So an interrupt that adds to the same figures cannot come in between.
 * 7. The engine lock and jifl_entry_lock are held with interrupts off, by code that waits for
 *    nothing but the engine lock. So an interrupt never waits for what it has interrupted. It may
 *    translate: a task does that with interrupts off, too. The dispatcher's stack is used with
 *    interrupts off from its first word to its last one, so there is one for each CPU.
 * 8. Code of the module runs at its own level (jifl_own_begin): an interrupt of it may enter the
 *    cache, by 1 and 7.
 *
 * Context: as the header says.
 */
#include <linux/percpu.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "count.h"
#include "levels.h"

bool jifl_levels_is_above(enum jifl_level level)
{
	return level > this_cpu_read(jifl_cpu.level);
}

void jifl_levels_enter(enum jifl_level level)
{
	struct jifl_cpu *cpu = this_cpu_ptr(&jifl_cpu);
	struct jifl_interrupted *below = &cpu->interrupted[level - 1];

	below->level = cpu->level;
	memcpy(below->lanes, cpu->lanes, sizeof(below->lanes));
	if (!JIFL_HOST_PLANTED(lanes_not_saved))
		memset(cpu->lanes, 0, sizeof(cpu->lanes));
	WRITE_ONCE(cpu->level, level);
}

void jifl_levels_leave(enum jifl_level level)
{
	struct jifl_cpu *cpu = this_cpu_ptr(&jifl_cpu);
	const struct jifl_interrupted *below = &cpu->interrupted[level - 1];

	/* jifl_levels_check has been here. */
	if (cpu->level != level)
		return;
	if (!JIFL_HOST_PLANTED(lanes_not_given_back) && !JIFL_HOST_PLANTED(lanes_not_saved))
		memcpy(cpu->lanes, below->lanes, sizeof(cpu->lanes));
	WRITE_ONCE(cpu->level, below->level);
}

void jifl_levels_check(void)
{
	unsigned int lane;
	u64 level;

	while (unlikely(level = this_cpu_read(jifl_cpu.level))) {
		WARN_ONCE(1, "jifl: tasks are switched in an interrupt\n");
		for (lane = 0; lane < JIFL_LANES; lane++)
			jifl_count_miss_call(this_cpu_read(jifl_cpu.lanes[lane].call),
					     level == JIFL_LEVEL_IRQ ? JIFL_MISS_IRQ :
								       JIFL_MISS_SOFTIRQ);
		jifl_levels_leave(level);
	}
}

u32 jifl_levels_calls(int cpu, unsigned int lane, u64 calls[JIFL_NR_LEVELS])
{
	const struct jifl_cpu *c = per_cpu_ptr(&jifl_cpu, cpu);
	u64 level = READ_ONCE(c->level), below;
	u32 n = 0;

	calls[n++] = READ_ONCE(c->lanes[lane].call);
	for (; level && n < JIFL_NR_LEVELS; level = below) {
		calls[n++] = READ_ONCE(c->interrupted[level - 1].lanes[lane].call);
		below = READ_ONCE(c->interrupted[level - 1].level);
	}
	return n;
}
