// SPDX-License-Identifier: GPL-2.0
/*
 * What has to be known of a call that comes to a door, or that a copy asks about: the sessions that
 * it matches, the hook of its return, and why it is missed.
 *
 * Context: as in choose.c.
 */
#include <linux/bitops.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../call/condition.h"
#include "../call/count.h"
#include "../call/filter.h"
#include "../call/levels.h"
#include "../call/returns.h"
#include "../call/tool.h"
#include "../enter/target.h"
#include "choose_call.h"
#include "mix.h"

u32 jifl_choose_match(const struct jifl_target *t, enum jifl_level level,
		      const struct jifl_facts *facts, struct jifl_aim *aims[JIFL_LANES])
{
	unsigned int lane;
	u32 lanes = 0;

	for_each_lane(lane, READ_ONCE(t->lanes)) {
		struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		/* The filter costs less. */
		if (!aim || !jifl_filter_match(&aim->session->filter, level) ||
		    (facts && jifl_condition_has(aim) && !jifl_condition_holds(aim, facts)))
			continue;
		aims[lane] = aim;
		lanes |= BIT(lane);
	}
	return lanes;
}

/* Is the task in a call of the session at this level, which is the lanes'? */
static bool jifl_choose_is_in_call(const struct jifl_session *s, unsigned int lane)
{
	return s->slot && this_cpu_read(jifl_cpu.lanes[lane].call);
}

u32 jifl_choose_outermost(struct jifl_aim *const aims[JIFL_LANES], u32 lanes)
{
	unsigned int lane;

	for_each_lane(lane, lanes) {
		if (!jifl_choose_is_in_call(aims[lane]->session, lane) ||
		    jifl_count_is_apart(aims[lane]->session) || JIFL_HOST_PLANTED(nested_entered))
			continue;
		jifl_count_miss(aims[lane], JIFL_MISS_NESTED);
		lanes &= ~BIT(lane);
	}
	return lanes;
}

u32 jifl_choose_inner(struct jifl_aim *const aims[JIFL_LANES], u32 lanes)
{
	unsigned int lane;
	u32 inner = 0;

	for_each_lane(lane, lanes)
		if (jifl_choose_is_in_call(aims[lane]->session, lane) &&
		    jifl_count_is_apart(aims[lane]->session) && !JIFL_HOST_PLANTED(inner_followed))
			inner |= BIT(lane);
	return inner;
}

void jifl_choose_miss(struct jifl_aim *const aims[JIFL_LANES], u32 lanes, enum jifl_miss why)
{
	unsigned int lane;

	for_each_lane(lane, lanes)
		jifl_count_miss(aims[lane], why);
}

bool jifl_choose_hook(unsigned long *slot, u32 followed, enum jifl_level level, bool above)
{
	if (!followed)
		return true;
	if (above && JIFL_HOST_PLANTED(level_kept))
		jifl_levels_enter(level);
	if (!jifl_returns_hook(slot, followed, level, above))
		return JIFL_HOST_PLANTED(hooks_endless);
	if (above && !JIFL_HOST_PLANTED(level_kept))
		jifl_levels_enter(level);
	return true;
}

enum jifl_miss jifl_choose_reason(const struct jifl_way *w, const struct jifl_aim *aim,
				  unsigned int lane)
{
	if (jifl_mix_is_paused())
		return JIFL_MISS_FLUSH;
	if (!w || READ_ONCE(aim->target->armed[lane]) != aim)
		return JIFL_MISS_END;
	if (jifl_engine_is_full())
		return JIFL_MISS_FULL;
	return READ_ONCE(w->native) ? JIFL_MISS_NATIVE : JIFL_MISS_ROOM;
}
