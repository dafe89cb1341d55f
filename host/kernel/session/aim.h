/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one session has of one of its targets (struct jifl_aim), and the ways into the code
 * cache that a target has (struct jifl_way). Both are made before the session is armed: nothing
 * is allocated where a target is entered.
 */
#ifndef JIFL_HOST_AIM_H
#define JIFL_HOST_AIM_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/types.h>
#include "../enter/target.h"

struct jifl_mix;
struct jifl_session;
struct jifl_stats_cpu;

/* How the calls that the sessions of one mix match enter one target. */
struct jifl_way {
	struct hlist_node node;		/* in target->ways; unused in an aim's own */
	struct list_head list;		/* in mix->ways; jifl_session_mutex; unused in an aim's own */
	struct jifl_target *target;	/* the mix's sessions hold it */
	struct jifl_mix *mix;
	u32 lanes;			/* bit n: the mix has a session in lane n */
	bool native;			/* the target is not to be tried for now */
	u64 piece;			/* entry piece; jifl_entry_lock; 0: not made yet */
};

struct jifl_aim {
	struct jifl_target *target;	/* a reference */
	struct jifl_session *session;
	u32 index;			/* in the session's list */
	s16 cell;			/* stats.c's; 0: none; jifl_entry_lock */
	struct jifl_way way;		/* for calls that no other session matches */
	u64 blocks;			/* translated first for this target; engine lock */
	atomic64_t missed;
	/* nr_cpu_ids, from jifl_count_prepare on; all NULL in sessions that have no figures. */
	struct jifl_stats_cpu *cpu[];
};

/* Aims of a session, in the order of its list. */
#define for_each_aim(aim, s, i) \
	for ((i) = 0; (i) < (s)->ntargets; (i)++) \
		if (((aim) = (s)->aims[i]))

/*
 * Puts the target into a place of the session's list, which jifl_session_alloc has left empty.
 * The place of a target that this kernel does not have stays empty. 0; -ENOMEM. Sleeps.
 */
int jifl_aim_add(struct jifl_session *s, u32 index, u32 kind, u64 id);
/*
 * Is the list one to start with? -EINVAL when it is empty, or has a target twice. Under
 * jifl_session_mutex.
 */
int jifl_aim_check(const struct jifl_session *s);
/* Gives all back. Sleeps. */
void jifl_aim_free(struct jifl_session *s);
/* The aim in a place of the list; NULL: there is none. */
struct jifl_aim *jifl_aim_at(const struct jifl_session *s, u32 index);

#endif
