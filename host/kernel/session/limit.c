// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of contexts whose sessions are about functions alone (JIFL_SCOPE_ONLY).
 *
 * The body of a function runs in the cache. What it calls runs natively, comes to doors as other
 * calls do, and returns into the cache. A jump to the beginning of another function is a tail call:
 * the rest of the call is the other function's. A jump to any other place stays, and so does one to
 * the part of a function that the compiler has put aside (NAME.cold). Targets have been made by a
 * compiler, which jumps to no other places of other functions.
 *
 * A call of a function that is a target of the same sessions need not go to its door. It goes to
 * the block where the function begins, which counts it (nested.c), if these sessions are all that
 * have the function, and none of them has to be asked about the call:
 *
 * - A session that follows its calls has one at a time. The call inside goes to the door, which
 *   says that it is missed. If the session counts calls apart (jifl_count_is_apart), the block has
 *   the count. But where an endbr64 is before a site, the door has it: a tracer may have the site,
 *   too. Then the block ends before the site, and the call comes to the door after all.
 * - A target may have a condition. The count of the call looks at it (call/condition.c). What else
 *   a session inserts is right only if the condition holds.
 *
 * A filter holds for the call inside, too. It is made by the same task, and at the same level: what
 * goes to another level, and back, is refused as a target, and runs natively.
 *
 * A function without a site (enter/notrace.c) that has places of the sessions may be entered by a
 * breakpoint, which may stand at its beginning. So its beginning is inside, but for calls: these
 * leave, and meet the breakpoint.
 *
 * If one of the sessions replaces a function, the entry piece leads to where the replacement begins
 * (choose.c). That is inside for these sessions, and no jump that leaves.
 *
 * What a limit says of a function changes when sessions come and go. Both answers are right at any
 * time:
 *
 * 1. A call that has been translated as one that leaves comes to the function's door as long as
 *    there is one. There it is counted by all sessions that have the function then.
 * 2. A call that has been translated as one that stays leads to the block where the function
 *    begins, or to the dispatcher if there is none. That block is dropped when a session of the
 *    function is armed and when it is disarmed (mix.c). The next one has the inserts of all
 *    sessions of the function (nested.c), or leaves to the door by the answer that holds then.
 *
 * Context: under the engine lock.
 */
#include <linux/kallsyms.h>
#include <linux/pgtable.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../call/condition.h"
#include "../call/count.h"
#include "../call/tool.h"
#include "../call/whose.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "limit.h"
#include "mix.h"

/* The function about which symbols were asked last; under the engine lock. */
static unsigned long known_start, known_end;

/*
 * Has one of the mix's sessions places in a function without a site that begins there? Not if there
 * are sessions that count: then it has a door.
 */
static bool has_places(const struct jifl_mix *m, unsigned long begin)
{
	const struct jifl_target *t = jifl_notrace_starting(begin);
	const struct jifl_session *s;
	unsigned int lane;
	bool has = false;

	if (!t)
		return false;
	for_each_member(s, m, lane) {
		const struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		if (!s->tool->places)
			return false;
		has |= aim && aim->session == s;
	}
	return has;
}

/* Has the session to be asked about a call of the function that its copies make? */
static bool asks(const struct jifl_session *s, const struct jifl_aim *aim)
{
	const struct jifl_target *t = aim->target;

	if (s->slot && (!jifl_count_is_apart(s) ||
			jifl_target_skipped(t) > jifl_target_site_bytes(t)))
		return true;
	return s->instrument && jifl_condition_has(aim) && !JIFL_HOST_PLANTED(joined_unasked);
}

/* Are the mix's sessions those of the target, and do calls of it need no door? */
static bool joins(const struct jifl_mix *m, const struct jifl_target *t)
{
	const struct jifl_session *s;
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		const struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		s = m->members[lane];
		if ((aim ? aim->session : NULL) != s || (s && asks(s, aim)))
			return false;
		if (s && s->tool->places && t->kind == JIFL_TARGET_NOTRACE)
			return false;
	}
	return true;
}

static bool is_part(unsigned long start)
{
	static char name[KSYM_NAME_LEN];	/* under the engine lock */

	jifl_ksym_name(start, name, sizeof(name));
	return strstr(name, ".cold");
}

/*
 * Is `to` inside the function, but for its beginning, that was asked about last? Symbols of modules
 * are not kept, because modules go.
 */
static bool is_inside_known(unsigned long to)
{
	return to > known_start && to < known_end;
}

/* The symbol that contains addr; false: none does. */
static bool find_symbol(unsigned long addr, unsigned long *start)
{
	unsigned long size;

	if (addr >= known_start && addr < known_end) {
		*start = known_start;
		return true;
	}
	if (!jifl_ksym_range(addr, start, &size))
		return false;
	known_start = *start < MODULES_VADDR ? *start : 0;
	known_end = *start < MODULES_VADDR ? *start + size : 0;
	return true;
}

/* Does another function begin there? */
static bool begins(unsigned long addr)
{
	unsigned long start;

	return !is_inside_known(addr) && find_symbol(addr, &start) && start == addr &&
	       !is_part(start);
}

/* A call of a place inside the function that calls. */
static bool is_own(unsigned long from, unsigned long to)
{
	unsigned long start, own;

	return find_symbol(from, &own) && find_symbol(to, &start) && start == own && to != start;
}

/* Does one of the mix's sessions have its target replaced by the function that begins there? */
static bool is_replacement(const struct jifl_mix *m, unsigned long begin)
{
	const struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, m, lane)
		if (s->tool->replaces && s->aims[0]->replacement == begin)
			return true;
	return false;
}

/* Does a jump to `to`, or the end of a block before it, stay in the function? */
static bool is_inside(unsigned long to, const struct jifl_mix *m)
{
	return !begins(to) || has_places(m, to);
}

static bool leaves(jifl_orig from, jifl_orig to, bool call, void *mix)
{
	const struct jifl_target *t;

	if (JIFL_HOST_PLANTED(limits_ignored))
		return false;
	if (call ? is_own(from.v, to.v) : is_inside(to.v, mix))
		return false;
	t = jifl_target_starting(to.v);
	if (!t)
		return call || !is_replacement(mix, to.v);
	return !joins(mix, t);
}

/* All sessions of a mix have the same scope, but for those that make no copies by themselves. */
static bool is_only(const struct jifl_mix *m)
{
	const struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, m, lane)
		if (s->only)
			return true;
	return false;
}

int jifl_limit_context_create(jifl_instrument_fn fn, struct jifl_mix *m)
{
	const int context = jifl_engine_context_create(fn, m);

	if (context >= 0 && is_only(m))
		jifl_engine_context_limit(context, leaves);
	return context;
}
