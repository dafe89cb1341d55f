// SPDX-License-Identifier: GPL-2.0
/* Direct calls of ftrace, by kernel version; see direct.h. */
#include <linux/errno.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/version.h>

#include "direct.h"
#include "import.h"
#include "ksym.h"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
static struct ftrace_ops __rcu **all_ops;	/* ftrace_ops_list; NULL: it cannot be read */

int jifl_compat_direct_init(void)
{
	if (jifl_imported(ftrace_ops_test))
		all_ops = (struct ftrace_ops __rcu **)jifl_ksym("ftrace_ops_list");
	return 0;
}

int jifl_compat_direct_register(struct ftrace_ops *ops, unsigned long addr)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	int err = register_ftrace_direct(ops, addr);
#else
	int err = register_ftrace_direct_multi(ops, addr);
#endif
	return err == -EEXIST ? -EBUSY : err;
}

int jifl_compat_direct_unregister(struct ftrace_ops *ops, unsigned long addr)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	return unregister_ftrace_direct(ops, addr, true);
#else
	int err = unregister_ftrace_direct_multi(ops, addr);

	ftrace_free_filter(ops);
	return err;
#endif
}

unsigned long jifl_compat_direct_find(unsigned long site)
{
	return jifl_import(ftrace_find_rec_direct)(site);
}

/*
 * ftrace itself goes through the list in this way, in its handlers: whoever takes an ops off the
 * list waits until no CPU has preemption off any more, and so do those who free its filter.
 */
bool jifl_compat_direct_is_barred(unsigned long site)
{
	struct ftrace_ops *ops;
	bool barred = false;

	if (!all_ops)
		return false;
	preempt_disable();
	for (ops = rcu_dereference_sched(*all_ops); ops && !barred;
	     ops = rcu_dereference_sched(ops->next))
		/* Of its registers it only asks whether there are any. */
		barred = ops->flags & FTRACE_OPS_FL_IPMODIFY &&
			 jifl_import(ftrace_ops_test)(ops, site, ops);
	preempt_enable();
	return barred;
}
#else
int jifl_compat_direct_init(void)
{
	return 0;
}

bool jifl_compat_direct_is_barred(unsigned long site)
{
	return false;
}

int jifl_compat_direct_register(struct ftrace_ops *ops, unsigned long addr)
{
	return -ENODEV;
}

int jifl_compat_direct_unregister(struct ftrace_ops *ops, unsigned long addr)
{
	return -ENODEV;
}

unsigned long jifl_compat_direct_find(unsigned long site)
{
	return 0;
}
#endif
