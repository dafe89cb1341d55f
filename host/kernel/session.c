// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: which system calls are redirected into the code cache, for whom,
 * and with what inserted; and how that ends.
 *
 * A session owns a context of the engine and a set of system calls that no
 * other session has. Arming a call puts jifl_entry_slow into the entry table.
 * The first task to make it gets its entry piece translated; without a filter
 * the piece then replaces jifl_entry_slow and the call costs no question any
 * more.
 *
 * The code cache is shared and has one generation, so the end of a session and
 * a full cache are the same event (jifl_session_renew):
 *
 *	1. pause: no entry leads into the cache; calls of the sessions that stay
 *	   are let pass and counted as missed
 *	2. drain the entry stub and the cache (jifl_evict)
 *	3. forget the calls that were in flight
 *	4. empty the cache
 *	5. go on
 *
 * Everything sleeps and runs under jifl_session_mutex but jifl_entry_choose,
 * which tasks run at the entry of their system calls.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "kernel.h"

/* Sessions come, go and are renewed one at a time. */
DEFINE_MUTEX(jifl_session_mutex);

static LIST_HEAD(jifl_sessions);	/* jifl_session_mutex */
static u64 jifl_session_last_id;	/* jifl_session_mutex */
static u64 jifl_session_renewals;	/* jifl_session_mutex */
static unsigned long jifl_session_renewed_at;	/* jiffies; jifl_session_mutex */

/*
 * Written under jifl_entry_lock, read without it at system call entry: what is
 * found there lives until jifl_evict has returned.
 */
static struct jifl_session *jifl_session_by_nr[JIFL_NR_MAX];
static bool jifl_session_paused;	/* jifl_entry_lock */

#define JIFL_POLL_PERIOD	(HZ / 10)
/* Not more often: emptying the cache stops the machine for a moment. */
#define JIFL_RENEW_PERIOD	HZ

/* For calls that are about to end to do so and be counted, at most. */
#define JIFL_GRACE_MS		200
#define JIFL_GRACE_STEP_MS	5

static void jifl_session_poll(struct work_struct *work);
static DECLARE_DELAYED_WORK(jifl_session_work, jifl_session_poll);

/* --- entry: in the task that makes the call -------------------------------------- */

static void jifl_entry_inserts(struct jifl_session *s, unsigned int nr,
			       struct ir_insert *entry, u32 *nentry,
			       struct ir_insert *exit, u32 *nexit)
{
	if (s->kind == JIFL_KIND_PLUGIN)
		jifl_plugin_entry(s, nr, entry, nentry, exit, nexit);
	else
		jifl_count_entry(s, nr, entry, nentry, exit, nexit);
}

/*
 * Makes the entry piece of (s, nr); 0 when the handler cannot run in the cache
 * now. Under jifl_entry_lock, whose holder alone uses the two arrays.
 */
static u64 jifl_entry_make(struct jifl_session *s, unsigned int nr)
{
	static struct ir_insert entry[JIFL_ENTRY_INSERTS];
	static struct ir_insert exit[JIFL_ENTRY_INSERTS];
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	u32 nentry, nexit;
	u64 piece;

	jifl_entry_inserts(s, nr, entry, &nentry, exit, &nexit);
	jifl_count_translate_begin(s, nr);
	piece = jifl_engine_entry_create(s->context, jifl_orig_at(jifl_entry_handler(nr)),
					 entry, nentry, exit, nexit, &cause);
	jifl_count_translate_end();
	if (!piece)
		set_bit(nr, s->native);
	return piece;
}

/* The piece of (s, nr), made if need be; 0 to let the call pass. */
static u64 jifl_entry_piece(struct jifl_session *s, unsigned int nr)
{
	unsigned long flags;
	u64 piece;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	piece = s->pieces[nr];
	if (!piece && !jifl_session_paused && jifl_session_by_nr[nr] == s) {
		piece = jifl_entry_make(s, nr);
		WRITE_ONCE(s->pieces[nr], piece);
		if (piece && !s->filter.mask)
			WRITE_ONCE(jifl_entry_table[nr], piece);
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
	return piece;
}

/*
 * Does not sleep: jifl_evict waits for tasks that are in here, and so for the
 * sessions and pieces that they have seen.
 */
u64 jifl_entry_choose(const struct pt_regs *regs, unsigned int nr)
{
	struct jifl_session *s;
	u64 piece = 0;

	if (nr >= JIFL_NR_MAX)
		return 0;
	s = READ_ONCE(jifl_session_by_nr[nr]);
	if (!s || !jifl_filter_match(&s->filter))
		return 0;
	piece = READ_ONCE(s->pieces[nr]);
	if (piece)
		return piece;
	if (!test_bit(nr, s->native) && !jifl_engine_is_full() &&
	    !jifl_count_prepare(s, nr))
		piece = jifl_entry_piece(s, nr);
	if (!piece)
		jifl_count_miss(s, nr);
	return piece;
}

/* --- arming ------------------------------------------------------------------------ */

static void jifl_session_arm(struct jifl_session *s)
{
	unsigned long flags;
	unsigned int nr;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	for_each_set_bit(nr, s->nrs, JIFL_NR_MAX) {
		WRITE_ONCE(jifl_session_by_nr[nr], s);
		WRITE_ONCE(jifl_entry_table[nr], (u64)(unsigned long)jifl_entry_slow);
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

static void jifl_session_disarm(struct jifl_session *s)
{
	unsigned long flags;
	unsigned int nr;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	for_each_set_bit(nr, s->nrs, JIFL_NR_MAX) {
		WRITE_ONCE(jifl_entry_table[nr], 0);
		WRITE_ONCE(jifl_session_by_nr[nr], NULL);
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

/* No entry leads into the cache any more, and no piece is made. */
static void jifl_session_pause(void)
{
	struct jifl_session *s;
	unsigned long flags;
	unsigned int nr;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	jifl_session_paused = true;
	list_for_each_entry(s, &jifl_sessions, list)
		for_each_set_bit(nr, s->nrs, JIFL_NR_MAX) {
			WRITE_ONCE(s->pieces[nr], 0);
			WRITE_ONCE(jifl_entry_table[nr],
				   (u64)(unsigned long)jifl_entry_slow);
		}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

static void jifl_session_resume(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	jifl_session_paused = false;
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
}

/* --- new generation ---------------------------------------------------------------- */

/*
 * See the head of this file. `ending`, off the list and disarmed, has no
 * context after it; NULL when all sessions stay.
 */
static void jifl_session_renew(struct jifl_session *ending, struct jifl_drain *drain)
{
	struct jifl_session *s;

	jifl_session_pause();
	jifl_count_drain_begin();
	jifl_evict(drain);
	jifl_count_forget_in_flight();
	if (ending) {
		jifl_count_stop(ending);
		jifl_engine_context_destroy(ending->context);
	}
	jifl_engine_forget();
	while (jifl_engine_erase())
		cond_resched();
	list_for_each_entry(s, &jifl_sessions, list)
		bitmap_zero(s->native, JIFL_NR_MAX);
	jifl_session_renewals++;
	jifl_session_renewed_at = jiffies;
	jifl_session_resume();
}

/*
 * Looks now and then whether the cache is full, which the dispatcher notices
 * but can do nothing about, and lets handlers that ran natively be tried again.
 */
static void jifl_session_poll(struct work_struct *work)
{
	static unsigned int ticks;	/* jifl_session_mutex */
	struct jifl_session *s;
	struct jifl_drain drain;

	mutex_lock(&jifl_session_mutex);
	if (list_empty(&jifl_sessions)) {
		mutex_unlock(&jifl_session_mutex);
		return;
	}
	if (jifl_engine_is_full() &&
	    time_after_eq(jiffies, jifl_session_renewed_at + JIFL_RENEW_PERIOD)) {
		jifl_session_renew(NULL, &drain);
	} else if (++ticks % 16 == 0) {
		list_for_each_entry(s, &jifl_sessions, list)
			bitmap_zero(s->native, JIFL_NR_MAX);
	}
	queue_delayed_work(system_long_wq, &jifl_session_work, JIFL_POLL_PERIOD);
	mutex_unlock(&jifl_session_mutex);
}

/* --- start and stop ---------------------------------------------------------------- */

/* What sessions need of the host while there is at least one. */
static int jifl_session_open_host(void)
{
	int ret;

	if (!list_empty(&jifl_sessions))
		return 0;
	ret = jifl_codemem_open();
	if (ret)
		return ret;
	ret = jifl_entry_attach();
	if (ret)
		jifl_codemem_close();
	return ret;
}

static void jifl_session_close_host(void)
{
	if (!list_empty(&jifl_sessions))
		return;
	jifl_entry_detach();
	jifl_codemem_close();
	cancel_delayed_work(&jifl_session_work);
}

/* Leaves only the targets that this kernel has. */
static int jifl_session_check(struct jifl_session *s, unsigned int *busy_nr,
			      u64 *busy_session)
{
	struct jifl_session *other;
	unsigned int nr;

	for_each_set_bit(nr, s->nrs, JIFL_NR_MAX)
		if (!jifl_entry_handler(nr))
			clear_bit(nr, s->nrs);
	if (bitmap_empty(s->nrs, JIFL_NR_MAX))
		return -EINVAL;
	list_for_each_entry(other, &jifl_sessions, list) {
		for_each_set_bit(nr, s->nrs, JIFL_NR_MAX) {
			if (!test_bit(nr, other->nrs))
				continue;
			*busy_nr = nr;
			*busy_session = other->id;
			return -EBUSY;
		}
	}
	return 0;
}

static int jifl_session_context(struct jifl_session *s)
{
	switch (s->kind) {
	case JIFL_KIND_NONE:
	case JIFL_KIND_CALL:
		return jifl_engine_context_create(NULL, NULL);
	case JIFL_KIND_INSN:
		return jifl_engine_context_create(s->flags & JIFL_FLAG_REPEATS ?
						  jifl_count_repeats : jifl_count_insns, s);
	case JIFL_KIND_BLOCK:
		return jifl_engine_context_create(jifl_count_blocks, s);
	case JIFL_KIND_PLUGIN:
		return jifl_engine_context_create(jifl_plugin_instrument, s->plugin);
	}
	return -EINVAL;
}

static int jifl_session_start_locked(struct jifl_session *s, unsigned int *busy_nr,
				     u64 *busy_session)
{
	int ret;

	ret = jifl_session_check(s, busy_nr, busy_session);
	if (ret)
		return ret;
	ret = jifl_session_open_host();
	if (ret)
		return ret;
	ret = jifl_session_context(s);
	if (ret < 0)
		goto close_host;
	s->context = ret;
	ret = jifl_count_start(s);
	if (ret)
		goto destroy_context;
	s->id = ++jifl_session_last_id;
	s->running = true;
	list_add_tail(&s->list, &jifl_sessions);
	jifl_session_arm(s);
	queue_delayed_work(system_long_wq, &jifl_session_work, JIFL_POLL_PERIOD);
	return 0;

destroy_context:
	jifl_engine_context_destroy(s->context);
close_host:
	jifl_session_close_host();
	return ret;
}

int jifl_session_start(struct jifl_session *s, unsigned int *busy_nr, u64 *busy_session)
{
	int ret;

	mutex_lock(&jifl_session_mutex);
	ret = jifl_session_start_locked(s, busy_nr, busy_session);
	mutex_unlock(&jifl_session_mutex);
	return ret;
}

/*
 * A command whose end ends the session has told its parent so before it is
 * done with exit_group().
 */
static void jifl_session_grace(const struct jifl_session *s)
{
	unsigned long end = jiffies + msecs_to_jiffies(JIFL_GRACE_MS);

	while (time_before(jiffies, end) && jifl_count_is_ending(s))
		msleep(JIFL_GRACE_STEP_MS);
}

static int jifl_session_stop_locked(struct jifl_session *s, struct jifl_drain *drain)
{
	memset(drain, 0, sizeof(*drain));
	if (!s->running)
		return -ENOENT;
	jifl_session_disarm(s);
	list_del(&s->list);
	jifl_session_grace(s);
	jifl_session_renew(s, drain);
	s->running = false;
	jifl_session_close_host();
	return 0;
}

int jifl_session_stop(struct jifl_session *s, struct jifl_drain *drain)
{
	int ret;

	mutex_lock(&jifl_session_mutex);
	ret = jifl_session_stop_locked(s, drain);
	mutex_unlock(&jifl_session_mutex);
	return ret;
}

int jifl_session_detach(u64 id, const struct jifl_session *except,
			struct jifl_drain *drain, char plugin[JIFL_NAME_MAX])
{
	struct jifl_session *s;
	int ret = -ENOENT;

	mutex_lock(&jifl_session_mutex);
	list_for_each_entry(s, &jifl_sessions, list) {
		if (s == except || (id && s->id != id))
			continue;
		if (s->kind == JIFL_KIND_PLUGIN) {
			strscpy(plugin, s->name, JIFL_NAME_MAX);
			ret = -EAGAIN;
		} else {
			ret = jifl_session_stop_locked(s, drain);
		}
		break;
	}
	mutex_unlock(&jifl_session_mutex);
	return ret;
}

struct jifl_session *jifl_session_alloc(void)
{
	return kvzalloc(sizeof(struct jifl_session), GFP_KERNEL);
}

void jifl_session_free(struct jifl_session *s)
{
	if (!s)
		return;
	jifl_count_free(s);
	jifl_filter_release(&s->filter);
	kvfree(s);
}

/* --- what users see ------------------------------------------------------------------ */

int jifl_session_info(struct jifl_session_info *info)
{
	struct jifl_session *s;
	int ret = -ENOENT;

	mutex_lock(&jifl_session_mutex);
	/* In the order of their numbers: they are added at the tail. */
	list_for_each_entry(s, &jifl_sessions, list) {
		if (s->id <= info->id)
			continue;
		info->kind = s->kind;
		info->id = s->id;
		info->owner = s->owner;
		info->targets = bitmap_weight(s->nrs, JIFL_NR_MAX);
		info->calls = jifl_count_calls(s);
		strscpy_pad(info->name, s->name, sizeof(info->name));
		ret = 0;
		break;
	}
	mutex_unlock(&jifl_session_mutex);
	return ret;
}

void jifl_session_status(struct jifl_status *st)
{
	struct jifl_session *s;

	mutex_lock(&jifl_session_mutex);
	st->sessions = 0;
	list_for_each_entry(s, &jifl_sessions, list)
		st->sessions++;
	st->flushes = jifl_session_renewals;
	st->missed = jifl_count_missed();
	mutex_unlock(&jifl_session_mutex);
}

int jifl_session_init(void)
{
	return 0;
}

/* The module is not in use: no file is open, no plugin loaded, no session runs. */
void jifl_session_exit(void)
{
	cancel_delayed_work_sync(&jifl_session_work);
}
