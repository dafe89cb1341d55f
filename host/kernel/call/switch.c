// SPDX-License-Identifier: GPL-2.0
/*
 * Running calls belong to tasks. When a task leaves a CPU, the contents of the CPU's lanes are
 * saved. They are restored when the task comes back, on this CPU or another.
 *
 * If a task dies in a call, the call's count is final when the task is switched away for the last
 * time. If a call will not return through its exit piece (jifl_evict), it is cut: its saved lanes
 * are dropped, and it counts as missed.
 *
 * Context: the hook runs with a run queue locked, so it allocates nothing.
 */
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../store/percpu.h"
#include "../store/ring.h"
#include "../run/events.h"
#include "../enter/target.h"
#include "adopted.h"
#include "count.h"
#include "levels.h"
#include "returns.h"
#include "saved.h"
#include "switch.h"
#include "tool.h"
#include "whose.h"

/* All are written under jifl_session_mutex. */
static unsigned int jifl_switch_of_threads;
static bool jifl_switch_draining;
static enum jifl_miss jifl_switch_drain;
static const struct jifl_session *jifl_switch_ended;

static void jifl_saved_put(struct task_struct *t, const struct jifl_saved *v)
{
	unsigned int lane;

	if (jifl_saved_try(t, v))
		return;
	for (lane = 0; lane < JIFL_LANES; lane++)
		jifl_switch_mark_given_up(v->lanes[lane].call, JIFL_MISS_ROOM);
}

/* The task dies: the counts of its calls are final. */
static void jifl_switch_die(const struct jifl_saved *v)
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		u64 call = v->lanes[lane].call, count = v->lanes[lane].count;
		const struct jifl_session *s = call ? jifl_count_session(call) : NULL;

		if (!s)
			continue;
		if (READ_ONCE(jifl_switch_draining))
			/* It may have died natively. */
			jifl_count_miss_call(call, READ_ONCE(jifl_switch_drain));
		else
			jifl_count_finish_dead(call, count);
	}
}

static noinline void jifl_switch_calls(struct jifl_saved *now, bool dies, struct task_struct *prev,
				       struct task_struct *next)
{
	jifl_levels_check();
	if (!jifl_saved_is_empty(now)) {
		if (dies)
			jifl_switch_die(now);
		else
			jifl_saved_put(prev, now);
		*now = (struct jifl_saved){};
	}
	/* Kernel threads make no system calls. */
	if (!(next->flags & PF_KTHREAD) || READ_ONCE(jifl_switch_of_threads))
		jifl_saved_take(next, now);
	jifl_switch_mark_resumed(now->lanes, next);
}

/*
 * sched_switch: a run queue is locked, interrupts are off. Most switches are from a task that is in
 * no call to another one.
 */
static void jifl_switch_tasks(void *data, bool preempt, struct task_struct *prev,
			      struct task_struct *next, unsigned int prev_state)
{
	struct jifl_saved *now = (struct jifl_saved *)this_cpu_ptr(jifl_cpu.lanes);

	if (JIFL_HOST_PLANTED(switch_not_saved))
		return;
	if (unlikely(jifl_levels_is_raised()) || !jifl_saved_is_empty(now) ||
	    jifl_saved_may_have(next) || READ_ONCE(jifl_switch_marking))
		jifl_switch_calls(now, !preempt && prev_state & TASK_DEAD, prev, next);
}

/* Without a lock, call may be of an earlier session in this slot, so its index is checked. */
static bool jifl_count_is_exit(const struct jifl_session *s, u64 call)
{
	const struct jifl_aim *aim = jifl_aim_at(s, jifl_count_index(call));

	return aim && aim->target->ends_task;
}

static bool jifl_count_runs_on(int cpu, const struct jifl_session *s, bool to_exit)
{
	u64 calls[JIFL_NR_LEVELS];
	u32 n = jifl_levels_calls(cpu, s->lane, calls);
	bool runs = false;

	while (n--)
		runs |= calls[n] && jifl_count_session(calls[n]) == s &&
			(!to_exit || jifl_count_is_exit(s, calls[n]));
	return runs;
}

/* Looks at other CPUs only: on this CPU the running call is the one that ends the session. */
static bool jifl_count_runs(const struct jifl_session *s, bool to_exit)
{
	bool runs = false;
	int cpu;

	preempt_disable();
	for_each_online_cpu(cpu)
		runs |= cpu != smp_processor_id() && jifl_count_runs_on(cpu, s, to_exit);
	preempt_enable();
	return runs;
}

/* True if a task was switched away in a call that ends it. dead: only if it is dead. */
static bool jifl_count_is_exiting(const struct jifl_session *s, bool dead)
{
	bool found = false;
	u32 at;

	rcu_read_lock();	/* keeps found tasks from being freed */
	for (at = 0; at < JIFL_SAVED_PLACES && !found; at++) {
		const struct task_struct *task = READ_ONCE(jifl_saved_task[at]);
		u64 call = READ_ONCE(jifl_saved_value[at].lanes[s->lane].call);

		found = task && jifl_count_session(call) == s && jifl_count_is_exit(s, call) &&
			(!dead || READ_ONCE(task->exit_state));
	}
	rcu_read_unlock();
	return found;
}

/* Both functions take no lock: calls may begin and end meanwhile. */
bool jifl_switch_is_ending(const struct jifl_session *s)
{
	return s->slot && (jifl_count_runs(s, false) || jifl_count_is_exiting(s, false));
}

bool jifl_switch_has_dead(const struct jifl_session *s)
{
	return s->slot && (jifl_count_runs(s, true) || jifl_count_is_exiting(s, true));
}

/*
 * Does the call in this lane of the CPU run in code of the mix? The lanes may be of calls that such
 * code has nothing to do with: it may be above their level (levels.c, step 3), or be called by code
 * that one of these calls has called natively. NULL: it is not known of which mix the code is.
 */
static bool jifl_switch_is_in(const struct jifl_mix *m, unsigned int lane)
{
	const u64 call = this_cpu_read(jifl_cpu.lanes[lane].call);
	const struct jifl_session *s = call ? jifl_count_session(call) : NULL;

	return s && (!m || m->members[lane] == s);
}

/* As in struct jifl_run_events, like the other two: the calls are counted as missed. */
static void jifl_switch_lose(const void *mix)
{
	struct jifl_lane *lanes = this_cpu_ptr(jifl_cpu.lanes);
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		if (!jifl_switch_is_in(mix, lane))
			continue;
		jifl_switch_mark_given_up(lanes[lane].call, JIFL_MISS_TEXT);
		lanes[lane].call = 0;
	}
}

void jifl_switch_threads(int more)
{
	WRITE_ONCE(jifl_switch_of_threads, jifl_switch_of_threads + more);
}

void jifl_switch_drain_begin(enum jifl_miss why, const struct jifl_session *ended)
{
	jifl_switch_ended = ended;
	WRITE_ONCE(jifl_switch_drain, why);
	WRITE_ONCE(jifl_switch_draining, true);
}

void jifl_switch_drain_end(void)
{
	WRITE_ONCE(jifl_switch_draining, false);
	jifl_switch_ended = NULL;
}

/*
 * While the machine is stopped every CPU runs its stopper thread. So jifl_switch_tasks has saved
 * the task's running calls.
 */
static void jifl_switch_cut(struct task_struct *task)
{
	struct jifl_saved v = {};
	unsigned int lane;

	jifl_saved_take(task, &v);
	for (lane = 0; lane < JIFL_LANES; lane++) {
		const u64 call = v.lanes[lane].call;

		/* With its session an adopted call ends as it was meant to. */
		if (!call || jifl_count_session(call) != jifl_switch_ended ||
		    !jifl_adopted_end(task, call, v.lanes[lane].count))
			jifl_switch_mark_given_up(call, jifl_switch_drain);
	}
}

bool jifl_switch_has(struct task_struct *task, unsigned int lane)
{
	const struct jifl_saved *saved = jifl_saved_find(task);

	return saved && saved->lanes[lane].call;
}

bool jifl_switch_give(struct task_struct *task, unsigned int lane, u64 call)
{
	struct jifl_saved *saved = jifl_saved_find(task);
	struct jifl_saved v = {};

	if (!saved) {
		v.lanes[lane].call = call;
		return jifl_saved_try(task, &v);
	}
	if (saved->lanes[lane].call)
		return false;
	saved->lanes[lane] = (struct jifl_lane){ .call = call };
	return true;
}

void jifl_switch_take(struct task_struct *task, unsigned int lane)
{
	struct jifl_saved v = {};

	jifl_saved_take(task, &v);
	v.lanes[lane] = (struct jifl_lane){};
	if (!jifl_saved_is_empty(&v))
		jifl_saved_try(task, &v);
}

/* Of what is saved in a place: the calls of s, or all if that is NULL. */
static void jifl_switch_sweep_place(u32 at, const struct jifl_session *s)
{
	const struct task_struct *task = jifl_saved_task[at];
	struct jifl_saved *saved = &jifl_saved_value[at];
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		const u64 call = saved->lanes[lane].call;

		if (!call || (s && jifl_count_session(call) != s))
			continue;
		if (!s || !jifl_adopted_end(task, call, saved->lanes[lane].count))
			jifl_count_miss_call(call, jifl_switch_drain);
		saved->lanes[lane].call = 0;
	}
	if (jifl_saved_is_empty(saved))
		jifl_saved_free(at, task);
}

/*
 * A call of a function may go on without any code of the cache on the task's stack: its last call
 * was a jump, or the cache was full, and what followed runs natively. So calls of a session that
 * has ended are looked for among all that are saved, and if the cache is emptied all calls are. The
 * machine is stopped, so all are saved.
 */
static u32 jifl_switch_sweep(void)
{
	const struct jifl_session *s = jifl_switch_ended;
	u32 at;

	if ((s && !s->slot) || JIFL_HOST_PLANTED(calls_not_swept))
		return 0;
	for (at = 0; at < JIFL_SAVED_PLACES; at++)
		if (jifl_saved_task[at])
			jifl_switch_sweep_place(at, s);
	return s && s->nfunctions ? jifl_returns_sweep(s->lane) : 0;
}

/* The sessions that record faults of the running call are told. */
static void jifl_switch_fault(unsigned long addr, const void *mix)
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		u64 call = this_cpu_read(jifl_cpu.lanes[lane].call);
		const struct jifl_session *s = call ? jifl_count_session(call) : NULL;

		if (s && jifl_switch_is_in(mix, lane) && s->tool->records &&
		    s->tool->records->faults && !JIFL_HOST_PLANTED(faults_untold))
			jifl_ring_put(JIFL_RECORD_FAULT, (u32)addr);
	}
}

/*
 * Behind the function's own site, which copies do not have: with an endbr64 before it, or not. A
 * block that ends before it has not counted the call (session/nested.c, step 12).
 */
static unsigned long jifl_switch_begun(u64 at, unsigned long addr)
{
	u64 end = 0;
	const unsigned long block = jifl_engine_begun(at, &end).v;
	const struct jifl_target *t;

	if (!block || addr < block)
		return addr;
	t = jifl_target_starting(block) ?: jifl_target_with_site(block);
	return t && t->kind == JIFL_TARGET_FUNCTION && addr < t->address && end >= t->address ?
		       t->address : addr;
}

static const struct jifl_run_events jifl_switch_events = {
	.begun = jifl_switch_begun,
	.fault = jifl_switch_fault,
	.lose = jifl_switch_lose,
	.cut = jifl_switch_cut,
	.sweep = jifl_switch_sweep,
};

/* --- the hook -------------------------------------------------------------------- */

static struct tracepoint *jifl_switch_tracepoint;

int jifl_switch_hook(void)
{
	return JIFL_TRY(tracepoint_probe_register(jifl_switch_tracepoint,
						  (void *)jifl_switch_tasks, NULL));
}

void jifl_switch_unhook(void)
{
	tracepoint_probe_unregister(jifl_switch_tracepoint,
				    (void *)jifl_switch_tasks, NULL);
	tracepoint_synchronize_unregister();
}

int jifl_switch_init(void)
{
	jifl_switch_tracepoint = jifl_compat_tracepoint("sched_switch");
	if (!jifl_switch_tracepoint) {
		pr_err("this kernel has no tracepoint sched_switch; it needs CONFIG_TRACEPOINTS\n");
		return -EOPNOTSUPP;
	}
	jifl_run_events = &jifl_switch_events;
	return jifl_saved_init();
}

void jifl_switch_exit(void)
{
	jifl_saved_exit();
}
