/* SPDX-License-Identifier: GPL-2.0 */
/* The sessions that a system call is about. */
#ifndef JIFL_HOST_MIX_H
#define JIFL_HOST_MIX_H

#include <linux/list.h>
#include <linux/ptrace.h>
#include <linux/types.h>
#include "../store/percpu.h"
#include "../../../include/uapi/jifl.h"

struct jifl_session;

struct jifl_mix {
	struct list_head list;	/* jifl_entry_lock; unused in a session's own */
	struct list_head doomed; /* jifl_session_mutex; likewise */
	struct jifl_session *members[JIFL_LANES]; /* NULL where a lane has none */
	struct jifl_session *in_order[JIFL_LANES + 1]; /* ... as they insert; NULL behind the last */
	int context;		/* of the engine */
	u64 pieces[JIFL_NR_MAX]; /* entry pieces; jifl_entry_lock; 0: not made yet */
	DECLARE_BITMAP(native, JIFL_NR_MAX); /* handlers not to be tried for now */
};

/* Makes s->alone, a mix of s (lane and instrument set); 0 or -ENOSPC. */
int jifl_mix_init_alone(struct jifl_session *s);
/* From here on, calls of s are redirected; no more. In-flight ones go on. */
void jifl_mix_arm(struct jifl_session *s);
void jifl_mix_disarm(const struct jifl_session *s);
/*
 * Around a new generation. After jifl_mix_pause no entry leads into the cache, no piece is made,
 * and no mix of several sessions can be found. jifl_mix_free_paused frees these mixes: call it
 * when jifl_evict has returned.
 */
void jifl_mix_pause(struct list_head *sessions);
void jifl_mix_free_paused(void);
void jifl_mix_resume(void);
/*
 * Around the end of one session among others, which is disarmed: its mixes'
 * contexts are destroyed; with nobody inside, the mixes are freed.
 */
void jifl_mix_doom(struct jifl_session *s);
void jifl_mix_free_doomed(void);
/*
 * The entry piece of (m, nr), made if need be; 0 to let the call pass. Sets this CPU's running
 * calls to none when it makes one. Does not sleep.
 */
u64 jifl_mix_way_in(struct jifl_mix *m, unsigned int nr);
/* Lets handlers that could not run in the cache be tried again. */
void jifl_mix_retry_native(struct list_head *sessions);
/* Called by jifl_entry_slow: the address to jump to, or 0 to let pass. */
u64 jifl_entry_choose(const struct pt_regs *regs, unsigned int nr);

/*
 * Numbers of the sessions that the engine's context is of, the others 0. Under
 * jifl_session_mutex.
 */
void jifl_mix_sessions(int context, u64 ids[JIFL_LANES]);

#endif
