// SPDX-License-Identifier: GPL-2.0
/*
 * Where calls of functions end. A function may have arguments on the stack, so an entry piece of a
 * function pushes nothing, and its exit cannot stand behind a call. The kernel's return hooks are
 * used instead, as kretprobes use them: the return address is replaced in place, and kept in a
 * record of the task. Stack walks, dying tasks and new tasks are the kernel's care then, and
 * leave/evict.c knows these records.
 *
 * One pool of records serves all sessions. A session that ends leaves records behind, of tasks that
 * are asleep inside a function. Their lanes are swept (call/switch.c), so on_return finds nothing to
 * do for these.
 *
 * No task is in on_return when the module goes: it runs with preemption off, and jifl_entry_exit
 * waits for RCU tasks. The pool itself is the kernel's memory: it goes with the last record.
 *
 * Context: hook and on_return: preemption off.
 */
#include <linux/bitops.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/rethook.h"
#include "../store/percpu.h"
#include "count.h"
#include "returns.h"

/*
 * Calls that are in functions at the same time: a task has one for each session at most. A call
 * that finds no record is missed.
 */
#define JIFL_RETURNS	4096

static struct rethook *returns;		/* written under jifl_session_mutex */
static unsigned int users;		/* jifl_session_mutex */

static void on_return(u32 lanes)
{
	unsigned long lane;
	const unsigned long mask = lanes;

	jifl_own_begin();
	for_each_set_bit(lane, &mask, JIFL_LANES)
		jifl_count_end_outside(lane);
	jifl_own_end();
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

bool jifl_returns_hook(unsigned long *slot, u32 lanes)
{
	return jifl_compat_returns_hook(returns, slot, lanes);
}
