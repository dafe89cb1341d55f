// SPDX-License-Identifier: GPL-2.0
/*
 * Makes, before a session is armed, the mixes and ways that calls can need then (mix.c):
 *
 * - For each target that others have, too: a way for each set of them. The calls of all of these
 *   sessions begin at the door: at most 7 ways for each target. Where one of them counts calls
 *   apart, there are two, by whether it is in a call already.
 * - For each target of a session that counts calls apart: a way for its calls inside others.
 * - For each function whose calls may begin inside calls of others (nested.c): a way for each mix
 *   that exists, whose copies may call it, and each set of sessions that may enter there. This
 *   makes new mixes, whose copies may call further functions. The list grows while it is walked;
 *   it ends, because each new mix has more members, and there are JIFL_LANES.
 *
 * Of the second sort there may be very many, where several sessions have tens of thousands of
 * functions. Beyond JIFL_MIX_MAKE_INSIDE, of all sessions, none is made: where there is none, the
 * nested call is missed.
 *
 * Context: process, under jifl_session_mutex; sleeps.
 */
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../call/count.h"
#include "../call/tool.h"
#include "../enter/target.h"
#include "mix.h"
#include "mix_make.h"
#include "nested.h"
#include "session.h"

/* So many ways for calls inside others: 12 MiB. */
#define JIFL_MIX_MAKE_INSIDE	(1u << 17)

/* Both under jifl_session_mutex. */
static LIST_HEAD(prepared);	/* of a session that is not armed yet */
static u32 ninside;		/* ways for calls inside others that there are */

/*
 * Inserts of several sessions at the same place run in this order. It is the order of the sessions'
 * starts. Lanes have another order, because a lane is used again after a session's end. Plugins
 * come last, because they may use up the room for inserts.
 */
static bool precedes(const struct jifl_session *s, const struct jifl_session *other)
{
	const bool plugin = s->tool->is_plugin;

	if (plugin != other->tool->is_plugin)
		return !plugin;
	return JIFL_HOST_PLANTED(start_order_lost) ? s->lane < other->lane : s->id < other->id;
}

void jifl_mix_make_order(struct jifl_mix *m)
{
	struct jifl_session *s;
	unsigned int lane, n = 0, i;

	for_each_member(s, m, lane) {
		for (i = n++; i && precedes(s, m->in_order[i - 1]); i--)
			m->in_order[i] = m->in_order[i - 1];
		m->in_order[i] = s;
	}
	m->in_order[n] = NULL;
}

void jifl_mix_make_free_way(struct jifl_way *w)
{
	ninside -= w->entering != w->lanes;
	list_del(&w->list);
	kfree(w);
}

void jifl_mix_make_free(struct list_head *mixes)
{
	struct jifl_way *w, *next_way;
	struct jifl_mix *m, *next;

	list_for_each_entry_safe(m, next, mixes, list) {
		list_for_each_entry_safe(w, next_way, &m->ways, list)
			jifl_mix_make_free_way(w);
		kfree(m);
	}
	INIT_LIST_HEAD(mixes);
}

/* The prepared mix with these members. NULL: no memory. */
static struct jifl_mix *find_or_create(struct jifl_session *const members[JIFL_LANES])
{
	struct jifl_mix *m;

	list_for_each_entry(m, &prepared, list)
		if (!memcmp(m->members, members, sizeof(m->members)))
			return m;
	m = JIFL_ALLOC(kzalloc(sizeof(*m), GFP_KERNEL));
	if (!m)
		return NULL;
	memcpy(m->members, members, sizeof(m->members));
	jifl_mix_make_order(m);
	m->context = -1;
	INIT_LIST_HEAD(&m->ways);
	/* At the end: whoever walks the list comes there. */
	list_add_tail(&m->list, &prepared);
	return m;
}

/*
 * The way of s and of the sessions armed at t in these lanes, all of which enter there. inner: of
 * struct jifl_way. inside: the members of a mix whose copies call t; NULL: none.
 */
static int make_way(struct jifl_session *s, struct jifl_target *t, u32 entering, u32 inner,
		    const struct jifl_mix *inside)
{
	struct jifl_session *members[JIFL_LANES] = {};
	struct jifl_way *w;
	struct jifl_mix *m;
	unsigned int lane;
	u32 lanes = 0;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		if (entering & BIT(lane))
			members[lane] = t->armed[lane] ? t->armed[lane]->session : s;
		else if (inside)
			members[lane] = inside->members[lane];
		lanes |= members[lane] ? BIT(lane) : 0;
	}
	m = find_or_create(members);
	if (!m)
		return -ENOMEM;
	w = JIFL_ALLOC(kzalloc(sizeof(*w), GFP_KERNEL));
	if (!w)
		return -ENOMEM;
	w->target = t;
	w->mix = m;
	w->lanes = lanes;
	w->entering = entering;
	w->inner = inner;
	ninside += entering != lanes;
	list_add(&w->list, &m->ways);
	return 0;
}

/* --- calls that begin at a door ---------------------------------------------------------- */

/* A way for each set of sessions that count calls apart: these are in a call already. */
static int make_at_door(struct jifl_session *s, struct jifl_target *t, u32 lanes)
{
	u32 apart = 0, inner;
	unsigned int lane;
	int ret;

	for_each_lane(lane, lanes)
		if (jifl_count_is_apart(t->armed[lane] ? t->armed[lane]->session : s))
			apart |= BIT(lane);
	for (inner = apart;; inner = (inner - 1) & apart) {
		ret = make_way(s, t, lanes, inner, NULL);
		if (ret || !inner)
			return ret;
	}
}

static int make_at_doors(struct jifl_session *s)
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
			ret = make_at_door(s, t, lanes | own);
		if (ret)
			break;
	}
	return ret;
}

/* --- calls that begin inside others ------------------------------------------------------- */

/*
 * Ways into t from copies of `inside`, for each set of sessions that has this lane, and otherwise
 * only such of these lanes as enter at t.
 */
static int make_inside(struct jifl_session *s, struct jifl_target *t, unsigned int lane,
		       u32 others, const struct jifl_mix *inside)
{
	u32 lanes, may = 0;
	int ret = 0;

	for (; others; others &= others - 1) {
		const unsigned int other = __ffs(others);

		if (t->armed[other] && !inside->members[other] &&
		    jifl_nested_enters(t->armed[other]->session))
			may |= BIT(other);
	}
	for (lanes = may; !ret && ninside < JIFL_MIX_MAKE_INSIDE; lanes = (lanes - 1) & may) {
		ret = make_way(s, t, lanes | BIT(lane), 0, inside);
		if (!lanes)
			break;
	}
	cond_resched();
	return ret;
}

/* From copies of `inside` into the functions of `entering`, together with sessions in others. */
static int make_into(struct jifl_session *s, struct jifl_session *entering, u32 others,
		     const struct jifl_mix *inside)
{
	struct jifl_aim *aim;
	int ret = 0;
	u32 i;

	if (!jifl_nested_enters(entering) || inside->members[entering->lane])
		return 0;
	for_each_aim(aim, entering, i)
		if (aim->target->kind != JIFL_TARGET_SYSCALL && !ret)
			ret = make_inside(s, aim->target, entering->lane, others, inside);
	return ret;
}

/* All ways from copies of this mix that there are by s. */
static int make_from(struct jifl_session *s, const struct jifl_mix *inside)
{
	const u32 all = BIT(JIFL_LANES) - 1;
	struct jifl_session *other = NULL;
	int ret = 0;

	if (!jifl_nested_holds(inside))
		return 0;
	if (inside->members[s->lane] != s)
		return make_into(s, s, all & ~BIT(s->lane), inside);
	/* The lanes above: each set of sessions has one lane that is the lowest. */
	while (!ret && (other = jifl_session_next(other)))
		ret = make_into(s, other, all & ~(BIT(other->lane + 1) - 1), inside);
	return ret;
}

static int make_from_all(struct jifl_session *s, const struct list_head *others)
{
	struct jifl_session *other = NULL;
	const struct jifl_mix *m;
	int ret;

	ret = make_from(s, &s->alone);
	while (!ret && (other = jifl_session_next(other)))
		ret = make_from(s, &other->alone);
	list_for_each_entry(m, others, list)
		ret = ret ?: make_from(s, m);
	list_for_each_entry(m, &prepared, list)
		ret = ret ?: make_from(s, m);
	return ret;
}

int jifl_mix_make_inner(struct jifl_session *s)
{
	struct jifl_aim *aim;
	u32 i;

	if (!jifl_count_is_apart(s))
		return 0;
	s->inner = JIFL_ALLOC(kvcalloc(s->ntargets, sizeof(*s->inner), GFP_KERNEL));
	if (!s->inner)
		return -ENOMEM;
	for_each_aim(aim, s, i)
		s->inner[i] = (struct jifl_way){
			.target = aim->target,
			.mix = &s->alone,
			.lanes = BIT(s->lane),
			.entering = BIT(s->lane),
			.inner = BIT(s->lane),
		};
	return 0;
}

int jifl_mix_make(struct jifl_session *s, const struct list_head *others)
{
	int ret = make_at_doors(s) ?: make_from_all(s, others);

	if (ret)
		jifl_mix_make_undo();
	return ret;
}

void jifl_mix_make_undo(void)
{
	jifl_mix_make_free(&prepared);
}

void jifl_mix_make_take(struct list_head *to)
{
	list_splice_tail_init(&prepared, to);
}
