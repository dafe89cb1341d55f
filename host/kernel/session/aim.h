/* SPDX-License-Identifier: GPL-2.0 */
/* The targets of a session (struct jifl_aim): how they come, and how they go. */
#ifndef JIFL_HOST_AIM_H
#define JIFL_HOST_AIM_H

#include <linux/types.h>
#include "../call/whose.h"

/*
 * Puts the target into a place of the session's list, which jifl_session_alloc has left empty.
 * The place of a target that this kernel does not have stays empty. 0; -ENOMEM; -ENOENT: the
 * function's module is going; -EBUSY: the function is a target of another kind. Sleeps.
 */
int jifl_aim_add(struct jifl_session *s, u32 index, u32 kind, u64 id);
/*
 * The same of a function, of the kind by which it can be entered. jifl_aim_refuse_notrace says
 * afterwards whether those that are entered by jumps can be. condition: which calls of it; NULL:
 * all. 0; -ENOMEM; -EOPNOTSUPP: *refused says why it cannot.
 */
int jifl_aim_add_function(struct jifl_session *s, u32 index, unsigned long begin,
			  const struct jifl_condition *condition, enum jifl_refusal *refused);
/*
 * Takes functions out of the list that would be entered by jumps, where none can stand, or is met
 * without a call. refused[i], of ntargets, says whether that was so of the i-th. One whose site is
 * free is entered there. Not for tools of places, which need no doors. 0; -ENOMEM. Sleeps.
 */
int jifl_aim_refuse_notrace(struct jifl_session *s, bool *refused);
/*
 * Is the list one to start with? -EINVAL when it is empty, or has a target twice. Under
 * jifl_session_mutex.
 */
int jifl_aim_check(const struct jifl_session *s);
/*
 * Opens the doors of the session's system calls and functions, and gives its calls their returns.
 * 0; -EBUSY: somebody else has the call of x64_sys_call; -EOPNOTSUPP with *busy_target set:
 * somebody else has that function's site, or, with s->refused set, it has no door; -ENOMEM.
 * Nothing is attached after an error. Both under jifl_session_mutex; sleep.
 */
int jifl_aim_attach(struct jifl_session *s, u32 *busy_target);
/*
 * Undoes it, in three steps, when the session is disarmed. Behind the first nobody comes to the
 * gates of jumps in place any more. Then the machine is stopped (jifl_evict). Behind the second
 * nobody comes to the doors at sites of functions either. True: and the machine was stopped, and
 * RCU tasks was waited for. Otherwise RCU tasks is waited for before the third.
 */
void jifl_aim_close_jumps(struct jifl_session *s);
bool jifl_aim_close_sites(struct jifl_session *s);
void jifl_aim_detach(struct jifl_session *s);
/* Undoes it of a session that was not armed. */
void jifl_aim_undo(struct jifl_session *s);
/* Gives all back. Sleeps. */
void jifl_aim_free(struct jifl_session *s);

#endif
