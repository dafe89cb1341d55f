// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that had begun before their session: session/adopt.c takes them over. Their counts begin in
 * the middle. So they stand apart from the counts of whole calls.
 *
 * Context: any; the machine may be stopped. Nothing here sleeps or allocates.
 */
#include <linux/atomic.h>
#include <linux/sched.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../leave/walk.h"
#include "adopted.h"
#include "count.h"
#include "returns.h"
#include "switch.h"

bool jifl_adopted_begin(struct task_struct *task, struct jifl_aim *aim, unsigned long *slot)
{
	const struct jifl_session *s = aim->session;

	if (!jifl_switch_give(task, s->lane, jifl_count_id(aim) | JIFL_COUNT_ADOPTED))
		return false;
	if (jifl_returns_hook_of(task, slot, 1u << s->lane))
		return true;
	jifl_switch_take(task, s->lane);
	return false;
}

bool jifl_adopted_end(u64 call, u64 count)
{
	const bool adopted = call & JIFL_COUNT_ADOPTED && !JIFL_HOST_PLANTED(adopted_as_whole);
	struct jifl_session *s = adopted ? jifl_count_session(call) : NULL;

	if (s && jifl_engine_is_full())
		jifl_count_miss_call(call, JIFL_MISS_FULL);
	else if (s)
		atomic64_add(count, &jifl_count_aim(s, call)->adopted_sum);
	return s;
}

/* Is a hooked function of the task on its way through the trampoline, or cannot that be told? */
static bool is_returning(struct task_struct *task)
{
	const struct jifl_words words = jifl_walk_words(task);
	struct unwind_state state;
	bool returning = false;

	/* Only a task that was preempted can be there. */
	if (!task->on_rq)
		return false;
	jifl_compat_show_returns(task, words.begin, words.end);
	for (unwind_start(&state, task, NULL, NULL); !unwind_done(&state) && !returning;
	     unwind_next_frame(&state))
		/* For interrupted code at the trampoline's beginning state.ip is where that leads to. */
		returning = jifl_compat_is_returning(state.regs ? state.regs->ip : state.ip);
	returning |= unwind_error(&state);
	jifl_compat_hide_returns(task, words.begin, words.end);
	return returning;
}

void jifl_adopted_unhook(struct task_struct *task, u32 lanes)
{
	if (lanes && !is_returning(task) && !JIFL_HOST_PLANTED(adopted_kept))
		jifl_returns_unhook(task, lanes);
}
