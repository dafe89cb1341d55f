// SPDX-License-Identifier: GPL-2.0
/*
 * Adoption: threads that are inside a function of a session when the session starts, asleep,
 * preempted or in a loop, go on in the code cache. It is eviction (leave/evict.c) the other way
 * round: with the machine stopped, return addresses on their stacks become those of copies. The
 * copies are made beforehand. A look at the tasks that sleep notes which are wanted, and a stop
 * uses them. If a stop finds that more are wanted, it notes these, and another stop follows.
 *
 * What is changed, from the function of the session that is nearest to the beginning of the stack:
 *
 *	its caller's frame	a return hook, if the session follows calls: the call ends there
 *	its own frame		goes on in the copy
 *	frames that it called	go on in copies, up to the first that the cache would have left to
 *				run natively, or up to an interrupt or an exception; with
 *				JIFL_SCOPE_ONLY none of them
 *
 * Why this is right:
 *
 * 1. All CPUs run their stoppers. So each listed task but these goes on where its stack says, or a
 *    tracer's record (step 2 in leave/evict.c). Its interrupts have ended. An idle task is not on
 *    the list. A thread that stops the machine is left, because later stops do not see its stack.
 * 2. A word is changed only where the unwinder has found a frame, in a walk that came to its end
 *    without an error or a guess (jifl_walk_guessed), and only if the word itself is the address at
 *    which that frame goes on. It is not if a tracer has put a trampoline there: the task is left.
 * 3. The new address is the beginning of a block that stands for the old address. There all
 *    registers, flags and the stack are as the original instruction needs them, because that is
 *    how a block is entered anyhow: behind a call, by the return of native code; at any other
 *    instruction, by the dispatcher. The return address is one that a copied call would have put
 *    there (jifl_engine_landing asks for exactly that). So unwinding, faults and eviction see the
 *    frame as they see others.
 * 4. The blocks are those of the session's own context. It is not destroyed meanwhile:
 *    jifl_session_mutex is held, and the session runs. A block that has been dropped since it was
 *    made, because its text has changed, is not found. No block changes while the machine is
 *    stopped.
 * 5. A task that has an address of the cache in a frame that would be changed, or above it, is in a
 *    call of this session, by a door, or of another one. It is left.
 *    So is one that is at the door of a function, called by one that would be changed: the door
 *    looks at the return address.
 * 6. The task is in no call of the session otherwise: its lane is empty, or it is left as being
 *    inside already. A task with the module's own code on its stack is left: it may be in a stub,
 *    with the address of an entry piece at hand that would take the lane again.
 * 7. The lane is the task's own, and is restored when the task is switched in (call/switch.c). The
 *    hook stands in the task's list of hooks where it would stand if it had been made at the
 *    function's entry: lists are ordered by frames, the innermost first. rethook's handler relies
 *    on that order.
 * 8. All or nothing: what can fail, a place for the lane and a record for the hook, comes before
 *    the first word is changed.
 * 9. A task that has not come to the door yet is not adopted: it will come there. One that is at
 *    the door, and has read there that no session is armed, runs the call natively: it began before
 *    the session. A dead one is not adopted: its lane would stay.
 * 10. In the look before the stops nothing is changed, hooked returns on stacks neither, and what
 *    it finds is not relied upon. Each task is looked at while it sleeps and cannot wake: its
 *    pi_lock is held (task_call_func). So it does not die, and its stack stays. Interrupts are off,
 *    as in a stop. A task that runs, or is about to, is left out: the kernel would warn if a hooked
 *    return were met on its stack. So is one on a run queue, whose lock would be held.
 * 11. At the end of the session an adopted call is cut as others are, and its hook is taken away as
 *    those of others are (call/returns.c).
 *
 * Context: process, under jifl_session_mutex; what looks at tasks, as 1 and 10 say.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/stop_machine.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/import.h"
#include "../run/codemem.h"
#include "../leave/walk.h"
#include "../store/percpu.h"
#include "../enter/function.h"
#include "../enter/guard.h"
#include "../call/adopted.h"
#include "../call/filter.h"
#include "../call/returns.h"
#include "../call/switch.h"
#include "../call/tool.h"
#include "adopt.h"
#include "adopt_frames.h"
#include "session.h"
#include "warm.h"

/* Addresses that one stop can ask copies for. Those of tasks alike are the same. */
#define MAX_WANTED	2048
/* Of the return hooks a session may take so many in this way: later calls need some, too. */
#define MAX_HOOKED	(JIFL_RETURNS / 4)
/* A task that is somewhere else each time is left after so many stops. */
#define MAX_STOPS	6

struct wanted {
	unsigned long addr;
	bool interrupted;
	const struct jifl_aim *aim;
};

/* What is to be done with a task. */
enum verdict {
	LEAVE,			/* it is not inside, or by a door */
	ADOPT,
	NOT_YET,		/* a copy is wanted */
	LEFT,			/* `why` */
};

struct jifl_adoption {
	struct jifl_session *s;
	const struct task_struct *caller;
	/* Of a task, the innermost first. */
	struct jifl_adopt_frame frames[JIFL_ADOPT_FRAMES];
	int nframes;
	u64 landings[JIFL_ADOPT_FRAMES]; /* of those that are to be changed; else 0 */
	bool ahead;			/* before the stops: no task is adopted */
	enum jifl_left why;
	u32 adopted, left[JIFL_NR_LEFT];	/* in this stop */
	struct wanted wanted[MAX_WANTED];
	u32 nwanted;
	struct jifl_adopt_functions *functions;
};

struct jifl_adoption *jifl_adopt_alloc(struct jifl_session *s)
{
	struct jifl_adoption *a = JIFL_ALLOC(kvzalloc(sizeof(*a), GFP_KERNEL));

	if (!a)
		return NULL;
	a->s = s;
	a->caller = current;
	a->functions = jifl_adopt_functions_alloc(s);
	if (a->functions)
		return a;
	kvfree(a);
	return NULL;
}

void jifl_adopt_free(struct jifl_adoption *a)
{
	if (!a)
		return;
	kvfree(a->functions);
	kvfree(a);
}

/* --- one task, which does not run ------------------------------------------------------- */

/*
 * The aim of the i-th frame's function; NULL: it is no target. Who is inside a function without a
 * site is not adopted by a session with places: the thread meets their breakpoints.
 */
static struct jifl_aim *aim_of(const struct jifl_adoption *a, int i)
{
	struct jifl_aim *aim = jifl_adopt_aim(a->functions, a->frames, a->nframes, i);

	return aim && aim->target->kind == JIFL_TARGET_NOTRACE && a->s->tool->places ? NULL : aim;
}

/* The target nearest to the stack's beginning; negative: there is none. */
static int outermost(const struct jifl_adoption *a)
{
	int i = a->nframes - 1;

	while (i >= 0 && !aim_of(a, i))
		i--;
	return i;
}

static bool is_code(unsigned long addr)
{
	enum jifl_cause cause = JIFL_CAUSE_NONE;
	const unsigned long cookie = jifl_host_lock();
	const enum jifl_text text = jifl_host_classify(jifl_orig_at(addr), &cause);

	jifl_host_unlock(cookie);
	return text == JIFL_TEXT_CODE;
}

/* Would the cache run the i-th frame, given that its callers are in the cache up to the k-th? */
static bool runs_in_cache(const struct jifl_adoption *a, int i, int k)
{
	const struct jifl_adopt_frame *f = &a->frames[i];

	if (a->s->only && i != k && (a->s->slot || !aim_of(a, i)))
		return false;
	return is_code(f->ip);
}

static void want(struct jifl_adoption *a, const struct jifl_adopt_frame *f,
		 const struct jifl_aim *aim)
{
	u32 i;

	for (i = 0; i < a->nwanted; i++)
		if (a->wanted[i].addr == f->ip)
			return;
	if (a->nwanted < MAX_WANTED)
		a->wanted[a->nwanted++] = (struct wanted){
			.addr = f->ip,
			.interrupted = f->interrupted,
			.aim = aim,
		};
}

static u64 landing(const struct jifl_adoption *a, unsigned long ip, bool interrupted)
{
	return jifl_engine_landing(a->s->alone.context, jifl_orig_at(ip), !interrupted);
}

/* Finds a copy for each frame that is to go on in the cache. False: one is wanted. */
static bool find_copies(struct jifl_adoption *a, int k)
{
	const struct jifl_aim *aim = aim_of(a, k);
	bool all = true;
	int i;

	memset(a->landings, 0, sizeof(a->landings));
	for (i = k; i >= 0; i--) {
		const struct jifl_adopt_frame *f = &a->frames[i];

		if (!runs_in_cache(a, i, k)) {
			if (a->s->only)
				continue;
			break;
		}
		a->landings[i] = landing(a, f->ip, f->interrupted);
		if (!a->landings[i]) {
			want(a, f, aim);
			all = false;
		}
		if (f->interrupted && !a->s->only)
			break;
	}
	return all;
}

static enum verdict leave_because(struct jifl_adoption *a, enum jifl_left why)
{
	a->why = why;
	return LEFT;
}

/*
 * The k-th frame is at the function's site. Has the tracer there called the function itself, as a
 * trampoline of BPF does? Then the task is inside.
 */
static bool is_called_by_tracer(const struct jifl_adoption *a, int k)
{
	int i = k - 1;

	while (i >= 0 && aim_of(a, i) != aim_of(a, k))
		i--;
	return i >= 0;
}

/* The k-th frame is the target's. Its caller's has the return address at which the call ends. */
static enum verdict judge(struct jifl_adoption *a, struct task_struct *task, int k)
{
	const struct jifl_adopt_frame *own = &a->frames[k];
	const struct jifl_target *target = aim_of(a, k)->target;
	int i;

	/*
	 * It is on its way to the function's door, or in a tracer's trampoline there. A jump stands
	 * at the address that is entered.
	 */
	if (own->orig < target->address +
			(!own->interrupted || target->kind == JIFL_TARGET_NOTRACE))
		return is_called_by_tracer(a, k) ? leave_because(a, JIFL_LEFT_TRACED) : LEAVE;
	if (task->sched_class == jifl_guard_stop_class || task == a->caller)
		return leave_because(a, JIFL_LEFT_OWN);
	for (i = 0; i <= k; i++)
		if (within_module_core(a->frames[i].ip, THIS_MODULE))
			return leave_because(a, JIFL_LEFT_OWN);
	for (i = 0; i < a->nframes && !JIFL_HOST_PLANTED(adopted_twice); i++) {
		if (!jifl_codemem_has(a->frames[i].ip))
			continue;
		if (jifl_engine_context_at(a->frames[i].ip) == a->s->alone.context)
			return LEAVE;
		return leave_because(a, JIFL_LEFT_SESSION);
	}
	if (k + 1 == a->nframes || a->frames[k + 1].interrupted)
		return leave_because(a, JIFL_LEFT_STACK);
	for (i = 0; i <= k + 1; i++)
		if (jifl_adopt_is_traced(&a->frames[i]) ||
		    (i < k && jifl_adopt_is_at_door(&a->frames[i])))
			return leave_because(a, JIFL_LEFT_TRACED);
	if (!is_code(a->frames[k].ip))
		return leave_because(a, JIFL_LEFT_CODE);
	return find_copies(a, k) ? ADOPT : NOT_YET;
}

static __no_sanitize_address bool take_over(struct jifl_adoption *a, struct task_struct *task,
					    int k)
{
	struct jifl_aim *aim = aim_of(a, k);
	int i;

	if (a->s->slot && a->adopted == MAX_HOOKED)
		return false;
	if (a->s->slot && !jifl_adopted_begin(task, aim, a->frames[k + 1].slot))
		return false;
	for (i = 0; i <= k; i++)
		if (a->landings[i])
			WRITE_ONCE(*a->frames[i].slot, a->landings[i]);
	aim->adopted++;
	return true;
}

static enum verdict look_at(struct jifl_adoption *a, struct task_struct *task)
{
	const struct jifl_words words = jifl_walk_words(task);
	enum verdict verdict;
	bool walked;
	int k;

	/* A dead task may still have a stack, because somebody looks at it. */
	if (words.begin == words.end || READ_ONCE(task->__state) & TASK_DEAD ||
	    !jifl_filter_match_task(&a->s->filter, task))
		return LEAVE;
	if (!a->ahead)
		jifl_compat_show_returns(task, words.begin, words.end);
	walked = jifl_adopt_walk(task, words, a->frames, &a->nframes);
	if (!a->ahead)
		jifl_compat_hide_returns(task, words.begin, words.end);
	k = outermost(a);
	if (k < 0 || (a->s->slot && jifl_switch_has(task, a->s->lane)))
		return LEAVE;
	if (!walked)
		return leave_because(a, JIFL_LEFT_STACK);
	verdict = judge(a, task, k);
	if (verdict == ADOPT && !a->ahead && !take_over(a, task, k))
		return leave_because(a, JIFL_LEFT_ROOM);
	return verdict;
}

static int look_at_all(void *arg)
{
	struct task_struct *group, *task;
	struct jifl_adoption *a = arg;

	for_each_process_thread(group, task) {
		if (!jifl_walk_may(task))
			continue;
		switch (look_at(a, task)) {
		case LEAVE:
			break;
		case ADOPT:
			a->adopted++;
			break;
		case NOT_YET:
			a->left[JIFL_LEFT_CODE]++;
			break;
		case LEFT:
			a->left[a->why]++;
			break;
		}
	}
	return 0;
}

/* Step 10 in the head of this file. */
static bool sleeps(struct task_struct *task)
{
	const unsigned int state = READ_ONCE(task->__state);

	return state != TASK_RUNNING && state != TASK_WAKING && !READ_ONCE(task->on_rq) &&
	       jifl_walk_may(task);
}

static int look_ahead_at(struct task_struct *task, void *arg)
{
	if (!sleeps(task))
		return 0;
	jifl_own_begin();
	look_at(arg, task);
	jifl_own_end();
	return 0;
}

static void look_ahead(struct jifl_adoption *a)
{
	struct task_struct *group, *task;

	a->ahead = true;
	rcu_read_lock();
	for_each_process_thread(group, task)
		if (sleeps(task) && jifl_filter_match_task(&a->s->filter, task))
			jifl_import(task_call_func)(task, look_ahead_at, a);
	rcu_read_unlock();
	a->ahead = false;
}

/* --- all ----------------------------------------------------------------------------- */

/* Makes the copies that the last stop has asked for. True: there is one of them now. */
static bool make_wanted(struct jifl_adoption *a)
{
	bool made = false;
	u32 i;

	for (i = 0; i < a->nwanted; i++) {
		const struct wanted *w = &a->wanted[i];

		jifl_warm_address(w->aim, w->addr);
		made |= landing(a, w->addr, w->interrupted);
		cond_resched();
	}
	return made;
}

void jifl_adopt(struct jifl_adoption *a)
{
	struct jifl_session *s = a->s;
	u32 stops;

	if (!JIFL_HOST_PLANTED(not_looked_ahead))
		look_ahead(a);
	make_wanted(a);
	for (stops = 0; stops < MAX_STOPS; stops++) {
		a->nwanted = 0;
		memset(a->left, 0, sizeof(a->left));
		stop_machine(look_at_all, a, NULL);
		if (!make_wanted(a))
			break;
	}
	s->adopted += a->adopted;
	memcpy(s->left, a->left, sizeof(s->left));
}
