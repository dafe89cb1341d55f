// SPDX-License-Identifier: GPL-2.0
/*
 * Holds: the references to modules for one replacement. A hold keeps the text of the module with
 * the replacement, and that of the replaced function, which the replacement may call. It begins
 * when the session gets its gate. It ends when the session has ended and nobody is left in the
 * module of the replacement: at once, or when a work item finds that out later. Nobody is hurried.
 *
 * When a session has ended, no thread comes to the replacement by its door any more, and none is on
 * its way there (steps 7 to 9 in the head of replace.c). Why the references are not given back too
 * early:
 *
 * 1. All CPUs are stopped, and the stacks of all listed tasks are walked. A thread is inside if an
 *    address in the module's text stands in a frame: where it was interrupted or preempted, or
 *    where a function that it has called returns to. This is asked of the whole module, because the
 *    replacement may have gone on in another function by a tail call.
 * 2. Interrupts and softirqs have ended when the machine is stopped. Idle tasks do not come to the
 *    replacement at their own level (enter/guard.c), and their interrupts have ended.
 * 3. Return addresses that tracers have replaced are shown: those of return hooks by
 *    jifl_compat_show_returns, those of the function graph tracer by the unwinder. An address of
 *    the code cache counts as the original that it stands for. Where a tracer keeps an address of
 *    the module for a task, the task is inside, whatever its stack shows.
 * 4. From the first frame on that the unwinder has guessed, each word of the stack that looks like
 *    an address in the module counts as one.
 * 5. All this is done twice, and RCU tasks is waited for in between (is_left). A task that was
 *    preempted where its return address is in neither place, as behind the end of a tracer's record
 *    and before the return, has gone on by then. A thread that reaps itself is not on the list of
 *    tasks any more, and may still run. It never sleeps again, and has switched for the last time
 *    by then.
 * 6. A thread that was not inside comes there later only if the module leads it there itself. That
 *    is the module's own affair, as without JIFL. So tasks that are seen one after the other, in
 *    several stops, need not be outside at the same time.
 * 7. A kernel thread whose function is the module's own is not asked about: it is always inside.
 *    Whatever it has called, it comes back to that function, so the module cannot go before it ends
 *    the thread, in its exit. That is why it must be allowed to go.
 *
 * A hold is on the list until its references are given back, so that whoever does not find it there
 * can remove the module.
 *
 * While a hold stays after its session's end, the module JIFL has a reference to itself: the work
 * item is its code. The module's exit waits for the work item (jifl_hold_exit).
 *
 * Context: process; sleeps. What looks at tasks runs in stop_machine.
 */
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <asm/ibt.h>
#include <asm/ptrace.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/compat.h"
#include "../../compat/ksym.h"
#include "../../run/unwind.h"
#include "../../leave/walk.h"
#include "replace.h"

/* Time between two looks at who is inside. It doubles each time. */
#define FIRST_MS	50
#define LAST_MS		5000

struct jifl_hold {
	struct list_head list;		/* jifl_hold_mutex, as all that changes */
	u64 session, address, with;
	bool ended;
	struct module *module;		/* of `with` */
	struct module *original;	/* of `address`; NULL: the kernel's own text */
};

/* Who is where, in one stop. */
struct look {
	unsigned long begin, end;	/* text */
	bool of_module;			/* all of a module's */
	bool recorded;			/* an address there is in a record of the task */
	u32 inside, unread;
	struct jifl_thread threads[JIFL_THREADS_MAX];
};

static DEFINE_MUTEX(jifl_hold_mutex);	/* inside jifl_session_mutex */
static LIST_HEAD(jifl_holds);
static unsigned int jifl_hold_ms;

static void jifl_hold_poll(struct work_struct *work);
static DECLARE_DELAYED_WORK(jifl_hold_work, jifl_hold_poll);

/* --- with the machine stopped ----------------------------------------------------------- */

/* The address behind the text may be a return address: of a call that does not return. */
static bool is_within(const struct look *l, unsigned long addr)
{
	return addr >= l->begin && addr <= l->end;
}

/* An address in the code cache may be where one returns to, or where a copy was interrupted. */
static bool is_there(const struct look *l, unsigned long addr)
{
	return is_within(l, jifl_unwind_original(addr)) ||
	       is_within(l, jifl_unwind_original(addr + 1));
}

static void note_record(unsigned long *word, void *arg)
{
	struct look *l = arg;

	if (is_there(l, *word))
		l->recorded = true;
}

/* Reads words that belong to no variable, which KASAN would report. */
static __no_sanitize_address bool looks_inside(const struct look *l, struct jifl_words words,
					       const unsigned long *from)
{
	for (; from < words.end; from++)
		if (is_there(l, READ_ONCE(*from)))
			return true;
	return false;
}

/* *unread: the stack could not be walked to its end. */
static bool is_inside(const struct look *l, struct task_struct *task, struct jifl_words words,
		      bool *unread)
{
	const unsigned long *slot = words.begin;
	struct jifl_walked from = {};
	struct unwind_state state;

	for (unwind_start(&state, task, NULL, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		if (jifl_walk_guessed(&state, from))
			break;
		if (state.regs && user_mode(state.regs))
			return false;
		if (is_there(l, state.ip))
			return true;
		from = jifl_walked(&state);
		slot = clamp(jifl_walk_slot(&state), words.begin, words.end);
	}
	*unread = unwind_error(&state);
	return *unread && looks_inside(l, words, slot);
}

/* Step 7. */
static bool is_own_thread(const struct look *l, struct task_struct *task)
{
	return l->of_module && task->flags & PF_KTHREAD &&
	       is_within(l, (unsigned long)kthread_func(task)) &&
	       !JIFL_HOST_PLANTED(own_threads_inside);
}

static void look_at(struct look *l, struct task_struct *task)
{
	struct jifl_words words;
	bool unread = false, inside;

	if (!jifl_walk_may(task) || is_own_thread(l, task))
		return;
	words = jifl_walk_words(task);
	l->recorded = false;
	jifl_compat_visit_return_records(task, note_record, l);
	jifl_compat_show_returns(task, words.begin, words.end);
	inside = is_inside(l, task, words, &unread) || l->recorded;
	jifl_compat_hide_returns(task, words.begin, words.end);
	if (!inside)
		return;
	if (l->inside < JIFL_THREADS_MAX) {
		l->threads[l->inside].pid = task_pid_nr(task);
		strscpy_pad(l->threads[l->inside].comm, task->comm,
			    sizeof(l->threads[l->inside].comm));
	}
	l->inside++;
	l->unread += unread;
}

static int look_at_all(void *arg)
{
	struct task_struct *group, *task;

	for_each_process_thread(group, task)
		look_at(arg, task);
	return 0;
}

/* --- holds ------------------------------------------------------------------------------ */

static void look(const struct jifl_hold *h, struct look *l)
{
	unsigned long size;

	memset(l, 0, sizeof(*l));
	if (h->ended) {
		jifl_compat_module_text(h->module, &l->begin, &size);
		l->end = l->begin + size;
		l->of_module = true;
	} else {
		l->begin = h->address;
		l->end = jifl_ksym_end(h->address);
	}
	stop_machine(look_at_all, l, NULL);
}

/* May the references be given back? Step 5. */
static bool is_left(const struct jifl_hold *h)
{
	struct look l;

	if (JIFL_HOST_PLANTED(modules_let_go))
		return true;
	look(h, &l);
	if (l.inside)
		return false;
	synchronize_rcu_tasks();
	look(h, &l);
	return !l.inside;
}

/* The caller takes it from the list, if it is there. */
static void free_hold(struct jifl_hold *h)
{
	module_put(h->module);
	module_put(h->original);
	kfree(h);
}

static void end_hold(struct jifl_hold *h)
{
	list_del(&h->list);
	free_hold(h);
}

/*
 * Is it a function that can be traced, of a live module? These begin with their sites. Data, parts
 * that the compiler has put aside, and assembly have none; the text of a module's init is not in
 * what stays. A module that is held stays live.
 */
static bool is_function(const struct module *mod, unsigned long addr)
{
	unsigned long base, size;

	if (READ_ONCE(mod->state) != MODULE_STATE_LIVE)
		return false;
	jifl_compat_module_text(mod, &base, &size);
	return addr - base < size && jifl_ksym_start(addr) == addr &&
	       jifl_ksym_fentry(addr);
}

struct jifl_hold *jifl_hold_take(u64 session, u64 address, u64 with)
{
	struct jifl_hold *h = JIFL_ALLOC(kzalloc(sizeof(*h), GFP_KERNEL));
	int err;

	if (!h)
		return ERR_PTR(-ENOMEM);
	h->session = session;
	h->address = address;
	h->with = with;
	err = jifl_ksym_hold(with, &h->module);
	if (!err && (!h->module || h->module == THIS_MODULE || !is_function(h->module, with)))
		err = -ENOENT;
	if (!err)
		err = jifl_ksym_hold(address, &h->original);
	if (err) {
		free_hold(h);
		return ERR_PTR(err);
	}
	mutex_lock(&jifl_hold_mutex);
	list_add_tail(&h->list, &jifl_holds);
	mutex_unlock(&jifl_hold_mutex);
	return h;
}

void jifl_hold_drop(struct jifl_hold *h)
{
	mutex_lock(&jifl_hold_mutex);
	end_hold(h);
	mutex_unlock(&jifl_hold_mutex);
}

void jifl_hold_end(struct jifl_hold *h)
{
	mutex_lock(&jifl_hold_mutex);
	h->ended = true;
	if (is_left(h)) {
		end_hold(h);
	} else {
		__module_get(THIS_MODULE);
		jifl_hold_ms = FIRST_MS;
		mod_delayed_work(system_long_wq, &jifl_hold_work, msecs_to_jiffies(FIRST_MS));
	}
	mutex_unlock(&jifl_hold_mutex);
}

static void jifl_hold_poll(struct work_struct *work)
{
	struct jifl_hold *h, *next;
	bool more = false;

	mutex_lock(&jifl_hold_mutex);
	list_for_each_entry_safe(h, next, &jifl_holds, list) {
		if (!h->ended)
			continue;
		if (!is_left(h)) {
			more = true;
			continue;
		}
		end_hold(h);
		module_put(THIS_MODULE);
	}
	if (more) {
		jifl_hold_ms = min(2 * jifl_hold_ms, (unsigned int)LAST_MS);
		queue_delayed_work(system_long_wq, &jifl_hold_work, msecs_to_jiffies(jifl_hold_ms));
	}
	mutex_unlock(&jifl_hold_mutex);
}

int jifl_hold_info(struct jifl_replacement *req)
{
	struct jifl_hold *h;
	int ret = -ENOENT;
	struct look l;

	mutex_lock(&jifl_hold_mutex);
	/* In the order of their sessions' numbers: they are added at the tail. */
	list_for_each_entry(h, &jifl_holds, list) {
		if (h->session <= req->session)
			continue;
		look(h, &l);
		req->session = h->session;
		req->address = h->address;
		req->with = h->with;
		req->ended = h->ended;
		req->inside = l.inside;
		req->unread = l.unread;
		memcpy(req->threads, l.threads, sizeof(req->threads));
		ret = 0;
		break;
	}
	mutex_unlock(&jifl_hold_mutex);
	return ret;
}

void jifl_hold_exit(void)
{
	cancel_delayed_work_sync(&jifl_hold_work);
}
