// SPDX-License-Identifier: GPL-2.0
/*
 * Which sessions a system call is about, and the code it runs for them.
 *
 * Several sessions may have the same system call. Each then has a lane of its
 * own: a place in the table by call number, and cells for what it counts. The
 * sessions that one call matches are a mix: it has a context of the engine, in
 * which blocks carry the inserts of all of them, and entry pieces. A session
 * alone is a mix of one, which it brings along; others are made when a call
 * first needs them.
 *
 * Arming a call puts jifl_entry_slow into the entry table. The first task to
 * make it gets its entry piece translated; if no session there has a filter,
 * the piece replaces jifl_entry_slow and the call costs no question any more.
 *
 * Contexts: jifl_entry_choose runs in tasks at the entry of their system calls
 * and does not sleep; everything else under jifl_session_mutex.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../call/count.h"
#include "../enter/syscall.h"
#include "../plugin/plugins.h"
#include "filter.h"
#include "mix.h"
#include "session.h"

/*
 * Written under jifl_entry_lock, read without it at system call entry: what is
 * found here lives until jifl_evict has returned.
 */
static struct jifl_session *jifl_mix_armed[JIFL_NR_MAX][JIFL_LANES];
static LIST_HEAD(jifl_mix_others);	/* mixes of more than one; likewise */
static LIST_HEAD(jifl_mix_doomed);	/* off the former; jifl_session_mutex */
static bool jifl_mix_paused;		/* jifl_entry_lock */

/* How long a task looks at a mix, where a planted bug frees mixes too early. */
#define JIFL_MIX_PLANTED_DELAY_US	200

#define for_each_member(s, m, lane) \
	for ((lane) = 0; (lane) < JIFL_LANES; (lane)++) \
		if (((s) = (m)->members[lane]))

/*
 * Not by lanes, which are given anew: what is inserted at the same place is done in this order.
 * Plugins come last, since they may use up the room for inserts.
 */
static bool jifl_mix_precedes(const struct jifl_session *s, const struct jifl_session *other)
{
	const bool plugin = s->kind == JIFL_KIND_PLUGIN;

	if (plugin != (other->kind == JIFL_KIND_PLUGIN))
		return !plugin;
	return JIFL_HOST_PLANTED(start_order_lost) ? s->lane < other->lane : s->id < other->id;
}

/* Once for each mix: blocks are translated one after the other. */
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
}

int jifl_mix_init_alone(struct jifl_session *s)
{
	memset(s->alone.members, 0, sizeof(s->alone.members));
	s->alone.members[s->lane] = s;
	jifl_mix_arrange(&s->alone);
	s->alone.context = jifl_engine_context_create(s->instrument, s->instrument_arg);
	return s->alone.context < 0 ? s->alone.context : 0;
}

static struct jifl_mix *jifl_mix_create(struct jifl_session *const members[JIFL_LANES])
{
	struct jifl_mix *m = JIFL_ALLOC(kzalloc(sizeof(*m), GFP_NOWAIT | __GFP_NOWARN));

	if (!m)
		return NULL;
	memcpy(m->members, members, sizeof(m->members));
	jifl_mix_arrange(m);
	m->context = jifl_engine_context_create(jifl_mix_instrument, m);
	if (m->context < 0) {
		kfree(m);
		return NULL;
	}
	return m;
}

static struct jifl_mix *jifl_mix_find(struct jifl_session *const members[JIFL_LANES])
{
	struct jifl_mix *m;

	/* Freed only when nobody is here: see jifl_mix_unlist. */
	list_for_each_entry_rcu(m, &jifl_mix_others, list, true) {
		if (JIFL_HOST_PLANTED(mixes_stay_listed))
			udelay(JIFL_MIX_PLANTED_DELAY_US);
		if (!memcmp(m->members, members, sizeof(m->members)))
			return m;
	}
	return NULL;
}

static struct jifl_mix *jifl_mix_find_or_create(struct jifl_session *const members[JIFL_LANES])
{
	struct jifl_mix *m = jifl_mix_find(members);
	unsigned long flags;

	if (m)
		return m;
	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	m = jifl_mix_find(members);
	if (!m && !jifl_mix_paused) {
		m = jifl_mix_create(members);
		if (m)
			list_add_rcu(&m->list, &jifl_mix_others);
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
	return m;
}

/* --- entry pieces -------------------------------------------------------------------- */

/* Under jifl_entry_lock, whose holder alone uses these two. */
static struct ir_insert jifl_mix_entry[JIFL_LANES * JIFL_ENTRY_INSERTS];
static struct ir_insert jifl_mix_exit[JIFL_LANES * JIFL_ENTRY_INSERTS];

static void jifl_mix_inserts(const struct jifl_mix *m, unsigned int nr, u32 *nentry, u32 *nexit)
{
	struct jifl_session *const *s;
	u32 n, k;

	*nentry = 0;
	*nexit = 0;
	for (s = m->in_order; *s; s++) {
		if ((*s)->kind == JIFL_KIND_PLUGIN)
			jifl_plugin_entry(*s, nr, jifl_mix_entry + *nentry, &n,
					  jifl_mix_exit + *nexit, &k);
		else
			jifl_count_entry(*s, nr, jifl_mix_entry + *nentry, &n,
					 jifl_mix_exit + *nexit, &k);
		*nentry += n;
		*nexit += k;
	}
}

/*
 * Makes the entry piece of (m, nr); 0 when the handler cannot run in the cache
 * now. Under jifl_entry_lock.
 */
static u64 jifl_mix_make(struct jifl_mix *m, unsigned int nr)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	struct jifl_session *s;
	unsigned int lane;
	u32 nentry, nexit;
	u64 piece;

	jifl_mix_inserts(m, nr, &nentry, &nexit);
	for_each_member(s, m, lane)
		jifl_count_translate_begin(s, nr);
	piece = jifl_engine_entry_create(m->context, jifl_orig_at(jifl_entry_handler(nr)),
					 jifl_mix_entry, nentry, jifl_mix_exit, nexit, &cause);
	jifl_count_translate_end();
	if (!piece)
		set_bit(nr, m->native);
	return piece;
}

/* Is m all there is to know about nr, whoever makes the call? Under jifl_entry_lock. */
static bool jifl_mix_is_settled(const struct jifl_mix *m, unsigned int nr)
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		if (jifl_mix_armed[nr][lane] != m->members[lane])
			return false;
		if (m->members[lane] && m->members[lane]->filter.mask)
			return false;
	}
	return true;
}

/* Are all of m's sessions still there? Under jifl_entry_lock. */
static bool jifl_mix_is_armed(const struct jifl_mix *m, unsigned int nr)
{
	struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, m, lane)
		if (jifl_mix_armed[nr][lane] != s)
			return false;
	return true;
}

/* The piece of (m, nr), made if need be; 0 to let the call pass. */
static u64 jifl_mix_piece(struct jifl_mix *m, unsigned int nr)
{
	unsigned long flags;
	u64 piece;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	piece = m->pieces[nr];
	if (!piece && !jifl_mix_paused && jifl_mix_is_armed(m, nr)) {
		piece = jifl_mix_make(m, nr);
		WRITE_ONCE(m->pieces[nr], piece);
	}
	if (piece && !jifl_mix_paused && jifl_mix_is_settled(m, nr))
		WRITE_ONCE(jifl_entry_table[nr], piece);
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
	return piece;
}

/* Room for what the sessions of m count about nr. */
static bool jifl_mix_prepare(struct jifl_mix *m, unsigned int nr)
{
	struct jifl_session *s;
	unsigned int lane;

	for_each_member(s, m, lane)
		if (jifl_count_prepare(s, nr))
			return false;
	return true;
}

/* --- entry: in the task that makes the call ------------------------------------------ */

/* The sessions that the current task's call nr is about; their number. */
static unsigned int jifl_mix_match(unsigned int nr, struct jifl_session *members[JIFL_LANES])
{
	unsigned int lane, n = 0;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		struct jifl_session *s = READ_ONCE(jifl_mix_armed[nr][lane]);

		members[lane] = s && jifl_filter_match(&s->filter) ? s : NULL;
		n += !!members[lane];
	}
	return n;
}

static struct jifl_mix *jifl_mix_of(struct jifl_session *const members[JIFL_LANES],
				    unsigned int n)
{
	unsigned int lane = 0;

	if (n > 1)
		return jifl_mix_find_or_create(members);
	while (!members[lane])
		lane++;
	return &members[lane]->alone;
}

u64 jifl_mix_way_in(struct jifl_mix *m, unsigned int nr)
{
	u64 piece = READ_ONCE(m->pieces[nr]);

	if (piece)
		return piece;
	if (test_bit(nr, m->native) || jifl_engine_is_full() || !jifl_mix_prepare(m, nr))
		return 0;
	return jifl_mix_piece(m, nr);
}

/* There was no way into m; s is one of its members, in that lane. */
static enum jifl_miss jifl_mix_reason(const struct jifl_mix *m, unsigned int nr,
				      const struct jifl_session *s, unsigned int lane)
{
	if (READ_ONCE(jifl_mix_paused))
		return JIFL_MISS_FLUSH;
	if (READ_ONCE(jifl_mix_armed[nr][lane]) != s)
		return JIFL_MISS_END;
	if (jifl_engine_is_full())
		return JIFL_MISS_FULL;
	return m && test_bit(nr, m->native) ? JIFL_MISS_NATIVE : JIFL_MISS_ROOM;
}

/*
 * Does not sleep: jifl_evict waits for tasks that are in here, and so for the
 * sessions, mixes and pieces that they have seen.
 */
u64 jifl_entry_choose(const struct pt_regs *regs, unsigned int nr)
{
	struct jifl_session *members[JIFL_LANES];
	struct jifl_mix *m;
	unsigned int n, lane;
	u64 piece = 0;

	if (nr >= JIFL_NR_MAX)
		return 0;
	n = jifl_mix_match(nr, members);
	if (!n)
		return 0;
	m = jifl_mix_of(members, n);
	if (m)
		piece = jifl_mix_way_in(m, nr);
	for (lane = 0; !piece && lane < JIFL_LANES; lane++) {
		struct jifl_session *s = members[lane];

		if (s)
			jifl_count_miss(s, nr, jifl_mix_reason(m, nr, s, lane));
	}
	return piece;
}

/* --- arming ---------------------------------------------------------------------------- */

/* What stands in the entry table until a piece is known to fit. Under jifl_entry_lock. */
static void jifl_mix_reset_entry(unsigned int nr)
{
	bool armed = memchr_inv(jifl_mix_armed[nr], 0, sizeof(jifl_mix_armed[nr]));

	WRITE_ONCE(jifl_entry_table[nr], armed ? (u64)(unsigned long)jifl_entry_slow : 0);
}

static void jifl_mix_set(const struct jifl_session *s, struct jifl_session *to)
{
	unsigned long flags;
	unsigned int nr;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	for_each_set_bit(nr, s->nrs, JIFL_NR_MAX) {
		WRITE_ONCE(jifl_mix_armed[nr][s->lane], to);
		jifl_mix_reset_entry(nr);
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

void jifl_mix_arm(struct jifl_session *s)
{
	jifl_mix_set(s, s);
}

void jifl_mix_disarm(const struct jifl_session *s)
{
	jifl_mix_set(s, NULL);
}

static void jifl_mix_forget_pieces(struct jifl_mix *m)
{
	unsigned int nr;

	for (nr = 0; nr < JIFL_NR_MAX; nr++)
		WRITE_ONCE(m->pieces[nr], 0);
	bitmap_zero(m->native, JIFL_NR_MAX);
}

/*
 * Takes m off the list. A task in jifl_entry_choose may stand on m and go on along the list
 * from there, so m keeps its link, and waits on the list of doomed mixes until jifl_evict has
 * returned. Under jifl_entry_lock and jifl_session_mutex.
 */
static void jifl_mix_unlist(struct jifl_mix *m)
{
	list_del_rcu(&m->list);
	list_add(&m->doomed, &jifl_mix_doomed);
}

void jifl_mix_pause(struct list_head *sessions)
{
	struct jifl_session *s;
	struct jifl_mix *m, *next;
	unsigned long flags;
	unsigned int nr;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	jifl_mix_paused = true;
	for (nr = 0; nr < JIFL_NR_MAX; nr++)
		jifl_mix_reset_entry(nr);
	list_for_each_entry(s, sessions, list) {
		if (!JIFL_HOST_PLANTED(pieces_kept))
			jifl_mix_forget_pieces(&s->alone);
	}
	list_for_each_entry_safe(m, next, &jifl_mix_others, list) {
		jifl_mix_forget_pieces(m);
		if (!JIFL_HOST_PLANTED(mixes_stay_listed))
			jifl_mix_unlist(m);
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

void jifl_mix_doom(struct jifl_session *s)
{
	struct jifl_mix *m, *next;
	unsigned long flags;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	list_for_each_entry_safe(m, next, &jifl_mix_others, list) {
		if (m->members[s->lane] != s)
			continue;
		jifl_engine_context_destroy(m->context);
		jifl_mix_unlist(m);
	}
	jifl_engine_context_destroy(s->alone.context);
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

void jifl_mix_free_doomed(void)
{
	struct jifl_mix *m, *next;

	list_for_each_entry_safe(m, next, &jifl_mix_doomed, doomed)
		kfree(m);
	INIT_LIST_HEAD(&jifl_mix_doomed);
}

void jifl_mix_free_paused(void)
{
	struct jifl_mix *m, *next;

	if (JIFL_HOST_PLANTED(mixes_stay_listed))
		list_for_each_entry_safe(m, next, &jifl_mix_others, list)
			jifl_mix_unlist(m);
	list_for_each_entry(m, &jifl_mix_doomed, doomed)
		jifl_engine_context_destroy(m->context);
	jifl_mix_free_doomed();
}

void jifl_mix_resume(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	jifl_mix_paused = false;
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

void jifl_mix_retry_native(struct list_head *sessions)
{
	struct jifl_session *s;
	struct jifl_mix *m;

	list_for_each_entry(s, sessions, list)
		bitmap_zero(s->alone.native, JIFL_NR_MAX);
	list_for_each_entry_rcu(m, &jifl_mix_others, list, true)
		bitmap_zero(m->native, JIFL_NR_MAX);
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
	/* Only who has the mutex takes one off the list. */
	list_for_each_entry_rcu(m, &jifl_mix_others, list, true)
		if (m->context == context)
			for_each_member(s, m, lane)
				ids[lane] = s->id;
}
