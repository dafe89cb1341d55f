// SPDX-License-Identifier: GPL-2.0
/* Return hooks, by kernel version; see rethook.h. */
#include <linux/ptrace.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "../plant.h"
#include "compat.h"
#include "import.h"
#include "rethook.h"

#ifdef CONFIG_RETHOOK
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
static void on_return(struct rethook_node *node, void *data, unsigned long ip,
		      struct pt_regs *regs)
#else
static void on_return(struct rethook_node *node, void *data, struct pt_regs *regs)
#endif
{
	jifl_compat_return_fn fn = (jifl_compat_return_fn)data;

	fn(container_of(node, struct jifl_compat_return, node)->value, regs->ax);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static struct rethook *alloc(jifl_compat_return_fn fn, unsigned int n)
{
	struct rethook *returns;

	if (!jifl_imported(rethook_alloc))
		return NULL;
	returns = JIFL_ALLOC(jifl_import(rethook_alloc)((void *)fn, on_return,
							sizeof(struct jifl_compat_return), n));
	return IS_ERR(returns) ? NULL : returns;
}
#else
static struct rethook *alloc(jifl_compat_return_fn fn, unsigned int n)
{
	struct jifl_compat_return *record;
	struct rethook *returns;

	if (!jifl_imported(rethook_alloc) || !jifl_imported(rethook_add_node))
		return NULL;
	returns = JIFL_ALLOC(jifl_import(rethook_alloc)((void *)fn, on_return));
	while (returns && n--) {
		record = JIFL_ALLOC(kzalloc(sizeof(*record), GFP_KERNEL));
		if (!record) {
			jifl_compat_returns_free(returns);
			return NULL;
		}
		/* The kernel frees the records with kfree. */
		static_assert(!offsetof(struct jifl_compat_return, node));
		jifl_import(rethook_add_node)(returns, &record->node);
	}
	return returns;
}
#endif

struct rethook *jifl_compat_returns_alloc(jifl_compat_return_fn fn, unsigned int n)
{
	if (!jifl_imported(rethook_try_get) || !jifl_imported(rethook_hook) ||
	    !jifl_imported(rethook_free))
		return NULL;
	return alloc(fn, n);
}

void jifl_compat_returns_free(struct rethook *returns)
{
	jifl_import(rethook_free)(returns);
}

bool jifl_compat_returns_hook(struct rethook *returns, unsigned long *slot, u32 value)
{
	struct rethook_node *node = JIFL_ALLOC(jifl_import(rethook_try_get)(returns));
	/* rethook_hook reads and writes where sp points, and nothing else of the registers. */
	struct pt_regs regs;

	if (!node)
		return false;
	container_of(node, struct jifl_compat_return, node)->value = value;
	regs.sp = (unsigned long)slot;
	jifl_import(rethook_hook)(node, &regs, true);
	return true;
}

bool jifl_compat_returns_hook_of(struct rethook *returns, struct task_struct *task,
				 unsigned long *slot, u32 value)
{
	struct llist_node **at = &task->rethooks.first;
	struct rethook_node *node;

	if (!jifl_compat_returns_hook(returns, slot, value))
		return false;
	/* It stands in the list of this task. The lists are ordered by their frames. */
	node = llist_entry(current->rethooks.first, struct rethook_node, llist);
	current->rethooks.first = node->llist.next;
	while (*at && llist_entry(*at, struct rethook_node, llist)->frame < node->frame)
		at = &(*at)->next;
	node->llist.next = *at;
	*at = &node->llist;
	return true;
}

bool jifl_compat_returns_has(struct rethook *returns, struct task_struct *task, u32 bits)
{
	const struct jifl_compat_return *record;

	llist_for_each_entry(record, task->rethooks.first, node.llist)
		if (record->node.rethook == returns && (!record->value || record->value & bits))
			return true;
	return false;
}

/*
 * A list begins with the newest record of the innermost frame. Of several records of a frame the
 * oldest keeps the return address, and newer ones the trampoline's, which they found on the stack.
 * So a newer one can go without a word. The oldest can when no newer one is left.
 */
void jifl_compat_returns_unhook(struct rethook *returns, struct task_struct *task, u32 bits)
{
	struct llist_node **at = &task->rethooks.first;
	struct jifl_compat_return *record;
	unsigned long kept = 0;			/* the frame of the last record that stays */
	struct rethook_node *node;
	bool newer;

	while (*at && jifl_imported(rethook_recycle)) {
		node = llist_entry(*at, struct rethook_node, llist);
		record = container_of(node, struct jifl_compat_return, node);
		newer = jifl_compat_is_hooked(&node->ret_addr);
		if (node->rethook == returns)
			record->value &= ~bits;
		if (node->rethook != returns || record->value ||
		    (!newer && (node->frame == kept ||
				!jifl_compat_is_hooked((unsigned long *)node->frame)))) {
			kept = node->frame;
			at = &node->llist.next;
			continue;
		}
		if (!newer)
			*(unsigned long *)node->frame = node->ret_addr;
		*at = node->llist.next;
		jifl_import(rethook_recycle)(node);
	}
}
#else
struct rethook *jifl_compat_returns_alloc(jifl_compat_return_fn fn, unsigned int n)
{
	return NULL;
}

void jifl_compat_returns_free(struct rethook *returns)
{
}

bool jifl_compat_returns_hook(struct rethook *returns, unsigned long *slot, u32 value)
{
	return false;
}

bool jifl_compat_returns_hook_of(struct rethook *returns, struct task_struct *task,
				 unsigned long *slot, u32 value)
{
	return false;
}

bool jifl_compat_returns_has(struct rethook *returns, struct task_struct *task, u32 bits)
{
	return false;
}

void jifl_compat_returns_unhook(struct rethook *returns, struct task_struct *task, u32 bits)
{
}
#endif
