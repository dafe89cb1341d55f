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
static const struct ftrace_ops *kprobes;	/* those of kernel/kprobes.c */

int jifl_compat_direct_init(void)
{
	if (jifl_imported(ftrace_ops_test))
		all_ops = (struct ftrace_ops __rcu **)jifl_ksym("ftrace_ops_list");
	kprobes = (const struct ftrace_ops *)jifl_ksym("kprobe_ipmodify_ops");
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

/*
 * ftrace frees what its trampolines read of an ops outside of the kernel's own data. It waits for
 * tasks in them before, after it has taken the calls away (ftrace_shutdown), so that callers may
 * free what the calls led to: modules do so (samples/ftrace/ftrace-direct-multi.c). That was read
 * in 6.1 and 6.12: of later ones it is not believed.
 */
int jifl_compat_direct_unregister(struct ftrace_ops *ops, unsigned long addr, bool *waited)
{
	const bool waits = IS_ENABLED(CONFIG_PREEMPTION) && ops->flags & FTRACE_OPS_FL_DYNAMIC &&
			   LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0);
	int err;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	err = unregister_ftrace_direct(ops, addr, true);
#else
	err = unregister_ftrace_direct_multi(ops, addr);
	ftrace_free_filter(ops);
#endif
	*waited = !err && waits;
	return err;
}

unsigned long jifl_compat_direct_find(unsigned long site)
{
	return jifl_import(ftrace_find_rec_direct)(site);
}

/*
 * ftrace itself goes through the list in this way, in its handlers: whoever takes an ops off the
 * list waits until no CPU has preemption off any more, and so do those who free its filter.
 */
enum jifl_bar jifl_compat_direct_bar(unsigned long site)
{
	enum jifl_bar bar = JIFL_BAR_NONE;
	struct ftrace_ops *ops;

	if (!all_ops)
		return bar;
	preempt_disable();
	/* A site has one such ops at most. */
	for (ops = rcu_dereference_sched(*all_ops); ops && !bar;
	     ops = rcu_dereference_sched(ops->next))
		/* Of its registers it only asks whether there are any. */
		if (ops->flags & FTRACE_OPS_FL_IPMODIFY &&
		    jifl_import(ftrace_ops_test)(ops, site, ops))
			bar = ops == kprobes ? JIFL_BAR_KPROBE : JIFL_BAR_PATCH;
	preempt_enable();
	return bar;
}
#else
int jifl_compat_direct_init(void)
{
	return 0;
}

enum jifl_bar jifl_compat_direct_bar(unsigned long site)
{
	return JIFL_BAR_NONE;
}

int jifl_compat_direct_register(struct ftrace_ops *ops, unsigned long addr)
{
	return -ENODEV;
}

int jifl_compat_direct_unregister(struct ftrace_ops *ops, unsigned long addr, bool *waited)
{
	*waited = false;
	return -ENODEV;
}

unsigned long jifl_compat_direct_find(unsigned long site)
{
	return 0;
}
#endif
