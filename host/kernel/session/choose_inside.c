// SPDX-License-Identifier: GPL-2.0
/*
 * Chooses, where a copy of a function begins that other sessions have as a target, whether the call
 * goes on in the context of these, too. The head of nested.c has the argument.
 *
 * Context: any; preemption is off. Nothing here sleeps or allocates.
 */
#include <linux/bitops.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/preempt.h"
#include "../store/percpu.h"
#include "../call/condition.h"
#include "../call/count.h"
#include "../call/levels.h"
#include "../call/tool.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "choose.h"
#include "choose_call.h"
#include "mix.h"
#include "nested.h"

/*
 * Leaves out the sessions that enter no copies of this mix: its own, and what nested.c inserts.
 * NULL: of a mix whose context is destroyed.
 */
static u32 jifl_choose_entering(struct jifl_aim *const aims[JIFL_LANES], u32 lanes,
				const struct jifl_mix *inside)
{
	unsigned int lane;

	for_each_lane(lane, lanes)
		if (!jifl_nested_enters(aims[lane]->session) ||
		    (inside && inside->members[lane] == aims[lane]->session))
			lanes &= ~BIT(lane);
	return lanes;
}

/* The way for these aims out of copies of `inside`. NULL: none was made. */
static struct jifl_way *jifl_choose_way_inside(struct jifl_target *t,
					       struct jifl_aim *const aims[JIFL_LANES], u32 lanes,
					       const struct jifl_mix *inside)
{
	struct jifl_session *members[JIFL_LANES];
	struct jifl_way *w;
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		members[lane] = lanes & BIT(lane) ? aims[lane]->session : inside->members[lane];
	if (JIFL_HOST_PLANTED(inside_alone))
		return &aims[__ffs(lanes)]->way;
	hlist_for_each_entry_rcu(w, &t->ways, node, true)
		if (w->entering == lanes && !memcmp(w->mix->members, members, sizeof(members)))
			return w;
	return NULL;
}

/* What nested.c tells in a block of the mix, where that needs what the piece does not know. */
static void jifl_choose_tells(const struct jifl_target *t, const struct jifl_mix *inside,
			      const struct jifl_facts *facts, struct jifl_aim *told[JIFL_LANES])
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		told[lane] = aim && jifl_nested_tells(aim, inside, facts) ? aim : NULL;
	}
}

/* The piece for these aims, whose calls begin. 0: there is none. */
static u64 jifl_choose_enter_inside(struct jifl_target *t, unsigned long *slot,
				    const struct jifl_facts *facts,
				    struct jifl_aim *const aims[JIFL_LANES], u32 lanes,
				    const struct jifl_mix *inside)
{
	struct jifl_way *w = jifl_choose_way_inside(t, aims, lanes, inside);
	const enum jifl_level level = jifl_level();
	u64 piece = w ? jifl_choose_way_in(w) : 0;
	struct jifl_aim *told[JIFL_LANES];
	unsigned int lane;

	if (piece)
		jifl_choose_tells(t, inside, facts, told);
	if (piece && !jifl_choose_hook(slot, jifl_choose_followed(aims, lanes), level,
				       jifl_levels_is_above(level)))
		piece = 0;
	for (lane = 0; lane < JIFL_LANES; lane++)
		if (piece && told[lane])
			jifl_nested_tell(told[lane], inside);
		/* Without a way: there are no more than mix_make.c makes. */
		else if (!piece && lanes & BIT(lane))
			jifl_count_miss(aims[lane], w ? jifl_choose_reason(w, aims[lane], lane) :
							JIFL_MISS_NESTED);
	return piece;
}

/* Is a call that is followed to its end in copies of this mix? */
static bool jifl_choose_is_followed(const struct jifl_mix *inside)
{
	const struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, inside, lane)
		if (s->slot)
			return true;
	return false;
}

/*
 * As jifl_choose_function, where copies call. inside: their mix; NULL: its context is destroyed.
 * Its sessions' calls may still be counted then, so no call leaves these copies any more.
 *
 * A copy of a followed call can run above the level of its lanes: where a function runs softirqs on
 * its task's stack. What these call belongs to the copy's call. So no call of others begins there.
 * Copies of other calls have no lanes (step 3 in the head of call/levels.c). Step 1 there is why
 * none begins in a softirq with PREEMPT_RT.
 */
static u64 jifl_choose_function_inside(struct jifl_target *t, unsigned long *slot,
				       const struct jifl_facts *facts, enum jifl_level level,
				       const struct jifl_mix *inside)
{
	const bool above = jifl_levels_is_above(level);
	const bool preempted = IS_ENABLED(CONFIG_PREEMPT_RT) && level == JIFL_LEVEL_SOFTIRQ;
	struct jifl_aim *aims[JIFL_LANES];
	u32 lanes;

	lanes = jifl_choose_entering(aims, jifl_choose_match(t, level, facts, aims), inside);
	if (above && (!inside || jifl_choose_is_followed(inside) || preempted)) {
		jifl_choose_miss(aims, lanes, level == JIFL_LEVEL_IRQ ? JIFL_MISS_IRQ :
									JIFL_MISS_SOFTIRQ);
		return 0;
	}
	if (!above)
		lanes = jifl_choose_outermost(aims, lanes);
	if (!inside)
		jifl_choose_miss(aims, lanes, JIFL_MISS_END);
	return inside && lanes ?
		jifl_choose_enter_inside(t, slot, facts, aims, lanes, inside) : 0;
}

/*
 * Preemption is off. The guards of doors are about code that is not in the cache. This thread is in
 * it, on a stack that eviction sees.
 */
static u64 jifl_choose_asked(unsigned long address, unsigned long *slot, unsigned long arg0)
{
	const struct jifl_facts facts = { .caller = *slot, .arg0 = arg0 };
	const enum jifl_level level = jifl_level();
	const struct jifl_mix *inside;
	struct jifl_target *t;
	jifl_orig begin;
	void *arg;
	u64 to;

	if (!rcu_is_watching()) {
		jifl_count_miss_unknown(JIFL_MISS_IDLE);
		return 0;
	}
	inside = jifl_engine_asker(address, &begin, &arg) ? arg : NULL;
	t = jifl_target_starting(begin.v);
	if (!t)
		return 0;
	jifl_own_begin_at(level);
	to = jifl_choose_function_inside(t, slot, &facts, level, inside);
	jifl_own_end_at(level);
	return to;
}

unsigned long jifl_choose_inside(unsigned long address, unsigned long *slot, unsigned long arg0)
{
	u64 to;

	preempt_disable_notrace();
	to = jifl_choose_asked(address, slot, arg0);
	jifl_preempt_enable();
	return to ?: address;
}
