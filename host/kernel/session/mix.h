/* SPDX-License-Identifier: GPL-2.0 */
/* The sessions that a call is about together, and how targets are armed with them. */
#ifndef JIFL_HOST_MIX_H
#define JIFL_HOST_MIX_H

#include <linux/list.h>
#include <linux/types.h>
#include "../call/whose.h"

/* The sessions of a mix, with their lanes. */
#define for_each_member(s, m, lane) \
	for ((lane) = 0; (lane) < JIFL_LANES; (lane)++) \
		if (((s) = (m)->members[lane]))

/* Makes s->alone, a mix of s (lane and instrument set); 0 or -ENOSPC. */
int jifl_mix_init_alone(struct jifl_session *s);
/* The way of the aim's call inside another one, where no other session matches it. */
static inline struct jifl_way *jifl_mix_inner(const struct jifl_aim *aim)
{
	return &aim->session->inner[aim->index];
}

/*
 * Makes what calls need that s and running sessions match together (number set); -ENOMEM. Goes
 * with jifl_mix_arm, or jifl_mix_unprepare. Sleeps.
 */
int jifl_mix_prepare(struct jifl_session *s);
void jifl_mix_unprepare(void);
/* From here on, calls of s are redirected; no more. In-flight ones go on. */
void jifl_mix_arm(struct jifl_session *s);
void jifl_mix_disarm(struct jifl_session *s);
/*
 * Around a new generation. After jifl_mix_pause no door leads into the cache and no piece is
 * made. jifl_mix_return_contexts gives back the contexts of several sessions: call it when
 * jifl_evict has returned.
 */
void jifl_mix_pause(struct list_head *sessions);
void jifl_mix_return_contexts(void);
void jifl_mix_resume(void);
/*
 * Around the end of one session among others, which is disarmed: the contexts of its mixes are
 * destroyed, and their ways cannot be found any more. jifl_mix_free_doomed frees these mixes:
 * call it when jifl_evict has returned.
 */
void jifl_mix_doom(struct jifl_session *s);
void jifl_mix_free_doomed(void);
/* Lets targets that could not run in the cache be tried again. */
void jifl_mix_retry_native(struct list_head *sessions);
/* Is it between jifl_mix_pause and jifl_mix_resume? For certain under jifl_entry_lock. */
bool jifl_mix_is_paused(void);
/*
 * The target's entry pieces are made anew: what is inserted there has changed. Threads may be in
 * those from before, or on their way there. Under jifl_session_mutex.
 */
void jifl_mix_forget_pieces(struct jifl_target *t);
/* The mix's context, made if need be; negative: there is no room. Under jifl_entry_lock. */
int jifl_mix_context(struct jifl_mix *m);

/*
 * Numbers of the sessions that the engine's context is of, the others 0. Under
 * jifl_session_mutex.
 */
void jifl_mix_sessions(int context, u64 ids[JIFL_LANES]);

#endif
