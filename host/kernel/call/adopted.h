/* SPDX-License-Identifier: GPL-2.0 */
/* Calls that had begun before their session. */
#ifndef JIFL_HOST_ADOPTED_H
#define JIFL_HOST_ADOPTED_H

#include <linux/types.h>
#include "whose.h"

struct task_struct;

/*
 * The task, which does not run, is in a call of the aim's target from now on; it is in none of the
 * session. *slot: the return address of the target's caller, which no return hook has. False: there
 * is no room. All CPUs are stopped.
 */
bool jifl_adopted_begin(struct task_struct *task, struct jifl_aim *aim, unsigned long *slot);
/*
 * Such a call of the task ends: adds its count to the aim's, and to the session's keys if it has
 * some; or it is missed, because parts of it may have run natively. False: it is another call.
 * Preemption is off; a run queue may be locked, or all CPUs stopped.
 */
bool jifl_adopted_end(const struct task_struct *task, u64 call, u64 count);

#endif
