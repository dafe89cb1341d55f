// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of functions that copies make do not come to the function's door. What happens to them is
 * decided in the block where the function begins, for each session that has it as a target:
 *
 * - A session whose context it is, and that counts calls, counts this one.
 * - A session whose context it is, and that follows its calls, is in a call: what runs is a part
 *   of that one. The nested call is missed.
 * - Another session that only counts calls, of all tasks, counts this one: it needs no more.
 * - For any other session the block asks, each time, as a door does (jifl_choose_inside). If the
 *   session's filter matches, the call goes to an entry piece, and on in the context of all: the
 *   sessions that are in a call already, and those whose call begins. Its return leads back to the
 *   copy that has called.
 * - Where that cannot be, the call of the other session is missed. So it is in limited contexts,
 *   for sessions about functions alone, and in calls of tools that hold no others (struct
 *   jifl_tool).
 *
 * Why a call that changes its context is counted exactly:
 *
 * 1. The block asks before anything of it runs, so nothing of it has been counted. The entry piece
 *    leads to the code behind the function's site. What is skipped is told in the piece for those
 *    that are in a call (jifl_tool.skips), and begins the call of those that enter.
 * 2. The piece has also what the block would have inserted for the other sessions of the function,
 *    places of probes there, too. It is made anew when a session of the function is armed or
 *    disarmed (mix.c). What depends on the caller is told before the return is hooked.
 * 3. The copies from there on have the inserts of all of them. The lanes are the task's, as
 *    everywhere: whoever is in a call counts into the same lane as before.
 * 4. The call's return address is that of the copy that has called, in the context of before. If
 *    the call is followed, its return is hooked, as at a door.
 * 5. When one of the sessions ends, its contexts go. The task's stack has frames of several
 *    contexts then; those that go become native (leave/evict.c), and all running calls of the task
 *    are counted as missed, as always.
 * 6. Where there is no way, no piece or no hook, the block goes on: the call of those in a call is
 *    whole, and that of the others is missed, with its cause.
 * 7. The block is in code whose context may be destroyed meanwhile. The calls of its sessions may
 *    end, and be counted, before jifl_evict cuts them. So the block goes on, and the call of the
 *    other session is missed.
 * 8. A copy of a followed call can run above the level of its lanes, as a function that runs
 *    softirqs does. There the block goes on, too. Copies of other calls have no lanes: there the
 *    call begins as at a door (step 3 in the head of call/levels.c).
 * 9. A thread that has begun the block ends it, though sessions come and go meanwhile
 *    (jifl_engine_retire): the call is counted once. If the text changes while a thread asks, the
 *    thread comes back to an int3, and asks again in the block that is made then. So a call that is
 *    missed may be told twice. It may also be if the session of the copy ends at that moment, and
 *    the thread goes on natively. A thread that stands behind the counters then, and has no copy
 *    any more, goes on behind the function's site (jifl_run_events.begun) or in the gate of its
 *    jump: at neither is the call counted again.
 *
 * 10. A function without a site is called at its first instruction, by copies and natively. So
 *    calls that come by its door have a piece of their own with the first instructions
 *    (jifl_engine_entry_create_beginning). Nothing is inserted there for the block. What leads to
 *    the block is a call: jumps of the function itself, which would be none, are why it is refused
 *    (jifl_jumps_may). A probe's handler that leads a thread there leaves the first instruction
 *    alone while others have the function (tools/probe/catch.c).
 *
 * 11. A function whose site somebody else has is entered behind it (enter/notrace.c). Its call
 *    begins with that of the tracer, which must not be skipped. Of most tracers the engine knows no
 *    text: copies run natively from the site on, and come to the door. A tracer in a module's text
 *    is copied. There the call goes to no piece: for a session that would enter it is missed. While
 *    somebody has a kprobe on the jump, copies run natively from there on, and come to the door,
 *    which tells of a missed call. The copies are dropped when such a kprobe comes and when it goes
 *    (jifl_jump_changes).
 * 12. An endbr64 before the site may be a block of its own: it was translated while the site could
 *    not be. When the site changes that block stays, and the one at the site has the call. It goes
 *    to no piece either: the endbr64 has been counted.
 *
 * Where that block ends before the site, as a tracer has it too, the copy runs natively from there
 * on, and comes to the door. Nothing is inserted.
 *
 * Inserted code has the address of an aim. The block is dropped when the aim is armed and when it
 * is disarmed (mix.c), before jifl_evict waits for RCU tasks: no thread sleeps between the
 * beginning of such an insert and its end, so none uses the aim when it is freed. Nor does an
 * interrupt: jifl_evict stops the machine, and interrupts have ended then. The same holds of the
 * pieces. What jifl_choose_inside finds stays for the same reasons as at a door (mix.c).
 *
 * Context: under the engine lock, or jifl_entry_lock.
 */
#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../call/condition.h"
#include "../call/count.h"
#include "../call/tool.h"
#include "../call/whose.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "../text/jump.h"
#include "nested.h"

/* Is nothing needed of the session's calls but their number, whoever makes them? */
static bool only_counts(const struct jifl_session *s)
{
	return s->tool->calls == JIFL_CALLS_COUNTED && !s->tool->instrument && !s->tool->replaces &&
	       !jifl_count_follows(s) && !s->filter.mask && !(s->flags & JIFL_FLAGS_VALUE);
}

bool jifl_nested_enters(const struct jifl_session *s)
{
	return s->tool->calls != JIFL_CALLS_UNCOUNTED && !s->tool->replaces && !s->tool->places &&
	       !s->only && !only_counts(s);
}

bool jifl_nested_holds(const struct jifl_mix *m)
{
	struct jifl_session *const *s;

	for (s = m->in_order; *s; s++)
		if (!(*s)->tool->holds || (*s)->only)
			return false;
	return true;
}

bool jifl_nested_in_place(struct jifl_aim *aim, const struct jifl_mix *m, struct ir_insert *ins)
{
	const struct jifl_session *s = aim->session;

	return jifl_count_nested(aim, m->members[s->lane] == s || only_counts(s), ins);
}

bool jifl_nested_tells(struct jifl_aim *aim, const struct jifl_mix *m,
		       const struct jifl_facts *facts)
{
	const struct jifl_session *s = aim->session;

	if (!jifl_condition_has(aim) || s->tool->calls == JIFL_CALLS_UNCOUNTED)
		return false;
	/* For a session that could enter, the call has been asked about. */
	return (m->members[s->lane] == s || !jifl_nested_enters(s)) &&
	       jifl_condition_is_meant(aim, facts);
}

/* The same choice as in jifl_count_nested. */
void jifl_nested_tell(struct jifl_aim *aim, const struct jifl_mix *m)
{
	const struct jifl_session *s = aim->session;
	const bool member = m->members[s->lane] == s;

	jifl_condition_tell(aim, only_counts(s) || (member && !jifl_count_follows(s) &&
						    !(s->flags & JIFL_FLAGS_ARG)));
}

/* The target of which a call begins, or goes on behind its endbr64, with the block; NULL: none. */
static const struct jifl_target *jifl_nested_target(const struct ir_block *b)
{
	const struct jifl_target *t = b->in_piece ? NULL : jifl_target_starting(b->addr.v);

	if (!t && !b->in_piece)
		t = jifl_target_with_site(b->addr.v);
	return t && b->addr.v + b->src_len >= t->address ? t : NULL;
}

/* Step 11. Has somebody else a kprobe on the target's jump? */
static bool jifl_nested_is_kept(const struct jifl_target *t)
{
	const struct jifl_jump *j = t->kind == JIFL_TARGET_NOTRACE ? READ_ONCE(t->jump) : NULL;

	return j && READ_ONCE(j->taken);
}

void jifl_nested_insert(struct ir_block *b, const struct jifl_mix *m)
{
	const struct jifl_target *t = jifl_nested_target(b);
	struct ir_insert nested, *ins;
	unsigned int lane;
	bool whole;

	if (!t || jifl_nested_is_kept(t) || JIFL_HOST_PLANTED(nested_untold))
		return;
	/* Steps 11 and 12. A function's own site is a nop in copies. */
	whole = b->addr.v == t->id &&
		(t->kind == JIFL_TARGET_FUNCTION || b->addr.v + b->src_len > t->address ||
		 JIFL_HOST_PLANTED(tracers_skipped));
	for (lane = 0; lane < JIFL_LANES; lane++) {
		struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

		if (!aim)
			continue;
		if (whole && m->members[lane] != aim->session &&
		    jifl_nested_enters(aim->session) && jifl_nested_holds(m)) {
			b->asks = true;
			continue;
		}
		if (!jifl_nested_in_place(aim, m, &nested))
			continue;
		ins = ir_block_insert(b, IR_BEFORE, 0);
		if (!ins)
			continue;
		*ins = nested;
		ins->place = IR_BEFORE;
		ins->at = 0;
		/*
		 * Assembly may be called with any register in use. So may what is compiled
		 * without the tracer's calls: there gcc looks which registers a function changes
		 * (-fipa-ra).
		 */
		ins->convention &= jifl_target_site_bytes(t) > 0;
	}
}
