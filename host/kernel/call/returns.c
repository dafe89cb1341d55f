// SPDX-License-Identifier: GPL-2.0
/*
 * Where calls of functions end. A function may have arguments on the stack, so an entry piece of a
 * function pushes nothing, and its exit cannot stand behind a call. The kernel's return hooks are
 * used instead, as kretprobes use them: the return address is replaced in place, and kept in a
 * record of the task. Stack walks, dying tasks and new tasks are the kernel's care then, and
 * leave/evict.c knows these records.
 *
 * One pool of records serves all sessions. A session that ends may have calls of tasks that are
 * asleep inside a function. Their lanes are swept (call/switch.c), and their hooks are taken away
 * with the machine stopped: a thread that never leaves its function would keep a record for each
 * session, and the next session could not adopt it. While a task is on its way through the
 * trampoline, the stop is repeated. A hook stays where the stack cannot be walked, and where
 * another tracer has hooked the same return since. on_return finds no lane for it.
 *
 * A call can return with any lock of the kernel held, and with interrupts off. So what is done at
 * its end takes no lock and allocates nothing: counts are added, records are stored, and a task
 * that has to wait for the reader of records is noted in a table (store/ring_wait.c).
 *
 * No task is in on_return when the module goes: it runs with preemption off, and jifl_entry_exit
 * waits for RCU tasks. The pool itself is the kernel's memory: it goes with the last record.
 *
 * An interrupt may end calls of the same function, which go into the same figures. So calls end
 * with interrupts off.
 *
 * Context: hook and on_return: preemption off.
 */
#include <linux/bitops.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/rethook.h"
#include "../leave/walk.h"
#include "../store/percpu.h"
#include "count.h"
#include "levels.h"
#include "returns.h"

static struct rethook *returns;		/* written under jifl_session_mutex */
static unsigned int users;		/* jifl_session_mutex */

/* In a record: a bit for each lane; above them the level of the calls, and whether it is left. */
#define LEVEL_BITS	2
#define LEAVES		BIT(JIFL_LANES + LEVEL_BITS)

static void on_return(u32 record, u64 result)
{
	const unsigned long lanes = record & (BIT(JIFL_LANES) - 1);
	const enum jifl_level level = record >> JIFL_LANES & (BIT(LEVEL_BITS) - 1);
	unsigned long lane, flags;

	flags = jifl_own_irq_save();
	for_each_set_bit(lane, &lanes, JIFL_LANES)
		jifl_count_end_outside(lane, result, level);
	if (record & LEAVES)
		jifl_levels_leave(level);
	jifl_own_irq_restore(flags);
}

int jifl_returns_open(void)
{
	if (!users) {
		returns = jifl_compat_returns_alloc(on_return, JIFL_RETURNS);
		if (!returns)
			return -ENOMEM;
	}
	users++;
	return 0;
}

void jifl_returns_close(void)
{
	if (WARN_ON(!users) || --users)
		return;
	jifl_compat_returns_free(returns);
	returns = NULL;
}

bool jifl_returns_hook(unsigned long *slot, u32 lanes, enum jifl_level level, bool leaves)
{
	static_assert(JIFL_NR_LEVELS <= BIT(LEVEL_BITS));
	return jifl_compat_returns_hook(returns, slot, lanes | level << JIFL_LANES |
						       (leaves ? LEAVES : 0));
}

bool jifl_returns_hook_of(struct task_struct *task, unsigned long *slot, u32 lanes)
{
	return jifl_compat_returns_hook_of(returns, task, slot, lanes);
}

/* Where a task stands whose function's return is hooked. */
enum where {
	ELSEWHERE,
	TRAMPOLINE,		/* on its way through it */
	UNKNOWN,		/* its stack cannot be walked to its end */
};

static enum where where(struct task_struct *task)
{
	const struct jifl_words words = jifl_walk_words(task);
	struct unwind_state state;
	enum where is = ELSEWHERE;

	/* Only a task that was preempted can be there. */
	if (!task->on_rq)
		return ELSEWHERE;
	jifl_compat_show_returns(task, words.begin, words.end);
	for (unwind_start(&state, task, NULL, NULL); !unwind_done(&state);
	     unwind_next_frame(&state)) {
		/* Of code interrupted at the trampoline's beginning state.ip is where it leads. */
		if (jifl_compat_is_returning(state.regs ? state.regs->ip : state.ip)) {
			is = TRAMPOLINE;
			break;
		}
	}
	if (is == ELSEWHERE && unwind_error(&state))
		is = UNKNOWN;
	jifl_compat_hide_returns(task, words.begin, words.end);
	return is;
}

u32 jifl_returns_sweep(unsigned int lane)
{
	struct task_struct *group, *task;
	u32 left = 0;

	if (JIFL_HOST_PLANTED(returns_kept))
		return 0;
	for_each_process_thread(group, task) {
		enum where is;

		if (!jifl_walk_may(task) || !jifl_compat_returns_has(returns, task, BIT(lane)))
			continue;
		is = where(task);
		if (is == ELSEWHERE)
			jifl_compat_returns_unhook(returns, task, BIT(lane));
		left += is == TRAMPOLINE;
	}
	return left;
}
