/* SPDX-License-Identifier: GPL-2.0 */
/* The calls of tasks that are not running. */
#ifndef JIFL_HOST_SWITCH_H
#define JIFL_HOST_SWITCH_H

#include <linux/types.h>
#include "../store/percpu.h"
#include "../../../include/uapi/jifl.h"

struct task_struct;

int jifl_switch_init(void);
void jifl_switch_exit(void);
/* Add and remove the hook in sched_switch. Both sleep. */
int jifl_switch_hook(void);
void jifl_switch_unhook(void);
/* wanted: a session records, so a switch of tasks must leave a record of the next thread. */
void jifl_switch_marks(bool wanted);
extern bool jifl_switch_marking;	/* whether that is so */
/*
 * switch_mark.c: records which thread the CPU's next records are of, if a session records a call of
 * it in these lanes, its own. At a switch to that thread.
 */
void jifl_switch_mark_resumed(const struct jifl_lane lanes[JIFL_LANES], struct task_struct *next);
/*
 * The call, if it is not 0, is given up and missed. Its task may go on in code that makes records.
 * Any context.
 */
void jifl_switch_mark_given_up(u64 call, enum jifl_miss why);
/*
 * So many more sessions count calls that kernel threads may make, or, below 0, fewer: none of such
 * a session's calls is running any more. For others no calls of kernel threads are looked for.
 */
void jifl_switch_threads(int more);
/*
 * The task, which does not run, is in that call, in that lane; it was in none there. False: it was,
 * or there is no place. And back. All CPUs are stopped.
 */
bool jifl_switch_give(struct task_struct *task, unsigned int lane, u64 call);
void jifl_switch_take(struct task_struct *task, unsigned int lane);
/* Is the task in a call in that lane? It does not run, and does not begin to. */
bool jifl_switch_has(struct task_struct *task, unsigned int lane);

#endif
