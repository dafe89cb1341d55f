// SPDX-License-Identifier: GPL-2.0
/* Direct calls of ftrace, by kernel version; see direct.h. */
#include <linux/errno.h>
#include <linux/version.h>

#include "direct.h"
#include "import.h"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
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
#else
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
