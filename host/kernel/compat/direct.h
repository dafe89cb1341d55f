/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct calls of ftrace: the call at a function's fentry site leads straight to an address. All
 * functions: process context; they sleep.
 */
#ifndef JIFL_HOST_DIRECT_H
#define JIFL_HOST_DIRECT_H

#include <linux/ftrace.h>

/*
 * The sites in the filter of ops call addr. 0; -EBUSY: one of the sites has a direct call, or a
 * live patch; -ENODEV: this kernel has no direct calls; or another error of ftrace's.
 */
int jifl_compat_direct_register(struct ftrace_ops *ops, unsigned long addr);
/*
 * When it returns 0, no site calls addr any more. *waited: since no site does RCU tasks has been
 * waited for, so no task is at addr, or on the way, that was preempted there. Otherwise, and of
 * what is no preempted task, threads may still be there.
 */
int jifl_compat_direct_unregister(struct ftrace_ops *ops, unsigned long addr, bool *waited);
/*
 * direct_table.c: ftrace can register so many further sites without losing memory. 0; -ENOMEM;
 * -EOPNOTSUPP: how ftrace keeps its sites is not known. And when the module goes.
 */
int jifl_compat_direct_room(unsigned long more);
void jifl_compat_direct_exit(void);
/* The address that a site calls; 0: none. A snapshot. */
unsigned long jifl_compat_direct_find(unsigned long site);
enum jifl_bar {
	JIFL_BAR_NONE,
	JIFL_BAR_KPROBE,	/* a kprobe with a handler behind the instruction */
	JIFL_BAR_PATCH,		/* a live patch, or who else sends calls somewhere else */
};

/*
 * Who may change where calls of the site go, so that jifl_compat_direct_register would refuse it? A
 * snapshot.
 */
enum jifl_bar jifl_compat_direct_bar(unsigned long site);
/* At load, after jifl_import_init. 0. */
int jifl_compat_direct_init(void);

#endif
