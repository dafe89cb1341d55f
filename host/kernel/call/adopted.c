// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that had begun before their session: session/adopt.c takes them over. Their counts begin in
 * the middle. So they stand apart from the counts of whole calls, also where a session counts by
 * task (keys.c).
 *
 * Context: any; the machine may be stopped. Nothing here sleeps or allocates.
 */
#include <linux/atomic.h>
#include <linux/sched.h>

#include "../kernel.h"
#include "../plant.h"
#include "adopted.h"
#include "count.h"
#include "keys.h"
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

static void jifl_adopted_add(const struct task_struct *task, struct jifl_session *s,
			     struct jifl_aim *aim, u64 count)
{
	atomic64_add(count, &aim->adopted_sum);
	if (s->keys)
		jifl_keys_add_adopted(s->keys, task, count);
}

bool jifl_adopted_end(const struct task_struct *task, u64 call, u64 count)
{
	const bool adopted = call & JIFL_COUNT_ADOPTED && !JIFL_HOST_PLANTED(adopted_as_whole);
	struct jifl_session *s = adopted ? jifl_count_session(call) : NULL;

	if (s && jifl_engine_is_full())
		jifl_count_miss_call(call, JIFL_MISS_FULL);
	else if (s)
		jifl_adopted_add(task, s, jifl_count_aim(s, call), count);
	return s;
}
