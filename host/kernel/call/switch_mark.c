// SPDX-License-Identifier: GPL-2.0
/*
 * Marks in the rings of records (store/ring.c) where tasks are switched: whose the CPU's next
 * records are.
 *
 * Context: a run queue is locked, or all CPUs are stopped; jifl_switch_mark_given_up: any.
 */
#include <linux/pid.h>		/* with sched.h, by kernel version: task_pid_nr */
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

#include "../kernel.h"
#include "../store/percpu.h"
#include "../store/ring.h"
#include "count.h"
#include "switch.h"
#include "tool.h"
#include "whose.h"

/* Both are written under jifl_session_mutex, the second also where a call is given up. */
bool jifl_switch_marking;
/* Have recorded calls been given up, of which code may still run in the cache? */
static bool jifl_switch_unmarked;

/* The next records are of a call that had begun before its session. */
static void jifl_switch_mark_adopted(const struct jifl_session *s, u64 call,
				     struct task_struct *next)
{
	static_assert(JIFL_TARGETS_MAX < JIFL_RECORD_ADOPTED);
	jifl_ring_mark(JIFL_RECORD_BEGIN | JIFL_RECORD_ADOPTED | jifl_count_index(call),
		       task_pid_nr(next));
	if (s->tool->records->stacks)
		jifl_ring_put(JIFL_RECORD_STACK, (unsigned long)task_stack_page(next) >> 32);
}

void jifl_switch_mark_given_up(u64 call, enum jifl_miss why)
{
	const struct jifl_session *s = call ? jifl_count_session(call) : NULL;

	if (s && s->tool->records)
		WRITE_ONCE(jifl_switch_unmarked, true);
	jifl_count_miss_call(call, why);
}

/*
 * What the task of a call that was given up records is nobody's. Without a mark it would be of the
 * thread that was marked before.
 */
void jifl_switch_mark_resumed(const struct jifl_lane lanes[JIFL_LANES], struct task_struct *next)
{
	bool marked = false;
	unsigned int lane;

	if (!READ_ONCE(jifl_switch_marking))
		return;
	for (lane = 0; lane < JIFL_LANES; lane++) {
		u64 call = lanes[lane].call;
		const struct jifl_session *s = call ? jifl_count_session(call) : NULL;

		if (!s || !s->tool->records)
			continue;
		if (call & JIFL_COUNT_ADOPTED)
			jifl_switch_mark_adopted(s, call, next);
		else
			jifl_ring_mark(JIFL_RECORD_RESUME, task_pid_nr(next));
		marked = true;
	}
	if (!marked && READ_ONCE(jifl_switch_unmarked))
		jifl_ring_mark(JIFL_RECORD_RESUME, 0);
}

void jifl_switch_marks(bool wanted)
{
	WRITE_ONCE(jifl_switch_unmarked, false);
	WRITE_ONCE(jifl_switch_marking, wanted);
}
