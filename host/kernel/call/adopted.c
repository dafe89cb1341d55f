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
#include "adopted.h"
#include "count.h"
#include "returns.h"
#include "switch.h"

bool jifl_adopted_begin(struct task_struct *task, struct jifl_aim *aim, unsigned long *slot)
{
	const struct jifl_session *s = aim->session;

	if (!jifl_switch_give(task, s->lane, jifl_count_id(aim) | JIFL_COUNT_ADOPTED))
		return false;
	if (jifl_returns_hook_of(task, slot, BIT(s->lane)))
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
