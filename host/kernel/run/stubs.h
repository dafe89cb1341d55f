/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Numbers that stubs.S needs of C structures; dispatch.c and enter/syscall.c check them.
 */
#ifndef JIFL_HOST_STUBS_H
#define JIFL_HOST_STUBS_H

#define JIFL_CPU_STACK_TOP	320	/* offsetof(struct jifl_cpu, stack_top) */
#define JIFL_ENTRY_TABLE_SIZE	512	/* JIFL_NR_MAX */

/* May calls be counted in the padding before functions? The option's name changed in Linux 6.9. */
#if defined(CONFIG_MITIGATION_CALL_DEPTH_TRACKING) || defined(CONFIG_CALL_DEPTH_TRACKING)
#define JIFL_CALLS_MAY_BE_COUNTED
#endif

/* STATIC_CALL_TRAMP() of enter/syscall.c's static calls; the kernel's header of it is C. */
#define JIFL_ENTRY_PASS		__SCT__jifl_entry_pass
#define JIFL_ENTRY_RESUME	__SCT__jifl_entry_resume

#endif
