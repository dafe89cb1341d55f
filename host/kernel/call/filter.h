/* SPDX-License-Identifier: GPL-2.0 */
/* Which calls a session is about. */
#ifndef JIFL_HOST_FILTER_H
#define JIFL_HOST_FILTER_H

#include <linux/types.h>
#include "whose.h"

struct jifl_start;
struct task_struct;

/* From a request of the current task. 0; -ESRCH, -ENOENT (cgroup), -EINVAL. */
int jifl_filter_init(struct jifl_filter *f, const struct jifl_start *req);
void jifl_filter_release(struct jifl_filter *f);
/* Is the task meant, at task level? It is the current one, or it does not run. Does not sleep. */
bool jifl_filter_match_task(const struct jifl_filter *f, struct task_struct *task);
/*
 * Is a call meant that is made here? level: at which the code runs (jifl_level). Any context, with
 * preemption off; does not sleep.
 */
bool jifl_filter_match_some(const struct jifl_filter *f, enum jifl_level level);

static inline bool jifl_filter_match(const struct jifl_filter *f, enum jifl_level level)
{
	return !f->mask || jifl_filter_match_some(f, level);
}

/* The same for inserted code: what it calls is the module's own. Any context. */
bool jifl_filter_match_inserted(const struct jifl_filter *f);

#endif
