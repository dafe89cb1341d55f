// SPDX-License-Identifier: GPL-2.0
/*
 * Return addresses outside of the stack. Tracers that hook a function's return put a trampoline's
 * address on the stack and keep the original address elsewhere. evict.c calls this file while all
 * CPUs are stopped, so nothing changes meanwhile.
 *
 * A record is written and removed with preemption disabled. So a task that does not run has each
 * return address either in a record or on its stack (saved registers included).
 *
 * A record tells where the return address stood. The task may have returned from there to the
 * trampoline, and may have been preempted before the trampoline has removed the record. Then that
 * word may belong to the frame of an interrupt: at the trampoline's first instruction the processor
 * has put ss there. So a word is written only if it holds what this file knows of, and it is
 * written back only if it was written: a word may hold a record's address by another tracer's
 * doing.
 */
#include <linux/bitmap.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/rethook.h>
#include <linux/sched.h>

#include "../plant.h"
#include "compat.h"
#include "ksym.h"

typedef void (*record_fn)(unsigned long *word, void *arg);

static unsigned long trampoline, trampoline_end; /* arch_rethook_trampoline; 0: none */

#ifdef CONFIG_RETHOOK
/* The word from which the record has taken the return address; NULL: it holds something else. */
static unsigned long *slot_of(const struct rethook_node *node, unsigned long *begin,
			      unsigned long *end)
{
	unsigned long *slot = (unsigned long *)node->frame;

	/* Of two hooks of one return, the later one keeps the trampoline's address. */
	if (!trampoline || node->ret_addr == trampoline || slot < begin || slot >= end)
		return NULL;
	return slot;
}

/* Of the one stack that is shown, the words that are, by their places from `begin` on. */
static DECLARE_BITMAP(shown, THREAD_SIZE / sizeof(long));

__no_sanitize_address
void jifl_compat_show_returns(struct task_struct *task, unsigned long *begin, unsigned long *end)
{
	struct rethook_node *node;
	unsigned long *slot;

	if (task->rethooks.first)
		bitmap_zero(shown, THREAD_SIZE / sizeof(long));
	llist_for_each_entry(node, task->rethooks.first, llist) {
		slot = slot_of(node, begin, end);
		if (!slot || *slot != trampoline)
			continue;
		*slot = node->ret_addr;
		__set_bit(slot - begin, shown);
	}
}

__no_sanitize_address
void jifl_compat_hide_returns(struct task_struct *task, unsigned long *begin, unsigned long *end)
{
	struct rethook_node *node;
	unsigned long *slot;

	llist_for_each_entry(node, task->rethooks.first, llist) {
		slot = slot_of(node, begin, end);
		if (slot && (test_bit(slot - begin, shown) || JIFL_HOST_PLANTED(slots_overwritten)))
			*slot = trampoline;
	}
}

static void each_rethook(struct task_struct *task, record_fn fn, void *arg)
{
	struct rethook_node *node;

	llist_for_each_entry(node, task->rethooks.first, llist)
		fn(&node->ret_addr, arg);
}
#else
void jifl_compat_show_returns(struct task_struct *task, unsigned long *begin, unsigned long *end)
{
}

void jifl_compat_hide_returns(struct task_struct *task, unsigned long *begin, unsigned long *end)
{
}

static void each_rethook(struct task_struct *task, record_fn fn, void *arg)
{
}
#endif

#if defined(CONFIG_KRETPROBES) && !defined(CONFIG_KRETPROBE_ON_RETHOOK)
static void each_kretprobe(struct task_struct *task, record_fn fn, void *arg)
{
	struct kretprobe_instance *ri;

	llist_for_each_entry(ri, task->kretprobe_instances.first, llist)
		fn((unsigned long *)&ri->ret_addr, arg);
}
#else
static void each_kretprobe(struct task_struct *task, record_fn fn, void *arg)
{
}
#endif

#if !defined(CONFIG_FUNCTION_GRAPH_TRACER)
static void each_graph(struct task_struct *task, record_fn fn, void *arg)
{
}
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
/*
 * A page of words, with frames of several kinds; curr_ret_stack is how many words are in use. No
 * other word of a frame can be an address of the code cache.
 */
static void each_graph(struct task_struct *task, record_fn fn, void *arg)
{
	int used = task->curr_ret_stack;
	int i;

	if (!task->ret_stack || used > (int)(PAGE_SIZE / sizeof(long)))
		return;
	for (i = 0; i < used; i++)
		fn(&task->ret_stack[i], arg);
}
#else
/* curr_ret_stack is the index of the last frame, below zero when there is none. */
static void each_graph(struct task_struct *task, record_fn fn, void *arg)
{
	int last = task->curr_ret_stack;
	int i;

	if (!task->ret_stack || last >= FTRACE_RETFUNC_DEPTH)
		return;
	for (i = 0; i <= last; i++)
		fn(&task->ret_stack[i].ret, arg);
}
#endif

__no_sanitize_address
bool jifl_compat_is_hooked(const unsigned long *word)
{
	return trampoline && READ_ONCE_NOCHECK(*word) == trampoline;
}

bool jifl_compat_is_returning(unsigned long ip)
{
	return ip >= trampoline && ip < trampoline_end;
}

int jifl_compat_records_init(void)
{
	trampoline = jifl_ksym("arch_rethook_trampoline");
	trampoline_end = trampoline ? jifl_ksym_end(trampoline) : 0;
	return 0;
}

void jifl_compat_visit_return_records(struct task_struct *task, record_fn fn, void *arg)
{
	each_rethook(task, fn, arg);
	each_kretprobe(task, fn, arg);
	each_graph(task, fn, arg);
}
