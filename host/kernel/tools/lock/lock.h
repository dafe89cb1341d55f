/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits for locks: what the files here know of each other:
 *   lock.c        where something is inserted
 *   wait.c   ... and what: functions that are called where a wait begins and ends
 *   table.c  the sums, by lock, caller and type
 */
#ifndef JIFL_HOST_LOCK_H
#define JIFL_HOST_LOCK_H

#include <linux/atomic.h>

#include "../../kernel.h"
#include "../../store/answer.h"
#include "../../store/cells.h"

struct ir_block;
struct jifl_session;
struct jifl_lock_table;

/* --- lock.c ------------------------------------------------------------------------ */

/* The function that waits: its slow path. */
struct jifl_lock_slow {
	u64 start, end;
	u64 cold, cold_end;	/* the part of it that stands apart, if any */
	u8 type;		/* enum jifl_lock_type */
};

/* That addr is in, or NULL. Any context. */
const struct jifl_lock_slow *jifl_lock_slow_at(u64 addr);

/* --- table.c ------------------------------------------------------------------ */

/* 0, or -EINVAL after one line in the log. Sleeps. */
int jifl_lock_table_init(void);
/* The table of s: as of a struct jifl_tool. */
int jifl_lock_open(struct jifl_session *s, u64 *busy_session);
void jifl_lock_close(struct jifl_session *s);
extern const struct jifl_answer jifl_lock_answer;

struct jifl_lock_name {
	u64 lock, caller, site;
	u64 type;		/* enum jifl_lock_type */
};

struct jifl_lock_cell {
	struct jifl_cell cell;
	struct jifl_lock_name name;	/* does not change once it is published */
	atomic64_t contended, ended;
	atomic64_t wait_ns, max_ns;
};

/* The cell of that name, or the one of all that find no room. Any context but NMI. */
struct jifl_lock_cell *jifl_lock_cell(struct jifl_lock_table *t, const struct jifl_lock_name *name);

/* --- wait.c ------------------------------------------------------------------- */

/* Sleeps. */
void jifl_lock_wait_init(void);

/* A wait that has begun: whose stack pointer was sp where the slow path was entered. */
struct jifl_lock_wait {
	unsigned long sp;	/* 0: none; taken and given back by its own task alone */
	u64 since;		/* ns, ktime_get_mono_fast_ns() */
	struct jifl_lock_cell *cell;
};

#define JIFL_LOCK_WAITS_BITS	12

/* Those of a table, and how many found no room among them. */
struct jifl_lock_waits {
	struct jifl_lock_wait *waits;	/* 1 << JIFL_LOCK_WAITS_BITS */
	atomic64_t untimed;
};

struct jifl_lock_waits *jifl_lock_waits(struct jifl_lock_table *t);

/*
 * Inserted calls, in the context of the code that they are inserted into: any lock may be held.
 * The table's address comes first, as all arguments of such calls are words.
 *
 * At a slow path's entry: its lock, the stack pointer, its struct jifl_lock_slow.
 */
void jifl_lock_begin(struct jifl_lock_table *t, unsigned long lock, unsigned long sp,
		     const struct jifl_lock_slow *slow);
/* Before it is left, with the stack pointer as it was. */
void jifl_lock_end(struct jifl_lock_table *t, unsigned long sp);
/* The cmpxchg at site is tried again, for who is so many calls outside of it. */
void jifl_lock_retry(struct jifl_lock_table *t, unsigned long lock, unsigned long site,
		     unsigned long outer);

#endif
