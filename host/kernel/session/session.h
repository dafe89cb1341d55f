/* SPDX-License-Identifier: GPL-2.0 */
/* Who instruments what, and how that begins and ends. */
#ifndef JIFL_HOST_SESSION_H
#define JIFL_HOST_SESSION_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/wait.h>
#include "../leave/evict.h"
#include "../call/whose.h"

extern struct mutex jifl_session_mutex;
/*
 * Called when the cache has been emptied and no thread is inside, for plugins, which stand above
 * sessions: set once, at load. Under jifl_session_mutex; sleeps.
 */
extern void (*jifl_session_flushed)(void);
/* Woken when any has ended and `running` says so. */
extern wait_queue_head_t jifl_session_ended;

void jifl_session_exit(void);
/* An empty session with so many places for targets; NULL without memory. Sleeps. */
struct jifl_session *jifl_session_alloc(u32 ntargets);
/*
 * Starts s (kind, filter, targets, name, owner set). 0; -EINVAL when it has no
 * target that this kernel has; -EBUSY with *busy_target, its index, and *busy_session set
 * when JIFL_LANES others have one of them; -EXDEV with *busy_target set when another has it in
 * another scope; -EACCES when the kernel is locked
 * down; -EILSEQ with s->refused_splice set; -EINTR when the task is being killed; -ENOSPC, -ENOMEM.
 * Sleeps.
 */
int jifl_session_start(struct jifl_session *s, u32 *busy_target, u64 *busy_session);
/*
 * Ends it: disarmed, evicted, context gone; statistics stay until free.
 * -ENOENT when it has ended already.
 */
int jifl_session_stop(struct jifl_session *s, struct jifl_drain *drain);
/* Frees a session that does not run. */
void jifl_session_free(struct jifl_session *s);
/*
 * Ends one running session: number id, or any with id 0, but not `except`.
 * -ENOENT when there is none. A plugin's is left alone and its plugin's name
 * given (-EAGAIN): it is to be stopped through jifl_plugin_ctl.
 */
int jifl_session_detach(u64 id, const struct jifl_session *except,
			struct jifl_drain *drain, char plugin[JIFL_NAME_MAX]);
/*
 * The running session behind s, or the first for NULL; NULL at the end. Under
 * jifl_session_mutex.
 */
struct jifl_session *jifl_session_next(struct jifl_session *s);
/* Fills *info with the running session of the lowest number above info->id. */
int jifl_session_info(struct jifl_session_info *info);
/* Fills what sessions know of the module's status. */
void jifl_session_status(struct jifl_status *st);

#endif
