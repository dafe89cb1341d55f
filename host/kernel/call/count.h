/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts that follow their task: the functions for sessions and hooks, and the identity by which
 * the files here know a running call.
 */
#ifndef JIFL_HOST_COUNT_H
#define JIFL_HOST_COUNT_H

#include "../kernel.h"
#include "../store/percpu.h"
#include "whose.h"

/* Room for a session's inserts on each side of an entry piece. */
#define JIFL_ENTRY_INSERTS	8
/* Of these, for jifl_tool.skips. */
#define JIFL_SKIPS		4

int jifl_count_init(void);
void jifl_count_exit(void);
/*
 * Gives the session a slot, which is its number in the records of running calls. The first counting
 * session adds the sched_switch hook. -ENOSPC: no free slot. Sleeps.
 */
int jifl_count_start(struct jifl_session *s);
/* After the session's last call: makes its figures final. The last session unhooks. Sleeps. */
void jifl_count_stop(struct jifl_session *s);
/*
 * Makes room for the figures of each of the session's targets; -ENOMEM. jifl_stats_free frees what
 * was made, after an error, too. Sleeps.
 */
int jifl_stats_prepare(struct jifl_session *s);
/*
 * Writes the inserts for an entry piece of the aim's target into entry and exit (JIFL_ENTRY_INSERTS
 * each), and their numbers. Under jifl_entry_lock.
 */
void jifl_count_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit);
/*
 * Blocks that this CPU translates from here on count as blocks of the aim, although the call has
 * not begun, until the CPU's records are put back. Interrupts are off.
 */
void jifl_count_translate_begin(const struct jifl_aim *aim);
/*
 * Puts this CPU's records of running calls aside, and back: what is done in between may set and
 * clear them. Interrupts are off.
 */
void jifl_count_put_aside(u64 calls[JIFL_LANES]);
void jifl_count_put_back(const u64 calls[JIFL_LANES]);
/*
 * The call of a function in that lane, if there is one, ends with this result. level: that at which
 * it has begun. Interrupts are off; any lock may be held.
 */
void jifl_count_end_outside(unsigned long lane, u64 result, enum jifl_level level);
/* Do calls get an identity, because something of each is known only at its end? */
bool jifl_count_follows(const struct jifl_session *s);
/*
 * Is a call inside a call of the session counted where it begins? It has no identity: when
 * something is lost, the outermost call counts as missed.
 */
bool jifl_count_is_apart(const struct jifl_session *s);
/*
 * Of such a session: fills *entry for a call inside another one that comes by a door, and returns
 * the number of inserts. Under jifl_entry_lock.
 */
u32 jifl_count_entry_inner(struct jifl_aim *aim, struct ir_insert *entry);
/* A function's instructions before its door: an endbr64, if it has one, and the site. */
u32 jifl_count_skipped(const struct jifl_target *t);
/*
 * Fills *ins, for a block where a target of the aim begins that is called from inside the cache:
 * the call is counted, or counted as missed. False: nothing is known of the aim's calls. Under
 * the engine lock.
 */
bool jifl_count_nested(struct jifl_aim *aim, bool member, struct ir_insert *ins);
/* Of a session that counts calls and does not follow them: a call begins. Any context. */
void jifl_count_begin(struct jifl_aim *aim);
/* A new block counts as one of the call that runs here, if that is s's. Under the engine lock. */
void jifl_count_attribute(struct jifl_session *s);
/* True if calls of a disarmed session are running, or a task is dying in one. */
bool jifl_switch_is_ending(const struct jifl_session *s);
/* True if a task is in such a call and its parent may know of its death, or soon will. */
bool jifl_switch_has_dead(const struct jifl_session *s);
/* Counts a call as missed: it ran natively, or was cut short. Any context. */
void jifl_count_miss(struct jifl_aim *aim, enum jifl_miss why);
/* The same where it is not known whose call it is. */
void jifl_count_miss_unknown(enum jifl_miss why);
u64 jifl_count_missed(enum jifl_miss why);	/* all sessions ever */
/*
 * Around what jifl_evict does to stacks: calls are cut, and a dying task may no longer return into
 * the cache. ended: the session whose calls are all cut, wherever their tasks are; NULL: none.
 */
void jifl_switch_drain_begin(enum jifl_miss why, const struct jifl_session *ended);
void jifl_switch_drain_end(void);
/* hist: JIFL_HIST_BUCKETS, or NULL. */
void jifl_stats_read(const struct jifl_aim *aim, struct jifl_stat *st, u64 *hist);
u64 jifl_stats_calls(const struct jifl_session *s);
void jifl_stats_free(struct jifl_session *s);

/* --- the identity of a call -------------------------------------------------- */

/*
 * struct jifl_lane.call is (slot << JIFL_COUNT_TARGET_BITS | index + 1). It is never 0. The entry
 * piece stores it as a sign-extended 32-bit immediate, so slots and targets share 31 bits.
 */
#define JIFL_COUNT_SLOTS	4096	/* counting sessions at a time, plus one: 0 is unused */
#define JIFL_COUNT_TARGET_BITS	19
#define JIFL_COUNT_TARGET_MASK	((1u << JIFL_COUNT_TARGET_BITS) - 1)

/* Above what an entry piece stores: the call had begun before its session (adopted.h). */
#define JIFL_COUNT_ADOPTED	(1ull << 32)

static_assert(JIFL_COUNT_SLOTS <= 1 << (31 - JIFL_COUNT_TARGET_BITS));
static_assert(JIFL_TARGETS_MAX <= JIFL_COUNT_TARGET_MASK);

/*
 * Set and cleared under jifl_session_mutex. Calls of the session run only while its slot is set, so
 * readers need no lock.
 */
extern struct jifl_session *jifl_count_slots[JIFL_COUNT_SLOTS];
/*
 * The lane whose calls have records, written under the same lock and read in any context;
 * JIFL_LANES: none.
 */
extern unsigned int jifl_count_recorded;

static inline u32 jifl_count_id(const struct jifl_aim *aim)
{
	return aim->session->slot << JIFL_COUNT_TARGET_BITS | (aim->index + 1);
}

static inline struct jifl_session *jifl_count_session(u64 call)
{
	return jifl_count_slots[(call >> JIFL_COUNT_TARGET_BITS) % JIFL_COUNT_SLOTS];
}

/* Index of the call's target in its session's list. */
static inline u32 jifl_count_index(u64 call)
{
	return ((u32)call & JIFL_COUNT_TARGET_MASK) - 1;
}

/* The aim of a call of s. 64-bit arithmetic, so that the -1 becomes part of the displacement. */
static inline struct jifl_aim *jifl_count_aim(const struct jifl_session *s, u64 call)
{
	return s->aims[((u32)call & JIFL_COUNT_TARGET_MASK) - 1ull];
}

/* What the call has counted is final: the task died in it. With preemption off. */
void jifl_count_finish_dead(u64 call, u64 count);
/* Counts the call as missed. call may be 0: none. */
void jifl_count_miss_call(u64 call, enum jifl_miss why);

#endif
