// SPDX-License-Identifier: GPL-2.0
/*
 * Sessions: how they begin and how they end. mix.c and choose.c have what a running session does to
 * system calls.
 *
 * A session's end waits for one grace period of RCU, and then for one of RCU tasks:
 *
 *	1. Handlers of breakpoints that know the session: unregister_kprobes waits for RCU (step 6
 *	   in the head of tools/probe/set.c).
 *	2. What runs with preemption off, in interrupts or in idle tasks, and is in code that
 *	   goes, in a gate of a jump, or has an aim, a mix or a way: jifl_evict stops the machine.
 *	   The same at doors of functions: jifl_function_close stops it again, behind their end.
 *	3. Preempted tasks there, and tasks that die: RCU tasks. The wait is ftrace's own, which it
 *	   makes when it has taken the doors away, behind jifl_evict's stop (step 3 in the head of
 *	   enter/function.c). Where no door goes, jifl_evict makes it. A second one would take
 *	   0.1 s more (step 8 above jifl_evict).
 *	4. Readers of tables from which breakpoints and jumps went: RCU. The grace period begins
 *	   when they go, and has passed when 3 has.
 *
 * If other sessions stay, the end of a session removes only its own code (jifl_session_retire). The
 * others lose only running calls that were calls of the ending session, too. All sessions share the
 * code cache, which is emptied as a whole. So if it is full, or if the last session ends, all
 * sessions begin anew (jifl_session_renew):
 *
 *	1. Pause: no entry leads into the cache. Calls of the sessions that stay run natively and
 *	   are counted as missed.
 *	2. Drain the entry stub and the cache (jifl_evict).
 *	3. Empty the cache, and tell plugins.
 *	4. Go on.
 *
 * Context: process; sleeps. Everything runs under jifl_session_mutex.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/percpu.h"
#include "../store/ring.h"
#include "../run/codemem.h"
#include "../leave/evict.h"
#include "../call/count.h"
#include "../call/tool.h"
#include "adopt.h"
#include "aim.h"
#include "audit.h"
#include "insiders.h"
#include "mix.h"
#include "require.h"
#include "session.h"

/* Sessions come, go and are renewed one at a time. */
DEFINE_MUTEX(jifl_session_mutex);
void (*jifl_session_flushed)(void);

DECLARE_WAIT_QUEUE_HEAD(jifl_session_ended);

static LIST_HEAD(jifl_sessions);	/* jifl_session_mutex */
static u64 jifl_session_last_id;	/* jifl_session_mutex */
static u64 jifl_session_renewals;	/* jifl_session_mutex */
static unsigned long jifl_session_renewed_at;	/* jiffies; jifl_session_mutex */

#define JIFL_POLL_PERIOD	(HZ / 10)
/* Not more often: emptying the cache stops the machine for a moment. */
#define JIFL_RENEW_PERIOD	HZ

/* At most: for calls that run to end and be counted, and for dead tasks to leave theirs. */
#define JIFL_GRACE_MS		200
#define JIFL_GRACE_DEAD_MS	1000
#define JIFL_GRACE_STEP_MS	5

static void jifl_session_poll(struct work_struct *work);
static DECLARE_DELAYED_WORK(jifl_session_work, jifl_session_poll);

/* --- new generation ---------------------------------------------------------------- */

/*
 * All calls in code that goes, and all of the session that are saved, have been cut or swept. So
 * calls in which tasks die from here on end as usual. It may take seconds to close sites.
 */
static bool jifl_session_close_sites(void *session)
{
	jifl_switch_drain_end();
	return jifl_aim_close_sites(session);
}

/* Of `s`, off the list and disarmed, nothing is left, and nobody is at its doors. */
static void jifl_session_retire(struct jifl_session *s, struct jifl_drain *drain)
{
	jifl_aim_close_jumps(s);
	jifl_mix_doom(s);
	jifl_switch_drain_begin(JIFL_MISS_END, s);
	jifl_evict(drain, false, jifl_session_close_sites, s);
	jifl_count_stop(s);
	jifl_mix_free_doomed();
}

/* No thread is in the cache. */
static void jifl_session_empty_cache(void)
{
	jifl_engine_forget();
	while (jifl_engine_erase())
		cond_resched();
	jifl_session_renewals++;
	jifl_session_renewed_at = jiffies;
}

/* See the head of this file. */
static void jifl_session_renew(struct jifl_drain *drain)
{
	jifl_mix_pause(&jifl_sessions);
	jifl_switch_drain_begin(JIFL_MISS_FLUSH, NULL);
	jifl_evict(drain, true, NULL, NULL);
	jifl_switch_drain_end();
	jifl_mix_return_contexts();
	jifl_session_empty_cache();
	if (jifl_session_flushed)
		jifl_session_flushed();
	jifl_mix_resume();
}

/*
 * Looks now and then whether the cache is full, which the dispatcher notices
 * but can do nothing about, and lets handlers that ran natively be tried again.
 */
static void jifl_session_poll(struct work_struct *work)
{
	static unsigned int ticks;	/* jifl_session_mutex */
	struct jifl_drain drain;

	mutex_lock(&jifl_session_mutex);
	if (list_empty(&jifl_sessions)) {
		mutex_unlock(&jifl_session_mutex);
		return;
	}
	if (jifl_engine_is_full() &&
	    time_after_eq(jiffies, jifl_session_renewed_at + JIFL_RENEW_PERIOD)) {
		jifl_session_renew(&drain);
	} else if (++ticks % 16 == 0) {
		jifl_mix_retry_native(&jifl_sessions);
	}
	queue_delayed_work(system_long_wq, &jifl_session_work, JIFL_POLL_PERIOD);
	mutex_unlock(&jifl_session_mutex);
}

/* --- start and stop ---------------------------------------------------------------- */

/* What sessions need of the host while there is at least one. */
static int jifl_session_open_host(void)
{
	return list_empty(&jifl_sessions) ? jifl_codemem_open() : 0;
}

static void jifl_session_close_host(void)
{
	if (!list_empty(&jifl_sessions))
		return;
	jifl_codemem_close();
	cancel_delayed_work(&jifl_session_work);
}

/*
 * Lanes that s must not have because of functions. A call of a function may be made inside a call
 * of any other session, so a session with functions shares its lane with none.
 */
static unsigned long jifl_session_lanes_apart(const struct jifl_session *s, u64 *busy_session)
{
	const struct jifl_session *other;
	unsigned long taken = 0;

	list_for_each_entry(other, &jifl_sessions, list)
		if (s->nfunctions || other->nfunctions) {
			__set_bit(other->lane, &taken);
			*busy_session = other->id;
		}
	return taken;
}

/* A lane that no session with one of these targets has. */
static int jifl_session_choose_lane(struct jifl_session *s, u32 *busy_target,
				    u64 *busy_session)
{
	unsigned long taken = jifl_session_lanes_apart(s, busy_session);
	struct jifl_aim *aim;
	unsigned int lane;
	u32 i;

	for_each_aim(aim, s, i)
		for (lane = 0; lane < JIFL_LANES; lane++) {
			const struct jifl_aim *other = aim->target->armed[lane];

			if (!other)
				continue;
			if (other->session->only != s->only && !s->tool->replaces &&
			    !other->session->tool->replaces && !JIFL_HOST_PLANTED(scopes_mixed)) {
				*busy_target = i;
				*busy_session = other->session->id;
				return -EXDEV;
			}
			__set_bit(lane, &taken);
			*busy_target = i;
			*busy_session = other->session->id;
		}
	s->lane = JIFL_HOST_PLANTED(lane_shared) ? 0 : ffz(taken);
	if (s->lane >= JIFL_LANES)
		return -EBUSY;
	/* What is in the way from here on is none of these. */
	*busy_target = 0;
	*busy_session = 0;
	return 0;
}

/* What s needs of its own before it can be armed. */
static int jifl_session_prepare(struct jifl_session *s, u32 *busy_target, u64 *busy_session)
{
	int ret = jifl_require_unlocked();

	if (!ret)
		ret = jifl_aim_check(s);
	if (!ret)
		ret = jifl_session_choose_lane(s, busy_target, busy_session);
	if (!ret) {
		s->instrument = s->tool->instrument;
		s->instrument_arg = s;
		ret = s->tool->open ? s->tool->open(s, busy_session) : 0;
	}
	return ret ?: jifl_stats_prepare(s);
}

static int jifl_session_start_locked(struct jifl_session *s, u32 *busy_target, u64 *busy_session)
{
	int ret = jifl_session_prepare(s, busy_target, busy_session);
	struct jifl_insiders *insiders = NULL;
	struct jifl_adoption *adoption = NULL;

	if (ret)
		return ret;
	ret = jifl_session_open_host();
	if (ret)
		return ret;
	ret = jifl_mix_init_alone(s);
	if (ret && jifl_engine_is_full()) {
		struct jifl_drain drain;

		jifl_session_renew(&drain);
		ret = jifl_mix_init_alone(s);
	}
	if (ret)
		goto close_host;
	s->id = jifl_session_last_id + 1;
	ret = jifl_mix_prepare(s);
	if (ret)
		goto destroy_context;
	ret = jifl_count_start(s);
	if (ret)
		goto unprepare;
	ret = jifl_aim_attach(s, busy_target);
	if (ret)
		goto count_stop;
	ret = jifl_insiders_prepare(s, &adoption, &insiders);
	if (ret)
		goto detach;
	ret = s->tool->attach ? s->tool->attach(s) : 0;
	if (ret) {
		jifl_insiders_free(insiders);
		jifl_adopt_free(adoption);
		goto detach;
	}
	jifl_session_last_id = s->id;
	s->running = true;
	list_add_tail(&s->list, &jifl_sessions);
	jifl_mix_arm(s);
	queue_delayed_work(system_long_wq, &jifl_session_work, JIFL_POLL_PERIOD);
	jifl_audit_started(s);
	if (adoption)
		jifl_adopt(adoption);
	if (insiders)
		jifl_insiders_tell(insiders);
	jifl_insiders_free(insiders);
	jifl_adopt_free(adoption);
	return 0;

detach:
	jifl_aim_undo(s);
count_stop:
	jifl_count_stop(s);
unprepare:
	jifl_mix_unprepare();
destroy_context:
	jifl_engine_context_destroy(s->alone.context);
close_host:
	jifl_session_close_host();
	return ret;
}

int jifl_session_start(struct jifl_session *s, u32 *busy_target, u64 *busy_session)
{
	int ret;

	mutex_lock(&jifl_session_mutex);
	ret = jifl_session_start_locked(s, busy_target, busy_session);
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
	unsigned long end_dead = jiffies + msecs_to_jiffies(JIFL_GRACE_DEAD_MS);

	while (time_before(jiffies, end) && jifl_switch_is_ending(s))
		msleep(JIFL_GRACE_STEP_MS);
	while (time_before(jiffies, end_dead) && jifl_switch_has_dead(s))
		msleep(JIFL_GRACE_STEP_MS);
}

static int jifl_session_stop_locked(struct jifl_session *s, struct jifl_drain *drain)
{
	memset(drain, 0, sizeof(*drain));
	if (!s->running)
		return -ENOENT;
	jifl_mix_disarm(s);
	list_del(&s->list);
	jifl_ring_stop(&s->ring);
	if (s->tool->detach)
		s->tool->detach(s);
	jifl_session_grace(s);
	jifl_session_retire(s, drain);
	jifl_aim_detach(s);
	if (s->tool->ended)
		s->tool->ended(s);
	if (list_empty(&jifl_sessions))
		jifl_session_empty_cache();
	WRITE_ONCE(s->running, false);
	wake_up_all(&jifl_session_ended);
	jifl_session_close_host();
	jifl_audit_ended(s);
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
		if (s->tool->is_plugin) {
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

/* --- what users see ------------------------------------------------------------------ */

struct jifl_session *jifl_session_next(struct jifl_session *s)
{
	lockdep_assert_held(&jifl_session_mutex);
	if (!s)
		return list_first_entry_or_null(&jifl_sessions, struct jifl_session, list);
	return list_is_last(&s->list, &jifl_sessions) ? NULL : list_next_entry(s, list);
}

int jifl_session_info(struct jifl_session_info *info)
{
	struct jifl_session *s;
	int ret = -ENOENT;

	mutex_lock(&jifl_session_mutex);
	/* In the order of their numbers: they are added at the tail. */
	list_for_each_entry(s, &jifl_sessions, list) {
		if (s->id <= info->id)
			continue;
		info->kind = s->tool->kind;
		info->id = s->id;
		info->owner = s->owner;
		info->targets = s->naims;
		info->calls = jifl_stats_calls(s);
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
	unsigned int miss;

	mutex_lock(&jifl_session_mutex);
	st->sessions = 0;
	list_for_each_entry(s, &jifl_sessions, list)
		st->sessions++;
	st->flushes = jifl_session_renewals;
	memset(st->missed, 0, sizeof(st->missed));
	for (miss = 0; miss < JIFL_NR_MISSES; miss++)
		st->missed[miss] = jifl_count_missed(miss);
	mutex_unlock(&jifl_session_mutex);
}

/* The module is not in use: no file is open, no plugin loaded, no session runs. */
void jifl_session_exit(void)
{
	cancel_delayed_work_sync(&jifl_session_work);
}
