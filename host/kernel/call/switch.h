/* SPDX-License-Identifier: GPL-2.0 */
/* The calls of tasks that are not running. */
#ifndef JIFL_HOST_SWITCH_H
#define JIFL_HOST_SWITCH_H

#include <linux/types.h>

int jifl_switch_init(void);
void jifl_switch_exit(void);
/* The hook in sched_switch. Sleep. */
int jifl_switch_hook(void);
void jifl_switch_unhook(void);
/* What a CPU records next is of the thread that comes to run there: is there a session that asks? */
void jifl_switch_marks(bool wanted);

#endif
