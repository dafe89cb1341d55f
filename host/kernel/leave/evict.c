// SPDX-License-Identifier: GPL-2.0
/*
 * Evicts all threads from the part of the code cache that is about to be freed: all of it, or the
 * code of destroyed contexts. Every return address into that part, on every kernel stack, becomes
 * the original address. Called in process context, under jifl_session_mutex, when no entry leads
 * into that part any more.
 *
 * Below, "code that goes" means code in that part.
 *
 * Invariant at the end: no register, stack or tracer's record of any thread holds an address of
 * code that goes and will ever be executed.
 */
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/stop_machine.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../text/jump.h"
#include "../run/codemem.h"
#include "../run/events.h"
#include "evict.h"
#include "gate_returns.h"
#include "walk.h"

#define RETRY_MS	5

struct scan {
	unsigned int threads;	/* that had an address of the cache */
	unsigned int left;	/* of these, still inside; and those that the sweep has left */
	bool found, inside;	/* in the thread that is being looked at */
	bool unwalked;		/* a stack could not be walked to its end */
	bool all;		/* else only code of destroyed contexts */
	const struct task_struct *caller;
};

/* True when the code at addr goes. */
static bool goes(unsigned long addr, const struct scan *scan)
{
	return jifl_codemem_has(addr) && (scan->all || jifl_engine_is_doomed(addr));
}

/*
 * Where a thread goes on that stands at the start of a block, or behind it. In a piece that has a
 * function's beginning, a call at a jump has not begun.
 */
static u64 native_of(u64 at, jifl_orig orig)
{
	if (!jifl_engine_is_start(at))
		return jifl_jump_native(jifl_run_events->begun(at, orig.v));
	return jifl_engine_is_beginning(at) ? orig.v : jifl_host_native(orig);
}

/*
 * Changes a word from which the processor or a tracer will go on. Where all registers have the
 * original's values, the word becomes the original address, or that in the gate of a jump. Where a
 * stack cannot be walked, this function reads words that belong to no variable, which KASAN would
 * report.
 */
static __no_sanitize_address void cut_word(unsigned long *word, void *arg)
{
	struct scan *scan = arg;
	jifl_orig orig;

	if (!goes(*word, scan))
		return;
	switch (jifl_engine_where(*word, &orig)) {
	case JIFL_WHERE_EXACT:
		*word = jifl_gate_text(native_of(*word, orig));
		scan->found = true;
		break;
	case JIFL_WHERE_INSIDE:
		scan->inside = true;
		break;
	case JIFL_WHERE_OUTSIDE:
		break;
	}
}

/* The same of a word of which nobody knows what it is. An address in a stub counts as one. */
static __no_sanitize_address void cut_by_look(unsigned long *word, struct scan *scan)
{
	if (within_module_core(READ_ONCE(*word), THIS_MODULE))
		scan->inside = true;
	cut_word(word, scan);
}

/* Reads a whole stack, with words that belong to no variable, which KASAN would report. */
static __no_sanitize_address bool holds_any(struct jifl_words words, const struct scan *scan)
{
	const unsigned long *word = words.begin;

	while (word < words.end && !goes(READ_ONCE(*word), scan))
		word++;
	return word < words.end;
}

/*
 * True when an interrupted thread goes on with an address of the cache in a register, as in a
 * thunk through which inserted code jumps. This includes the registers of callers, because they
 * are among the interrupted registers.
 */
static bool regs_inside(const struct pt_regs *regs, const struct scan *scan)
{
	const unsigned long *reg = (const unsigned long *)regs;

	for (; reg < &regs->ip; reg++) {
		if (goes(*reg, scan))
			return true;
	}
	return false;
}

/*
 * Cuts one frame that the unwinder has found, and returns where the next one begins. The module's
 * own text counts as inside: the stubs of the doors and the functions that they call carry the
 * address of a piece to which they are about to go.
 */
static unsigned long *cut_frame(const struct unwind_state *state, struct jifl_words words,
				struct scan *scan)
{
	const struct pt_regs *regs = state->regs;
	unsigned long *ip = jifl_walk_slot(state);

	if (ip < words.begin || ip >= words.end)
		return words.begin;
	cut_word(ip, scan);
	if (within_module_core(state->ip, THIS_MODULE) ||
	    (regs && state->full_regs && regs_inside(regs, scan)))
		scan->inside = true;
	return ip + 1;
}

/*
 * Changes every frame's return address, and the address to which an interrupt or an exception goes
 * back, and nothing else. Any other word may be data, in whole or in part: a compiler that keeps a
 * byte in a slot leaves the other seven as an earlier call left them, so that a flag beside an old
 * return address looks like another return address.
 *
 * Where the unwinder gives up or guesses, the rest of the stack is changed by its words' look.
 */
static void cut_stack(struct task_struct *task, struct jifl_words words, struct scan *scan)
{
	struct jifl_walked from = {};
	struct unwind_state state;
	unsigned long *word = words.begin;

	for (unwind_start(&state, task, NULL, NULL);
	     !unwind_done(&state) && !JIFL_HOST_PLANTED(data_taken_for_address);
	     unwind_next_frame(&state)) {
		if (jifl_walk_guessed(&state, from))
			break;
		if (state.regs && user_mode(state.regs))
			return;
		from = jifl_walked(&state);
		word = max(word, cut_frame(&state, words, scan));
	}
	if (!unwind_error(&state) && !JIFL_HOST_PLANTED(data_taken_for_address))
		return;
	scan->unwalked = true;
	for (; word < words.end; word++)
		cut_by_look(word, scan);
}

static void scan_task(struct task_struct *task, struct scan *scan)
{
	struct jifl_words words;

	if (!jifl_walk_may(task))
		return;
	scan->found = false;
	scan->inside = false;
	words = jifl_walk_words(task);
	jifl_compat_show_returns(task, words.begin, words.end);
	if (holds_any(words, scan))
		cut_stack(task, words, scan);
	if (!JIFL_HOST_PLANTED(records_not_visited))
		jifl_compat_visit_return_records(task, cut_word, scan);
	jifl_gate_returns_end(task, words);
	jifl_compat_hide_returns(task, words.begin, words.end);

	/*
	 * Only a thread that was preempted can be inside, because neither inserted code nor the
	 * stubs sleep. The caller, which ends a session, stands in the module's text for another
	 * reason, and may be about to wait for the stop rather than waiting already.
	 */
	if (task == scan->caller || !task->on_rq)
		scan->inside = false;
	if (scan->inside)
		scan->left++;
	if (scan->found)
		jifl_run_events->cut(task);
	if (scan->found || scan->inside)
		scan->threads++;
}

static int scan_all(void *arg)
{
	struct task_struct *group, *task;
	struct scan *scan = arg;

	for_each_process_thread(group, task)
		scan_task(task, scan);
	scan->left += jifl_run_events->sweep();
	return 0;
}

/*
 * 1. No entry leads into code that goes: for system calls the table does not, for functions no way
 *    and no door has a piece (session/mix.c). So no further thread comes in.
 * 2. All CPUs are stopped. Each CPU runs its stopper. No stopper is in the cache, or comes there
 *    while the machine is stopped: system calls are not its business, and doors of functions let
 *    it pass (enter/guard.c). Interrupts and softirqs may have been in the cache, of an idle task
 *    or a stopper, too. They have ended: what they have interrupted goes on only then, and a CPU's
 *    stopper runs with interrupts off from before the scan until after it. So no interrupt or
 *    exception stack is in use, and nothing that interrupts have left below a stack pointer is used
 *    again. Nor do their return hooks stand in any list, or their lanes in any place
 *    (call/levels.c). No idle task has been in the cache at its own level, because doors let it
 *    pass; they are not on the list of tasks. So all addresses from which a thread will go on are
 *    on the kernel stacks of listed tasks, user's and kernel threads (at and above thread.sp), or
 *    in tracers' records. The module's own return hooks (call/returns.c) are such records; while a
 *    stack is walked, hooked returns stand on it as they were. Addresses that are exact are
 *    replaced there: callers' return addresses, and faults and preemption at copied instructions. A
 *    copy of a return address that code has made for itself (_RET_IP_) stays: it is only
 *    printed.
 * 3. A walk may end anywhere: at user mode, at the beginning of a kernel thread. What lies behind
 *    the end of a walk without an error are no frames. Where the unwinder gives up, or has only
 *    guessed the next frame (jifl_walk_guessed), the rest of the stack is changed by the look of
 *    its words.
 * 4. Threads remain that were preempted inside inserted code, inside a stub, or between the read
 *    of the address to go to and the jump there. For functions this is jifl_function_stub, or
 *    jifl_inside_stub, which code that goes may have called, with the address in rax, in a saved
 *    register or in the slot of its return address: the stub is the module's text, so it counts as
 *    inside while there is such an address. These few instructions end at an exact point, or in a
 *    call whose return address is an exact point. Each of these threads needs only to run for a
 *    moment, and can come in only once. All CPUs go on, and after a while the eviction repeats
 *    step 2. The repetition ends: a thread is inside again at the next stop only if it was stopped
 *    there by chance, and the code from which it has returned meanwhile is gone for good. The same
 *    holds for a thread that is in the trampoline of the module's return hooks (call/returns.c).
 * 5. The doors of functions may be open still, but lead elsewhere. A thread at a door, or in an
 *    ftrace trampoline on the way there, has no address of code that goes if it came after 1, and
 *    will get none. Without one it does not count as inside, so such threads, which may come all
 *    the time, are not waited for.
 * 6. The caller has disarmed the session itself, so what it does from then on comes to no code
 *    that goes. That it is exempt from 4. does no harm.
 * 7. A thread that reaps itself leaves the list of tasks while it still runs do_exit(), so step 2
 *    can miss it. It never sleeps again before its last switch, and synchronize_rcu_tasks() waits
 *    for that switch. synchronize_rcu_tasks() does not wait for idle tasks, which need no waiting
 *    by 2.
 * 8. The wait of 7 begins when nobody that step 2 finds is inside. Whoever needs such a wait at
 *    that time anyway may make it: `close`. Each further one takes 0.1 s more, because the kernel
 *    sleeps for so long between two of them (gp_sleep in kernel/rcu/tasks.h).
 */
void jifl_evict(struct jifl_drain *drain, bool all, bool (*close)(void *arg), void *arg)
{
	u64 start = ktime_get_ns();
	struct scan scan;

	drain->threads = 0;
	while (!JIFL_HOST_PLANTED(drain_skipped)) {
		scan = (struct scan){ .caller = current, .all = all };
		stop_machine(scan_all, &scan, NULL);
		drain->threads = max(drain->threads, scan.threads);
		if (scan.unwalked)
			pr_info_once("a stack cannot be walked to its end: return addresses on it are taken for such by their looks\n");
		if (!scan.left)
			break;
		msleep(RETRY_MS);
	}
	drain->ns = ktime_get_ns() - start;
	if ((close && close(arg)) || JIFL_HOST_PLANTED(drain_skipped))
		return;
	start = ktime_get_ns();
	synchronize_rcu_tasks();
	drain->ns += ktime_get_ns() - start;
}
