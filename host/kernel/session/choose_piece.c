// SPDX-License-Identifier: GPL-2.0
/*
 * The entry piece of a way (mix.c): made when a call first needs it, under jifl_entry_lock.
 *
 * Making it takes the dispatcher's stack: a function can be called where little of its task's stack
 * is left. Nothing else uses that stack then:
 *
 * 1. Only the module's code does: the dispatcher, and what jifl_dispatch_call calls, here and in
 *    tools/probe/catch.c. Interrupts are off there, and nothing there can be traced or has a door
 *    but between jifl_own_begin and jifl_own_end.
 * 2. Whoever comes here is on another stack: at the way in of a system call, in a request of its
 *    own (session/warm.c), or behind jifl_guard_check, which lets no call of the module's own in.
 * 3. From here to the end interrupts are off, and calls are the module's own: their doors let them
 *    pass, as NMIs do. What runs on the dispatcher's stack counts as of the level of interrupts
 *    (store/level.h). jifl_entry_lock says for that level that the module runs, before it takes the
 *    lock, which has a door.
 *
 * Context: any but NMI. Nothing here sleeps or allocates.
 */
#include <linux/bitops.h>
#include <linux/spinlock.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../call/condition.h"
#include "../call/count.h"
#include "../call/tool.h"
#include "../enter/entry.h"
#include "../enter/target.h"
#include "../run/dispatch.h"
#include "../text/jump.h"
#include "aim.h"
#include "choose_piece.h"
#include "mix.h"
#include "nested.h"
#include "session.h"

/* Only the holder of the lock uses these two. */
static_assert(JIFL_SKIPS < JIFL_ENTRY_INSERTS);
static_assert(JIFL_LANES * JIFL_ENTRY_INSERTS <= IR_BLOCK_INSERTS / 2);
static struct ir_insert jifl_choose_entry[JIFL_LANES * JIFL_ENTRY_INSERTS];
static struct ir_insert jifl_choose_exit[JIFL_LANES * JIFL_ENTRY_INSERTS];

/* What the block that asks would have inserted for the aim's session: the number of inserts. */
static u32 jifl_choose_in_place(struct jifl_aim *aim, const struct jifl_way *w,
				struct ir_insert *entry)
{
	const struct jifl_session *s = aim->session;
	u32 nentry = 0, nexit;

	/* Its places in the block are skipped. */
	if (s->tool->places) {
		s->tool->entry(aim, entry, &nentry, jifl_choose_exit, &nexit);
		return nentry;
	}
	/* One that could enter has been asked. */
	if (w->mix->members[s->lane] != s && jifl_nested_enters(s))
		return 0;
	return jifl_nested_in_place(aim, w->mix, entry);
}

/* For the sessions that do not enter: nested.c, steps 1 and 2. Returns the number of inserts. */
static u32 jifl_choose_inserts_inside(const struct jifl_way *w)
{
	const struct jifl_target *t = w->target;
	struct jifl_session *const *s;
	unsigned int lane;
	u32 nentry = 0;

	for (s = w->mix->in_order; *s; s++)
		if (!(w->entering & BIT((*s)->lane)) && (*s)->tool->skips &&
		    !JIFL_HOST_PLANTED(skips_untold))
			nentry += (*s)->tool->skips(*s, t, jifl_choose_entry + nentry);
	for (lane = 0; lane < JIFL_LANES; lane++) {
		struct jifl_aim *aim = t->armed[lane];

		/* Conditions are looked at before the return is hooked: jifl_nested_tell. */
		if (aim && !(w->entering & BIT(lane)) && !jifl_condition_has(aim))
			nentry += jifl_choose_in_place(aim, w, jifl_choose_entry + nentry);
	}
	return nentry;
}

static void jifl_choose_inserts(const struct jifl_way *w, u32 *nentry, u32 *nexit)
{
	struct jifl_session *const *s;
	u32 n, k;

	*nentry = 0;
	*nexit = 0;
	if (w->entering != w->lanes)
		*nentry = jifl_choose_inserts_inside(w);
	for (s = w->mix->in_order; *s; s++) {
		struct jifl_aim *aim = w->target->armed[(*s)->lane];

		if (!(w->entering & BIT((*s)->lane)))
			continue;
		if (w->inner & BIT((*s)->lane)) {
			*nentry += jifl_count_entry_inner(aim, jifl_choose_entry + *nentry);
			continue;
		}
		(*s)->tool->entry(aim, jifl_choose_entry + *nentry, &n,
				  jifl_choose_exit + *nexit, &k);
		*nentry += n;
		*nexit += k;
	}
}

/* The aim of the session in this mix that replaces the way's target; NULL: none does. */
static const struct jifl_aim *jifl_choose_replacing(const struct jifl_way *w)
{
	const struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, w->mix, lane)
		if (w->entering & BIT(lane) && w->target->armed[lane]->gate)
			return w->target->armed[lane];
	return NULL;
}

/* A piece with the inserts that leads to an address. 0: the code there cannot run in the cache. */
static u64 jifl_choose_create(const struct jifl_way *w, int context, u64 to, u32 nentry, u32 nexit)
{
	const struct jifl_jump *jump = w->target->jump;
	enum jifl_cause cause = JIFL_CAUSE_NONE;

	/* See nested.c, step 10. */
	if (jump && !JIFL_HOST_PLANTED(beginnings_shared))
		return jifl_engine_entry_create_beginning(context, jifl_orig_at(to), jump->len,
							  jifl_choose_entry, nentry, &cause);
	return jifl_engine_entry_create(context, jifl_orig_at(to), jifl_choose_entry, nentry,
					jifl_choose_exit, nexit, &cause);
}

/* Makes the way's entry piece. Returns 0 if the target cannot run in the cache now. */
static u64 jifl_choose_make(struct jifl_way *w)
{
	const struct jifl_aim *replacing = jifl_choose_replacing(w);
	int context;
	struct jifl_session *s;
	unsigned int lane;
	u64 calls[JIFL_LANES];
	u32 nentry, nexit;
	u64 piece;

	if (replacing && w == &replacing->way)
		return replacing->gate;
	context = jifl_mix_context(w->mix);
	if (context < 0)
		return 0;
	jifl_choose_inserts(w, &nentry, &nexit);
	/* A function's call ends in the hook of its return. */
	if (w->target->kind != JIFL_TARGET_SYSCALL)
		nexit = 0;
	jifl_count_put_aside(calls);
	/* Of a session that is in a call already, that call is in its lane. */
	for_each_member(s, w->mix, lane)
		if (w->entering & BIT(lane))
			jifl_count_translate_begin(w->target->armed[lane]);
	piece = jifl_choose_create(w, context,
				   replacing ? replacing->replacement : w->target->address,
				   nentry, nexit);
	jifl_count_put_back(calls);
	if (!piece)
		WRITE_ONCE(w->native, true);
	return piece;
}

static const struct jifl_session *jifl_choose_armed(const struct jifl_target *t, unsigned int lane)
{
	const struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

	return aim ? aim->session : NULL;
}

static bool jifl_choose_has_condition(const struct jifl_target *t, unsigned int lane)
{
	const struct jifl_aim *aim = READ_ONCE(t->armed[lane]);

	return aim && jifl_condition_has(aim) && !JIFL_HOST_PLANTED(conditions_settled);
}

/* As long as its sessions are, the way is not settled. Both do not change while a session runs. */
static bool jifl_choose_always_asks(const struct jifl_way *w)
{
	const struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, w->mix, lane)
		if (s->filter.mask || (s->slot && w->target->kind != JIFL_TARGET_SYSCALL))
			return true;
	return false;
}

bool jifl_choose_is_settled(const struct jifl_way *w)
{
	const bool function = w->target->kind != JIFL_TARGET_SYSCALL;
	unsigned int lane;

	if ((function && !w->target->door) || w->entering != w->lanes || w->inner)
		return false;
	for (lane = 0; lane < JIFL_LANES; lane++) {
		const struct jifl_session *s = w->mix->members[lane];

		if (jifl_choose_armed(w->target, lane) != s)
			return false;
		if (s && jifl_choose_has_condition(w->target, lane))
			return false;
	}
	return !jifl_choose_always_asks(w);
}

/* Whether all sessions of the way are still armed, or there, if they do not enter by it. */
static bool jifl_choose_is_armed(const struct jifl_way *w)
{
	const struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, w->mix, lane)
		if (w->entering & BIT(lane) ? jifl_choose_armed(w->target, lane) != s : !s->here)
			return false;
	return true;
}

struct jifl_choose_wanted {
	struct jifl_way *way;
	u64 piece;
};

static void jifl_choose_piece_there(void *arg)
{
	struct jifl_choose_wanted *wanted = arg;
	struct jifl_way *w = wanted->way;
	unsigned long flags;
	u64 piece;

	flags = jifl_entry_lock();
	piece = w->piece;
	if (!piece && !jifl_mix_is_paused() && jifl_choose_is_armed(w)) {
		piece = jifl_choose_make(w);
		WRITE_ONCE(w->asks, jifl_choose_always_asks(w));
		WRITE_ONCE(w->piece, piece);
	}
	if (piece && !jifl_mix_is_paused() && jifl_choose_is_settled(w))
		jifl_target_redirect(w->target, piece);
	jifl_entry_unlock(flags);
	wanted->piece = piece;
}

u64 jifl_choose_piece(struct jifl_way *w)
{
	struct jifl_choose_wanted wanted = { .way = w };
	const unsigned long flags = jifl_own_irq_save();

	if (JIFL_HOST_PLANTED(chosen_on_stack))
		jifl_choose_piece_there(&wanted);
	else
		jifl_dispatch_call(jifl_choose_piece_there, &wanted);
	jifl_own_irq_restore(flags);
	return wanted.piece;
}
