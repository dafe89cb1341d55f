// SPDX-License-Identifier: GPL-2.0
/*
 * Mixes: sets of sessions that instrument the same call. This file arms targets with them; they
 * are made in mix_make.c.
 *
 * Several sessions may have the same target. Each of them then has a lane of its own: a place
 * among the target's armed aims, and cells for its counts. The sessions whose filters match one
 * call are a mix. A mix has a context of the engine. Blocks of this context have the inserts of
 * all sessions of the mix. A way is a mix at one target, and has the entry piece. A session alone
 * is a mix of one.
 *
 * A call of a function may begin inside a call of other sessions (nested.c). Then the mix has
 * those, too, and the way says which sessions enter by it.
 *
 * Mixes and ways are made before a session is armed. Contexts and entry pieces are made when a call
 * first needs them (choose.c). An armed target's door leads to jifl_entry_slow, which asks
 * choose.c.
 *
 * Neither what a call finds in choose.c nor the code that the call is sent to is freed while the
 * call uses it.
 *
 * For system calls:
 *
 * 1. A task enters jifl_choose for a target only through the target's door. The door leads there
 *    only while an aim is armed at the target: jifl_mix_reset_entry and jifl_choose_piece see to
 *    that, both under jifl_entry_lock. So a session that has the target was armed when the task
 *    read where the door leads.
 * 2. From there until it has left jifl_choose, a task does not sleep. jifl_evict ends with
 *    synchronize_rcu_tasks. So when jifl_evict returns, each task that was in jifl_choose when it
 *    was called has left.
 * 3. The task finds a target through the functions of the target's kind, aims in the target's
 *    array of armed aims, and ways in an aim or on the target's list. It uses what it has found
 *    only until it leaves.
 * 4. After jifl_mix_disarm an aim cannot be found any more. It is freed with its session, after
 *    jifl_evict has returned. By 2, no task has the aim then, and no inserted code with its
 *    address is left. The aim's own ways are freed with it, or with its session.
 * 5. A target is freed with its last aim. By 1 and 2, no task is in jifl_choose for it then: each
 *    such task came in while a session was armed there, and the aim of that session was freed only
 *    after the task had left.
 * 6. After jifl_mix_doom a way of several sessions cannot be found any more, but by a task that
 *    is at this way, or at one before it on the target's list. The way keeps its link for such a
 *    task. It is freed, with its mix, after jifl_evict has returned. A new generation frees no
 *    way.
 * 7. A way that is found belongs to the sessions that the task has matched, because they have the
 *    lanes that the way names. A lane gets another session only after jifl_evict for the former
 *    one, so by 2 not while a task uses it. Ways are published before their last session is armed.
 *    Sessions that are in a call already are compared themselves.
 * 8. No task enters code that is about to be freed. Before code is taken away, the pieces of all
 *    ways that lead there are set to 0 under jifl_entry_lock (jifl_mix_forget): by
 *    jifl_mix_disarm and jifl_mix_doom at a session's end, by jifl_mix_pause for a new
 *    generation. Under that lock no piece is made for a way with a disarmed session that enters by
 *    it, none for a way with any session that jifl_mix_doom has begun with, and none while
 *    jifl_mix_is_paused. A task that has found only the way gets 0, and its call runs
 *    natively. A task that has read the piece before has the piece's address in a register or on
 *    its stack, where jifl_evict finds it.
 *
 * For functions: a thread may enter jifl_choose_copy at any time while the door is attached,
 * so step 1 does not hold. Instead, the target stays while its door does (step 4 in the head of
 * enter/function.c). Preemption is off from the look-up of the target to the last use of an aim
 * or a way, so step 2 holds for tasks. Step 5 there says the same of interrupts and idle tasks.
 * Steps 3, 4 and 6 to 8 hold unchanged. Instead of step 5, enter/function.c says when a function is
 * freed. All of this holds for jifl_choose_inside, too. There a thread also has a mix: that of the
 * context whose code has called. A mix is freed as a way is, so step 6 holds for it.
 *
 * Context: process, under jifl_session_mutex. mix.h names the context of jifl_mix_is_paused and
 * jifl_mix_context.
 */
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../call/tool.h"
#include "../enter/function.h"
#include "../enter/entry.h"
#include "../enter/target.h"
#include "aim.h"
#include "limit.h"
#include "mix.h"
#include "mix_make.h"
#include "nested.h"
#include "session.h"

/* Mixes of more than one session. Both lists are under jifl_session_mutex. */
static LIST_HEAD(jifl_mix_others);	/* published */
static LIST_HEAD(jifl_mix_doomed);	/* not published any more, and not freed yet */
static bool jifl_mix_paused;		/* jifl_entry_lock */

/* --- contexts ------------------------------------------------------------------------ */

static void jifl_mix_instrument(struct ir_block *b, void *arg)
{
	const struct jifl_mix *m = arg;
	struct jifl_session *const *s;

	/* A block has room for so many inserts. Plugins, behind it, are told of want of it. */
	jifl_nested_insert(b, m);
	for (s = m->in_order; *s; s++)
		if ((*s)->instrument)
			(*s)->instrument(b, (*s)->instrument_arg);
}

int jifl_mix_init_alone(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i;

	memset(s->alone.members, 0, sizeof(s->alone.members));
	s->alone.members[s->lane] = s;
	jifl_mix_make_order(&s->alone);
	for_each_aim(aim, s, i) {
		aim->way.lanes = BIT(s->lane);
		aim->way.entering = aim->way.lanes;
	}
	s->alone.context = jifl_limit_context_create(jifl_mix_instrument, &s->alone);
	return s->alone.context < 0 ? s->alone.context : 0;
}

int jifl_mix_context(struct jifl_mix *m)
{
	if (m->context < 0)
		m->context = jifl_limit_context_create(jifl_mix_instrument, m);
	return m->context;
}

/* Under jifl_entry_lock. */
static void jifl_mix_give_context(struct jifl_mix *m)
{
	if (m->context >= 0)
		jifl_engine_context_destroy(m->context);
	m->context = -1;
}

/* --- mixes of several sessions ------------------------------------------------------- */

int jifl_mix_prepare(struct jifl_session *s)
{
	return jifl_mix_make_inner(s) ?: jifl_mix_make(s, &jifl_mix_others);
}

void jifl_mix_unprepare(void)
{
	jifl_mix_make_undo();
}

/* --- arming ---------------------------------------------------------------------------- */

/* The door leads to the slow way until a piece is known to fit all calls. Under jifl_entry_lock. */
static void jifl_mix_reset_entry(const struct jifl_target *t)
{
	jifl_target_redirect(t, t->lanes ? (u64)(unsigned long)jifl_entry_slow : 0);
}

/* Under jifl_entry_lock, which is taken for each way anew: there may be very many ways. */
static void jifl_mix_forget(struct jifl_way *w)
{
	WRITE_ONCE(w->piece, 0);
	WRITE_ONCE(w->native, false);
	/* No door leads to the pieces of other ways. */
	if (w->entering == w->lanes)
		jifl_mix_reset_entry(w->target);
}

/* Pieces that tell of all sessions of the target: nested.c. Under jifl_entry_lock. */
static void jifl_mix_forget_inside(struct jifl_target *t)
{
	struct jifl_way *w;

	hlist_for_each_entry(w, &t->ways, node)
		if (w->entering != w->lanes)
			WRITE_ONCE(w->piece, 0);
}

void jifl_mix_forget_pieces(struct jifl_target *t)
{
	unsigned long flags;
	struct jifl_way *w;
	unsigned int lane;

	flags = jifl_entry_lock();
	for (lane = 0; lane < JIFL_LANES; lane++) {
		if (!t->armed[lane])
			continue;
		jifl_mix_forget(&t->armed[lane]->way);
		if (t->armed[lane]->session->inner)
			jifl_mix_forget(jifl_mix_inner(t->armed[lane]));
	}
	hlist_for_each_entry(w, &t->ways, node)
		jifl_mix_forget(w);
	jifl_entry_unlock(flags);
}

/* Under jifl_entry_lock. */
static void jifl_mix_arm_aim(struct jifl_aim *aim, bool armed)
{
	const u32 lane = aim->session->lane;
	struct jifl_target *t = aim->target;

	WRITE_ONCE(t->armed[lane], armed ? aim : NULL);
	WRITE_ONCE(t->lanes, armed ? t->lanes | BIT(lane) : t->lanes & ~BIT(lane));
	jifl_mix_forget(&aim->way);
	if (aim->session->inner)
		jifl_mix_forget(jifl_mix_inner(aim));
	jifl_mix_forget_inside(t);
}

/* So many at a time: interrupts are off meanwhile, and the lock's own functions may have doors. */
#define JIFL_MIX_AT_ONCE	32u

/* Blocks where a function begins say which sessions have it: nested.c, limit.c. */
static void jifl_mix_drop_beginning(const struct jifl_target *t)
{
	if (t->kind != JIFL_TARGET_SYSCALL && !JIFL_HOST_PLANTED(nested_kept))
		jifl_engine_retire(jifl_orig_at(t->id), t->address - t->id ?: 1);
}

static void jifl_mix_arm_aims(struct jifl_session *s, bool armed)
{
	unsigned long flags;
	u32 from, to, i;

	for (from = 0; from < s->ntargets; from = to) {
		to = min(from + JIFL_MIX_AT_ONCE, s->ntargets);
		flags = jifl_entry_lock();
		for (i = from; i < to; i++)
			if (s->aims[i])
				jifl_mix_arm_aim(s->aims[i], armed);
		jifl_entry_unlock(flags);
		for (i = from; i < to; i++)
			if (s->aims[i])
				jifl_mix_drop_beginning(s->aims[i]->target);
		cond_resched();
	}
}

static void jifl_mix_publish(struct jifl_mix *m)
{
	struct jifl_way *w;
	unsigned long flags;

	list_for_each_entry(w, &m->ways, list) {
		flags = jifl_entry_lock();
		hlist_add_head_rcu(&w->node, &w->target->ways);
		jifl_entry_unlock(flags);
		cond_resched();
	}
}

static void jifl_mix_set_here(struct jifl_session *s, bool here)
{
	unsigned long flags;

	flags = jifl_entry_lock();
	WRITE_ONCE(s->here, here);
	jifl_entry_unlock(flags);
}

void jifl_mix_arm(struct jifl_session *s)
{
	struct jifl_mix *m;
	LIST_HEAD(made);

	jifl_mix_make_take(&made);
	list_for_each_entry(m, &made, list)
		jifl_mix_publish(m);
	list_splice(&made, &jifl_mix_others);
	jifl_mix_set_here(s, true);
	jifl_mix_arm_aims(s, true);
}

void jifl_mix_disarm(struct jifl_session *s)
{
	jifl_mix_arm_aims(s, false);
}

/* --- a new generation, and one session's end ---------------------------------------------- */

/* Calls fn with each way there is. There may be very many, and a worker of the kernel's does it. */
static void jifl_mix_each_way(struct list_head *sessions, void (*fn)(struct jifl_way *w))
{
	struct jifl_session *s;
	struct jifl_aim *aim;
	struct jifl_mix *m;
	struct jifl_way *w;
	u32 i;

	list_for_each_entry(s, sessions, list)
		for_each_aim(aim, s, i) {
			fn(&aim->way);
			if (s->inner)
				fn(jifl_mix_inner(aim));
			cond_resched();
		}
	list_for_each_entry(m, &jifl_mix_others, list)
		list_for_each_entry(w, &m->ways, list) {
			fn(w);
			cond_resched();
		}
}

static void jifl_mix_set_paused(bool paused)
{
	unsigned long flags;

	flags = jifl_entry_lock();
	WRITE_ONCE(jifl_mix_paused, paused);
	jifl_entry_unlock(flags);
}

bool jifl_mix_is_paused(void)
{
	return READ_ONCE(jifl_mix_paused);
}

static void jifl_mix_forget_way(struct jifl_way *w)
{
	const unsigned long flags = jifl_entry_lock();

	if (JIFL_HOST_PLANTED(pieces_kept))
		jifl_mix_reset_entry(w->target);
	else
		jifl_mix_forget(w);
	jifl_entry_unlock(flags);
}

void jifl_mix_pause(struct list_head *sessions)
{
	jifl_mix_set_paused(true);
	jifl_mix_each_way(sessions, jifl_mix_forget_way);
}

void jifl_mix_return_contexts(void)
{
	struct jifl_mix *m;
	unsigned long flags;

	flags = jifl_entry_lock();
	list_for_each_entry(m, &jifl_mix_others, list)
		jifl_mix_give_context(m);
	jifl_entry_unlock(flags);
}

void jifl_mix_resume(void)
{
	jifl_mix_set_paused(false);
}

static void jifl_mix_doom_one(struct jifl_mix *m)
{
	struct jifl_way *w, *next;
	unsigned long flags;

	list_for_each_entry_safe(w, next, &m->ways, list) {
		flags = jifl_entry_lock();
		hlist_del_rcu(&w->node);
		jifl_mix_forget(w);
		jifl_entry_unlock(flags);
		if (JIFL_HOST_PLANTED(ways_freed_early))
			jifl_mix_make_free_way(w);
		cond_resched();
	}
	flags = jifl_entry_lock();
	jifl_mix_give_context(m);
	jifl_entry_unlock(flags);
	list_move(&m->list, &jifl_mix_doomed);
}

void jifl_mix_doom(struct jifl_session *s)
{
	struct jifl_mix *m, *next;
	unsigned long flags;

	jifl_mix_set_here(s, false);
	list_for_each_entry_safe(m, next, &jifl_mix_others, list)
		if (m->members[s->lane] == s)
			jifl_mix_doom_one(m);
	flags = jifl_entry_lock();
	jifl_engine_context_destroy(s->alone.context);
	jifl_entry_unlock(flags);
}

void jifl_mix_free_doomed(void)
{
	jifl_mix_make_free(&jifl_mix_doomed);
}

/*
 * Of nearly all ways it is false already. The lock is not taken for those: where all functions are
 * targets, the lock's own have doors, too.
 */
static void jifl_mix_try_way(struct jifl_way *w)
{
	unsigned long flags;

	if (!READ_ONCE(w->native))
		return;
	flags = jifl_entry_lock();
	WRITE_ONCE(w->native, false);
	jifl_entry_unlock(flags);
}

void jifl_mix_retry_native(struct list_head *sessions)
{
	jifl_mix_each_way(sessions, jifl_mix_try_way);
}

void jifl_mix_sessions(int context, u64 ids[JIFL_LANES])
{
	struct jifl_session *s = NULL;
	const struct jifl_mix *m;
	unsigned int lane;

	memset(ids, 0, JIFL_LANES * sizeof(*ids));
	while ((s = jifl_session_next(s)))
		if (s->alone.context == context)
			ids[0] = s->id;
	list_for_each_entry(m, &jifl_mix_others, list)
		if (READ_ONCE(m->context) == context)
			for_each_member(s, m, lane)
				ids[lane] = s->id;
}
