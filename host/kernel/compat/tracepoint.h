/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The context of tracepoints' hooks. Hooks used to run with preemption off. From 6.13 on those of
 * system calls run with preemption on, and in 7.3 all do (linux/tracepoint.h). A hook that needs it
 * off says so here. That costs nothing in kernels where preemption is off.
 */
#ifndef JIFL_HOST_COMPAT_TRACEPOINT_H
#define JIFL_HOST_COMPAT_TRACEPOINT_H

#include <linux/preempt.h>
#include <linux/tracepoint.h>

/* The kernel declares tracepoints whose hooks may be preempted in another way than others. */
#ifdef DECLARE_TRACE_SYSCALL
#define jifl_compat_hook_begin()	preempt_disable_notrace()
#define jifl_compat_hook_end()		preempt_enable_notrace()
#else
#define jifl_compat_hook_begin()	barrier()
#define jifl_compat_hook_end()		barrier()
#endif

#endif
