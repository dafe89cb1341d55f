/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whose calls run in the cache: the data of sessions, of their targets, and of the sessions that a
 * call is about together. A running call is known by its session, so these structures stand
 * below session/, which makes and ends them.
 *
 * An aim and the ways into the code cache of its target are made before the session is armed:
 * nothing is allocated where a target is entered.
 */
#ifndef JIFL_HOST_WHOSE_H
#define JIFL_HOST_WHOSE_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/types.h>
#include "../../../engine/engine.h"
#include "../../../include/uapi/jifl.h"
#include "../enter/target.h"
#include "../store/percpu.h"
#include "../store/ring.h"

struct cgroup;
struct jifl_programs;
struct jifl_stats_cpu;
struct jifl_tool;

/* --- flags of sessions, in groups ---------------------------------------------- */

/* Counts by what the tasks are, and where they are. */
#define JIFL_FLAGS_BY	(JIFL_FLAG_BY_COMM | JIFL_FLAG_BY_PID | JIFL_FLAG_BY_CPU | \
			 JIFL_FLAG_BY_LEVEL)
/* A value of each call instead of a count. */
#define JIFL_FLAGS_ARG	(JIFL_FLAG_ARG(0) | JIFL_FLAG_ARG(1) | JIFL_FLAG_ARG(2) | \
			 JIFL_FLAG_ARG(3) | JIFL_FLAG_ARG(4) | JIFL_FLAG_ARG(5))
#define JIFL_FLAGS_VALUE (JIFL_FLAG_DURATION | JIFL_FLAG_RETVAL | JIFL_FLAGS_ARG)
/* Of traces: records with words. */
#define JIFL_FLAGS_FUNCTIONS (JIFL_FLAG_VALUES | JIFL_FLAG_CLOCK)

/* Which calls a session is about; filter.c fills it. */
struct jifl_filter {
	u32 mask;		/* JIFL_FILTER_* */
	struct pid *pid, *tgid;	/* references held */
	struct cgroup *cgroup;	/* reference held */
	char comm[TASK_COMM_LEN];
	bool comm_is_pattern;	/* as of lib/glob.c */
	u32 levels;		/* JIFL_FILTER_LEVELS: 1 << enum jifl_level */
};

static inline bool jifl_filter_has_level(const struct jifl_filter *f, enum jifl_level level)
{
	return !(f->mask & JIFL_FILTER_LEVELS) || f->levels & 1u << level;
}

/* Is the session about what all tasks do at this level? */
static inline bool jifl_filter_has_all(const struct jifl_filter *f, enum jifl_level level)
{
	return !(f->mask & ~JIFL_FILTER_LEVELS) && jifl_filter_has_level(f, level);
}

/* The sessions that a call is about together; session/mix.c. */
struct jifl_mix {
	struct list_head list;	/* jifl_session_mutex; unused in a session's own mix */
	struct list_head ways;	/* of all its targets; jifl_session_mutex; unused there, too */
	struct jifl_session *members[JIFL_LANES]; /* NULL where a lane has none */
	struct jifl_session *in_order[JIFL_LANES + 1]; /* by order of inserting, then NULL */
	int context;		/* of the engine; negative: none yet; jifl_entry_lock */
};

/* How the calls that the sessions of one mix match enter one target. */
struct jifl_way {
	struct hlist_node node;		/* in target->ways; unused in an aim's own */
	struct list_head list;		/* in mix->ways; jifl_session_mutex; unused in an aim's */
	struct jifl_target *target;	/* the mix's sessions hold it */
	struct jifl_mix *mix;
	u32 lanes;			/* bit n: the mix has a session in lane n */
	/*
	 * Of these, those whose call begins here. The others are in a call already: copies of
	 * theirs call the target. See nested.c.
	 */
	u32 entering;
	/*
	 * Of these, those that count calls apart (jifl_count_is_apart), and are in a call already:
	 * what it calls has come to the door.
	 */
	u32 inner;
	bool native;			/* the target is not to be tried for now */
	/* With the piece: each call asks, because of what a session of the mix is. */
	bool asks;
	u64 piece;			/* entry piece; jifl_entry_lock; 0: not made yet */
};

/* What one session has of one of its targets; session/aim.c. */
struct jifl_aim {
	struct jifl_target *target;	/* a reference */
	struct jifl_session *session;
	u32 index;			/* in the session's list */
	u64 __percpu *counter;		/* stats.c's; NULL: figures alone, or nothing */
	s16 cell;			/* stats.c's; 0: none; jifl_entry_lock */
	const struct jifl_condition *condition; /* of the session's list; NULL: all calls */
	u32 value;			/* of functions: value's type, JIFL_TARGET_*; value.h */
	u64 replacement;		/* address of the function that replaces the target; or 0 */
	/* Code outside of the cache that leads there; while the session's tool is attached. */
	u64 gate;
	struct jifl_way way;		/* for calls that no other session matches */
	u64 blocks;			/* translated first for this target; engine lock */
	atomic64_t missed[JIFL_NR_MISSES]; /* by enum jifl_miss */
	u64 adopted;			/* calls that had begun before; jifl_session_mutex */
	atomic64_t adopted_sum;		/* what was counted in those of them that have ended */
	/* nr_cpu_ids, from jifl_stats_prepare on; all NULL in sessions that have no figures. */
	struct jifl_stats_cpu *cpu[];
};

/* Who instruments what; session/session.c. */
struct jifl_session {
	struct list_head list;	/* jifl_session_mutex */
	u64 id;
	const struct jifl_tool *tool; /* what it does */
	u32 flags;		/* JIFL_FLAG_* */
	u32 slot;		/* count.c's number of it, 0: none */
	u32 lane;		/* no session with one of its targets has the same */
	pid_t owner;
	char name[JIFL_NAME_MAX];
	struct jifl_filter filter;
	struct jifl_filter watched;	/* of tools that watch tasks: whose calls they are about */
	struct jifl_mix alone;	/* for calls that no other session is about */
	struct jifl_way *inner;	/* for such calls inside others, by aim->index; NULL: none */
	jifl_instrument_fn instrument; /* NULL: nothing in blocks */
	void *instrument_arg;
	bool only;		/* JIFL_SCOPE_ONLY: its targets are functions, and run alone */
	bool running;		/* jifl_session_mutex */
	bool here;		/* from jifl_mix_arm to jifl_mix_doom; jifl_entry_lock */
	u32 adopted;		/* tasks that were inside at the start, in the cache since */
	u32 left[JIFL_NR_LEFT];	/* those that are not, by enum jifl_left */
	struct jifl_ring_owner ring; /* sessions that record: how they have the rings */
	void *tool_data;	/* the tool's own */
	struct jifl_counters *counters;	/* its aims' by their index; NULL: they have none */
	struct jifl_keys_table *keys; /* JIFL_FLAG_BY_*: its keys; else NULL */
	struct jifl_condition *conditions; /* of its functions; NULL: none */
	struct jifl_under *under;	/* what all calls are made under; NULL: anything */
	u32 nconditions;
	struct jifl_splice *splices; /* of tools with places, in order; NULL: none */
	u32 nsplices;
	struct jifl_counter meters[JIFL_COUNTERS_MAX]; /* of tools with counters */
	u32 nmeters;
	u32 bad_meter;		/* with -ENXIO of open: which is not there */
	struct jifl_programs *programs; /* of these places; NULL: none has one */
	u32 refused_splice;	/* after -EILSEQ: which; its `refused` says why */
	u32 refused;		/* after -EOPNOTSUPP: enum jifl_refusal; 0: the site is taken */
	u32 naims;		/* how many of its targets this kernel has */
	u32 ntargets;		/* places in the list */
	u32 nfunctions;		/* of naims, those that are functions of all its sessions */
	u32 nsyscalls;		/* of naims, those that are system calls */
	/* While it is attached, its functions, first those with sites. jifl_session_mutex. */
	struct jifl_target **doors;
	struct jifl_jump **jumps; /* room: the end needs no memory */
	u32 nsites, ndoors;
	struct jifl_closed closed; /* of these doors, at the end */
	struct jifl_jumps_looked *looked; /* what is known of jumps until they are there; or NULL */
	void **aim_pieces;	/* aim.c's: memory of aims; NULL: there was none yet */
	struct jifl_aim *aims[]; /* ntargets; NULL: this kernel has no such target */
};

/* Aims of a session, in the order of its list. */
#define for_each_aim(aim, s, i) \
	for ((i) = 0; (i) < (s)->ntargets; (i)++) \
		if (((aim) = (s)->aims[i]))

/* Each lane whose bit is set in lanes, in ascending order. */
#define for_each_lane(lane, lanes) \
	for (u32 rest_ = (lanes); rest_ && ((lane) = __ffs(rest_), true); rest_ &= rest_ - 1)

/* The aim in a place of the session's list; NULL: there is none. */
static inline struct jifl_aim *jifl_aim_at(const struct jifl_session *s, u32 index)
{
	return index < s->ntargets ? s->aims[index] : NULL;
}

#endif
