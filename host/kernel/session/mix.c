// SPDX-License-Identifier: GPL-2.0
/*
 * Mixes: sets of sessions that instrument the same call. This file makes them, and arms targets
 * with them.
 *
 * Several sessions may have the same target. Each of them then has a lane of its own: a place
 * among the target's armed aims, and cells for its counts. The sessions whose filters match one
 * call are a mix. A mix has a context of the engine. Blocks of this context have the inserts of
 * all sessions of the mix. A way is a mix at one target, and has the entry piece. A session alone
 * is a mix of one.
 *
 * Before a session is armed, jifl_mix_prepare makes its mixes with all sessions that have one of
 * its targets, and their ways: at most 7 for each target. Contexts and entry pieces are made when
 * a call first needs them (choose.c). An armed target's door leads to jifl_entry_slow, which asks
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
 *    address is left. The aim's own way is freed with it.
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
 * 8. No task enters code that is about to be freed. Before code is taken away, the pieces of all
 *    ways that lead there are set to 0 under jifl_entry_lock (jifl_mix_forget): by
 *    jifl_mix_disarm and jifl_mix_doom at a session's end, by jifl_mix_pause for a new
 *    generation. Under that lock no piece is made for a way with a disarmed session, and none
 *    while jifl_mix_is_paused. A task that has found only the way gets 0, and its call runs
 *    natively. A task that has read the piece before has the piece's address in a register or on
 *    its stack, where jifl_evict finds it.
 *
 * For functions: a thread may enter jifl_choose_copy at any time while the door is attached,
 * so step 1 does not hold. Instead, the target stays while its door does (step 4 in the head of
 * enter/function.c). Preemption is off from the look-up of the target to the last use of an aim
 * or a way, so step 2 holds for tasks. Step 5 there says the same of interrupts and idle tasks.
 * Steps 3, 4 and 6 to 8 hold unchanged. Instead of step 5, enter/function.c says when a function is
 * freed.
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
#include "nested.h"
#include "session.h"

/* Mixes of more than one session. The three lists are under jifl_session_mutex. */
static LIST_HEAD(jifl_mix_others);	/* published */
static LIST_HEAD(jifl_mix_prepared);	/* of a session that is not armed yet */
static LIST_HEAD(jifl_mix_doomed);	/* not published any more, and not freed yet */
static bool jifl_mix_paused;		/* jifl_entry_lock */

/*
 * Inserts of several sessions at the same place run in this order. It is the order of the sessions'
 * starts. Lanes have another order, because a lane is used again after a session's end. Plugins
 * come last, because they may use up the room for inserts.
 */
static bool jifl_mix_precedes(const struct jifl_session *s, const struct jifl_session *other)
{
	const bool plugin = s->tool->is_plugin;

	if (plugin != other->tool->is_plugin)
		return !plugin;
	return JIFL_HOST_PLANTED(start_order_lost) ? s->lane < other->lane : s->id < other->id;
}

/* Sorts the mix's sessions once, so that jifl_mix_instrument need not do it for each block. */
static void jifl_mix_arrange(struct jifl_mix *m)
{
	struct jifl_session *s;
	unsigned int lane, n = 0, i;

	for_each_member(s, m, lane) {
		for (i = n++; i && jifl_mix_precedes(s, m->in_order[i - 1]); i--)
			m->in_order[i] = m->in_order[i - 1];
		m->in_order[i] = s;
	}
	m->in_order[n] = NULL;
}

/* --- contexts ------------------------------------------------------------------------ */

static void jifl_mix_instrument(struct ir_block *b, void *arg)
{
	const struct jifl_mix *m = arg;
	struct jifl_session *const *s;

	for (s = m->in_order; *s; s++)
		if ((*s)->instrument)
			(*s)->instrument(b, (*s)->instrument_arg);
	jifl_nested_insert(b, m);
}

int jifl_mix_init_alone(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i;

	memset(s->alone.members, 0, sizeof(s->alone.members));
	s->alone.members[s->lane] = s;
	jifl_mix_arrange(&s->alone);
	for_each_aim(aim, s, i)
		aim->way.lanes = BIT(s->lane);
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

static void jifl_mix_free_way(struct jifl_way *w)
{
	list_del(&w->list);
	kfree(w);
}

static void jifl_mix_free(struct list_head *mixes)
{
	struct jifl_way *w, *next_way;
	struct jifl_mix *m, *next;

	list_for_each_entry_safe(m, next, mixes, list) {
		list_for_each_entry_safe(w, next_way, &m->ways, list)
			jifl_mix_free_way(w);
		kfree(m);
	}
	INIT_LIST_HEAD(mixes);
}

/* The mix of s, which is not armed yet, with the sessions that are armed at t in these lanes. */
static struct jifl_mix *jifl_mix_find_or_create(struct jifl_session *s,
						const struct jifl_target *t, u32 lanes)
{
	struct jifl_session *members[JIFL_LANES];
	struct jifl_mix *m;
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		members[lane] = lane == s->lane ? s :
				lanes & BIT(lane) ? t->armed[lane]->session : NULL;
	list_for_each_entry(m, &jifl_mix_prepared, list)
		if (!memcmp(m->members, members, sizeof(members)))
			return m;
	m = JIFL_ALLOC(kzalloc(sizeof(*m), GFP_KERNEL));
	if (!m)
		return NULL;
	memcpy(m->members, members, sizeof(members));
	jifl_mix_arrange(m);
	m->context = -1;
	INIT_LIST_HEAD(&m->ways);
	list_add(&m->list, &jifl_mix_prepared);
	return m;
}

static int jifl_mix_prepare_way(struct jifl_session *s, struct jifl_target *t, u32 lanes)
{
	struct jifl_mix *m = jifl_mix_find_or_create(s, t, lanes);
	struct jifl_way *w;

	if (!m)
		return -ENOMEM;
	w = JIFL_ALLOC(kzalloc(sizeof(*w), GFP_KERNEL));
	if (!w)
		return -ENOMEM;
	w->target = t;
	w->mix = m;
	w->lanes = lanes;
	list_add(&w->list, &m->ways);
	return 0;
}

int jifl_mix_prepare(struct jifl_session *s)
{
	const u32 own = BIT(s->lane);
	struct jifl_aim *aim;
	u32 i, lanes, others;
	int ret = 0;

	for_each_aim(aim, s, i) {
		struct jifl_target *t = aim->target;

		for (lanes = 0, others = 0; lanes < JIFL_LANES; lanes++)
			if (t->armed[lanes])
				others |= BIT(lanes);
		others &= ~own;
		/* Each set of others but the empty one. */
		for (lanes = others; lanes && !ret; lanes = (lanes - 1) & others)
			ret = jifl_mix_prepare_way(s, t, lanes | own);
		if (ret)
			break;
	}
	if (ret)
		jifl_mix_unprepare();
	return ret;
}

void jifl_mix_unprepare(void)
{
	jifl_mix_free(&jifl_mix_prepared);
}

/* --- arming ---------------------------------------------------------------------------- */

/* The door leads to the slow way until a piece is known to fit all calls. Under jifl_entry_lock. */
static void jifl_mix_reset_entry(const struct jifl_target *t)
{
	bool armed = memchr_inv(t->armed, 0, sizeof(t->armed));

	jifl_target_redirect(t, armed ? (u64)(unsigned long)jifl_entry_slow : 0);
}

/* Under jifl_entry_lock, which is taken for each way anew: there may be very many ways. */
static void jifl_mix_forget(struct jifl_way *w)
{
	WRITE_ONCE(w->piece, 0);
	WRITE_ONCE(w->native, false);
	jifl_mix_reset_entry(w->target);
}

static void jifl_mix_arm_aim(struct jifl_aim *aim, bool armed)
{
	unsigned long flags;

	flags = jifl_entry_lock();
	WRITE_ONCE(aim->target->armed[aim->session->lane], armed ? aim : NULL);
	jifl_mix_forget(&aim->way);
	jifl_entry_unlock(flags);
	/* Blocks where the function begins say which sessions have it: nested.c, limit.c. */
	if (aim->target->kind != JIFL_TARGET_SYSCALL && !JIFL_HOST_PLANTED(nested_kept))
		jifl_engine_invalidate(jifl_orig_at(aim->target->id),
				       aim->target->address - aim->target->id ?: 1);
}

static void jifl_mix_publish(struct jifl_mix *m)
{
	struct jifl_way *w;
	unsigned long flags;

	list_for_each_entry(w, &m->ways, list) {
		flags = jifl_entry_lock();
		hlist_add_head_rcu(&w->node, &w->target->ways);
		jifl_entry_unlock(flags);
	}
}

void jifl_mix_arm(struct jifl_session *s)
{
	struct jifl_mix *m;
	struct jifl_aim *aim;
	u32 i;

	list_for_each_entry(m, &jifl_mix_prepared, list)
		jifl_mix_publish(m);
	list_splice_init(&jifl_mix_prepared, &jifl_mix_others);
	for_each_aim(aim, s, i)
		jifl_mix_arm_aim(aim, true);
}

void jifl_mix_disarm(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i;

	for_each_aim(aim, s, i)
		jifl_mix_arm_aim(aim, false);
}

/* --- a new generation, and one session's end ---------------------------------------------- */

/* Calls fn with each way there is, under jifl_entry_lock. The lock is given up between two ways. */
static void jifl_mix_each_way(struct list_head *sessions, void (*fn)(struct jifl_way *w))
{
	struct jifl_session *s;
	struct jifl_aim *aim;
	struct jifl_mix *m;
	struct jifl_way *w;
	unsigned long flags;
	u32 i;

	list_for_each_entry(s, sessions, list)
		for_each_aim(aim, s, i) {
			flags = jifl_entry_lock();
			fn(&aim->way);
			jifl_entry_unlock(flags);
		}
	list_for_each_entry(m, &jifl_mix_others, list)
		list_for_each_entry(w, &m->ways, list) {
			flags = jifl_entry_lock();
			fn(w);
			jifl_entry_unlock(flags);
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
	if (JIFL_HOST_PLANTED(pieces_kept))
		jifl_mix_reset_entry(w->target);
	else
		jifl_mix_forget(w);
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
			jifl_mix_free_way(w);
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

	list_for_each_entry_safe(m, next, &jifl_mix_others, list)
		if (m->members[s->lane] == s)
			jifl_mix_doom_one(m);
	flags = jifl_entry_lock();
	jifl_engine_context_destroy(s->alone.context);
	jifl_entry_unlock(flags);
}

void jifl_mix_free_doomed(void)
{
	jifl_mix_free(&jifl_mix_doomed);
}

static void jifl_mix_try_way(struct jifl_way *w)
{
	WRITE_ONCE(w->native, false);
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
