/* SPDX-License-Identifier: GPL-2.0 */
/* Which calls of functions may enter the code cache. */
#ifndef JIFL_HOST_ENTER_GUARD_H
#define JIFL_HOST_ENTER_GUARD_H

#include "../../../include/uapi/jifl.h"

/* 0, or an error after a line in the log. Both: process context; they sleep. */
int jifl_guard_init(void);
void jifl_guard_exit(void);
extern const void *jifl_guard_stop_class; /* stop_sched_class */
extern bool jifl_guard_injects;	/* a thread has injected idle time */
/*
 * Why the code that runs may not enter the cache: enum jifl_miss; negative: it may. level: at which
 * it runs (jifl_level). Any context, with preemption off.
 */
int jifl_guard_check(enum jifl_level level);

#endif
