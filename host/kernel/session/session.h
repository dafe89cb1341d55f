/* SPDX-License-Identifier: GPL-2.0 */
/* Who instruments what, and how that begins and ends. */
#ifndef JIFL_HOST_SESSION_H
#define JIFL_HOST_SESSION_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/wait.h>
#include "../../../engine/engine.h"
#include "../../../include/uapi/jifl.h"
#include "../leave/evict.h"
#include "filter.h"
#include "mix.h"

/* --- flags of sessions, in groups ---------------------------------------------- */

/* Counts by what the tasks are. */
#define JIFL_FLAGS_BY	(JIFL_FLAG_BY_COMM | JIFL_FLAG_BY_PID | JIFL_FLAG_BY_CPU)
/* A value of each call instead of a count. */
#define JIFL_FLAGS_ARG	(JIFL_FLAG_ARG(0) | JIFL_FLAG_ARG(1) | JIFL_FLAG_ARG(2) | \
			 JIFL_FLAG_ARG(3) | JIFL_FLAG_ARG(4) | JIFL_FLAG_ARG(5))
#define JIFL_FLAGS_VALUE (JIFL_FLAG_DURATION | JIFL_FLAG_RETVAL | JIFL_FLAGS_ARG)
/* Of traces: records with words. */
#define JIFL_FLAGS_FUNCTIONS (JIFL_FLAG_VALUES | JIFL_FLAG_CLOCK)

struct jifl_session {
	struct list_head list;	/* jifl_session_mutex */
	u64 id;
	u32 kind;
	u32 flags;		/* JIFL_FLAG_* */
	u32 slot;		/* count.c's number of it, 0: none */
	u32 lane;		/* no session with one of its targets has the same */
	pid_t owner;
	char name[JIFL_NAME_MAX];
	struct jifl_filter filter;
	struct jifl_mix alone;	/* for calls that no other session is about */
	jifl_instrument_fn instrument; /* NULL: nothing in blocks */
	void *instrument_arg;
	bool running;		/* jifl_session_mutex */
	struct jifl_profile *profile; /* JIFL_KIND_PROFILE: its cells */
	struct jifl_mem *mem;	/* JIFL_KIND_MEM: its tables */
	struct jifl_keys_table *keys; /* JIFL_FLAG_BY_*: its keys; else NULL */
	struct jifl_locks_table *locks; /* JIFL_KIND_LOCK; else NULL */
	struct jifl_syscall *plugin; /* JIFL_KIND_PLUGIN: its syscall_t, see jifl.h */
	u32 naims;		/* how many of its targets this kernel has */
	u32 ntargets;		/* places in the list */
	struct jifl_aim *aims[]; /* ntargets; NULL: this kernel has no such target */
};

extern struct mutex jifl_session_mutex;
/* Woken when any has ended and `running` says so. */
extern wait_queue_head_t jifl_session_ended;

int jifl_session_init(void);
void jifl_session_exit(void);
/* An empty session with so many places for targets; NULL without memory. Sleeps. */
struct jifl_session *jifl_session_alloc(u32 ntargets);
/*
 * Starts s (kind, filter, targets, name, owner set). 0; -EINVAL when it has no
 * target that this kernel has; -EBUSY with *busy_target, its index, and *busy_session set
 * when JIFL_LANES others have one of them; -EACCES when the kernel is locked
 * down; -ENOSPC, -ENOMEM. Sleeps.
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
