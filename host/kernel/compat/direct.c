// SPDX-License-Identifier: GPL-2.0
/*
 * Attaching an assembly stub to an fentry site. Called by enter/syscall.c, in process
 * context. Linux 6.4 gave the interface that works on an ftrace_ops the name
 * that the older one by address had.
 */
#include <linux/ftrace.h>

#include "../kernel.h"
#include "compat.h"

int jifl_compat_direct_register(struct ftrace_ops *ops, unsigned long stub)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	return register_ftrace_direct(ops, stub);
#else
	return register_ftrace_direct_multi(ops, stub);
#endif
}

int jifl_compat_direct_unregister(struct ftrace_ops *ops, unsigned long stub)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	return unregister_ftrace_direct(ops, stub, false);
#else
	return unregister_ftrace_direct_multi(ops, stub);
#endif
}
