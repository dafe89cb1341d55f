// SPDX-License-Identifier: GPL-2.0
/*
 * Chooses, at a door, the sessions that a call belongs to and the entry piece that it runs.
 *
 * The filters of the target's sessions choose a set of sessions. The set has a way (mix.c). The way
 * has an entry piece, which is made when a call first needs it (choose_piece.c). If no session of
 * the target has a filter, the door is led to the piece itself, and later calls do not come here.
 *
 * Copies come to choose_inside.c, where a function begins that other sessions have as a target.
 *
 * If one of the sessions replaces the function, its calls go to the replacement: to a copy of it if
 * others have the function, too, and to the session's gate (tools/replace/replace.c) if not. The
 * gate is outside of the cache. So it also takes the calls for which there is no copy now, and
 * nothing is done for it at a call's return.
 *
 * For a system call: the task's registers and the call's number come in, an address to jump to goes
 * out. For a function: its address, the place of its return address, and its first argument come
 * in. call/condition.c proves that the calls of targets with a condition are told from others here.
 * Context: of system calls, the task that makes the call; of functions, any. Nothing here sleeps or
 * allocates. Only to make a piece is a lock taken, jifl_entry_lock. The head of mix.c proves that
 * what is found here stays, and that of call/levels.c that interrupts may come here.
 */
#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/preempt.h"
#include "../store/percpu.h"
#include "../call/condition.h"
#include "../call/count.h"
#include "../call/filter.h"
#include "../call/levels.h"
#include "../call/tool.h"
#include "../enter/function.h"
#include "../enter/guard.h"
#include "../enter/entry.h"
#include "../enter/target.h"
#include "../text/jump.h"
#include "aim.h"
#include "choose.h"
#include "choose_call.h"
#include "choose_piece.h"
#include "mix.h"
#include "session.h"

/* So long a task stays at a way, when a planted bug frees ways too early. */
#define JIFL_CHOOSE_PLANTED_DELAY_US	200

/* --- the call ---------------------------------------------------------------------------- */

/* inner: of jifl_way.inner. NULL: one of the sessions has ended meanwhile. */
static struct jifl_way *jifl_choose_way(struct jifl_target *t, struct jifl_aim *aims[JIFL_LANES],
					u32 lanes, u32 inner)
{
	struct jifl_way *w;

	if (!(lanes & (lanes - 1)))
		return inner ? jifl_mix_inner(aims[__ffs(lanes)]) : &aims[__ffs(lanes)]->way;
	hlist_for_each_entry_rcu(w, &t->ways, node, true) {
		if (JIFL_HOST_PLANTED(ways_freed_early))
			udelay(JIFL_CHOOSE_PLANTED_DELAY_US);
		if (w->lanes == lanes && w->entering == lanes && w->inner == inner)
			return w;
	}
	return NULL;
}

u64 jifl_choose_way_in(struct jifl_way *w)
{
	u64 piece = READ_ONCE(w->piece);

	/*
	 * The door can lead to the piece, and does not since another session's start or end: it is
	 * to do so again. It does already where a call has come here that the stub does not know.
	 */
	if (piece && (READ_ONCE(w->asks) || jifl_function_leads(w->target, piece) ||
		      !jifl_choose_is_settled(w)))
		return piece;
	if (!piece && (READ_ONCE(w->native) || jifl_engine_is_full()))
		return 0;
	return jifl_choose_piece(w);
}

u64 jifl_choose(const struct pt_regs *regs, unsigned int nr)
{
	struct jifl_target *t = jifl_entry_target(nr);
	struct jifl_aim *aims[JIFL_LANES];
	struct jifl_way *w;
	unsigned int lane;
	u64 piece = 0;
	u32 lanes;

	if (!t)
		return 0;
	/* Filters call functions that may be targets. */
	preempt_disable_notrace();
	jifl_own_begin_at(JIFL_LEVEL_TASK);
	lanes = jifl_choose_match(t, JIFL_LEVEL_TASK, NULL, aims);
	jifl_own_end_at(JIFL_LEVEL_TASK);
	jifl_preempt_enable();
	if (!lanes)
		return 0;
	w = jifl_choose_way(t, aims, lanes, 0);
	if (w)
		piece = jifl_choose_way_in(w);
	if (!piece)
		for_each_lane(lane, lanes)
			jifl_count_miss(aims[lane], jifl_choose_reason(w, aims[lane], lane));
	return piece;
}

/* --- the call of a function ---------------------------------------------------------------- */

/* Counts the call as missed by each session that has the target, and selects no tasks. */
static void jifl_choose_miss_all(const struct jifl_target *t, enum jifl_level level,
				 const struct jifl_facts *facts, enum jifl_miss why)
{
	unsigned int lane;

	for_each_lane(lane, READ_ONCE(t->lanes)) {
		struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		if (aim && jifl_filter_has_all(&aim->session->filter, level) &&
		    jifl_condition_holds(aim, facts))
			jifl_count_miss(aim, why);
	}
}

/* Those of the aims whose session replaces the target; NULL: none does. */
static struct jifl_aim *jifl_choose_gate(struct jifl_aim *const aims[JIFL_LANES], u32 lanes)
{
	unsigned int lane;

	for_each_lane(lane, lanes)
		if (aims[lane]->gate)
			return aims[lane];
	return NULL;
}

/* Returns the piece for a call of the target. 0: it passes. slot: where its return address is. */
static u64 jifl_choose_function(struct jifl_target *t, unsigned long *slot,
				const struct jifl_facts *facts, enum jifl_level level)
{
	/* Else the lanes are of this level already. */
	const bool above = jifl_levels_is_above(level);
	struct jifl_aim *aims[JIFL_LANES], *replacing;
	struct jifl_way *w = NULL;
	unsigned int lane;
	u32 lanes, followed, inner = 0;
	u64 piece = 0;

	lanes = jifl_choose_match(t, level, facts, aims);
	if (!above)
		lanes = jifl_choose_outermost(aims, lanes);
	if (!lanes)
		return 0;
	/* Somebody else has a kprobe there; see enter/notrace.c. */
	if (t->jump && READ_ONCE(t->jump->taken)) {
		jifl_choose_miss(aims, lanes, JIFL_MISS_NATIVE);
		return 0;
	}
	if (!above)
		inner = jifl_choose_inner(aims, lanes);
	w = jifl_choose_way(t, aims, lanes, inner);
	if (w)
		piece = jifl_choose_way_in(w);
	replacing = jifl_choose_gate(aims, lanes);
	if (replacing && w == &replacing->way)
		return replacing->gate;
	followed = jifl_choose_followed(aims, lanes & ~inner);
	if (piece && !jifl_choose_hook(slot, followed, level, above))
		piece = 0;
	if (piece)
		return piece;
	for_each_lane(lane, lanes)
		if (aims[lane] != replacing)
			jifl_count_miss(aims[lane], jifl_choose_reason(w, aims[lane], lane));
	return replacing ? replacing->gate : 0;
}

/* Preemption is off. */
static u64 jifl_choose_door(unsigned long address, unsigned long *slot, unsigned long arg0)
{
	struct jifl_facts facts = { .caller = *slot, .arg0 = arg0 };
	const enum jifl_level level = jifl_level();
	struct jifl_target *t;
	u64 to;
	int why;

	if (!rcu_is_watching() && !JIFL_HOST_PLANTED(unwatched_entered)) {
		jifl_count_miss_unknown(JIFL_MISS_IDLE);
		return 0;
	}
	t = jifl_function_find(address) ?: jifl_notrace_find(address);
	if (!t)
		return 0;
	why = jifl_guard_check(level);
	if (why >= 0) {
		jifl_choose_miss_all(t, level, &facts, why);
		return 0;
	}
	jifl_own_begin_at(level);
	if (t->kind == JIFL_TARGET_FUNCTION)
		facts.pushed = (u64 *)slot - 1 - JIFL_DOOR_REGS;
	to = jifl_choose_function(t, slot, &facts, level);
	jifl_own_end_at(level);
	return to;
}

unsigned long jifl_choose_copy(unsigned long address, unsigned long *slot, unsigned long arg0)
{
	u64 to;

	preempt_disable_notrace();
	to = jifl_choose_door(address, slot, arg0);
	jifl_preempt_enable();
	return to ?: address;
}
