/* SPDX-License-Identifier: GPL-2.0 */
/* Counts by what the tasks are, for JIFL_FLAG_BY_*. */
#ifndef JIFL_HOST_KEYS_H
#define JIFL_HOST_KEYS_H

#include <linux/types.h>
#include "../store/answer.h"

struct jifl_keys_table;
struct jifl_session;
struct task_struct;

int jifl_keys_init(void);
/* Makes s's table; -ENOMEM. Sleeps. */
int jifl_keys_open(struct jifl_session *s);
/* Frees the table, if s has one. After all inserted code of s is gone. Sleeps. */
void jifl_keys_close(struct jifl_session *s);
/* Adds a call of the current task and its value. Preemption is off; a run queue may be locked. */
void jifl_keys_add(struct jifl_keys_table *t, u64 value);
/*
 * Adds such a call of the task, which had begun before the session; keys of these are entries of
 * their own. Of a session that counts by CPU nothing is added: the task has been on many. As
 * jifl_keys_add, or all CPUs are stopped.
 */
void jifl_keys_add_adopted(struct jifl_keys_table *t, const struct task_struct *task, u64 value);
/* JIFL_TABLE_KEYS, of a struct jifl_keys_table. */
extern const struct jifl_answer jifl_keys_answer;

#endif
