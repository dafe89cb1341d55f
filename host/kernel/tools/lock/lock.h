/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits for locks: the interface between the files of the tool lock:
 *   lock.c   inserts calls into slow paths and after cmpxchg
 *   wait.c   the functions that are called there
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

/* A function that waits. */
struct jifl_lock_slow {
	u64 start, end;
	u64 cold, cold_end;	/* its cold part; 0: it has none */
	u8 type;		/* enum jifl_lock_type */
};

/* The function that waits and contains addr, or NULL. Any context. */
const struct jifl_lock_slow *jifl_lock_slow_at(u64 addr);

/* --- table.c ------------------------------------------------------------------ */

/* 0, or -EINVAL after one line in the log. Sleeps. */
int jifl_lock_table_init(void);
/* As open and close of struct jifl_tool. */
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

/* The cell of that name, or the one for all names without room. Any context but NMI. */
struct jifl_lock_cell *jifl_lock_cell(struct jifl_lock_table *t, const struct jifl_lock_name *name);

/* --- wait.c ------------------------------------------------------------------- */

/* Sleeps. */
void jifl_lock_wait_init(void);

/* A wait that has begun, with stack pointer sp at the slow path's entry. */
struct jifl_lock_wait {
	unsigned long sp;	/* 0: free; only who waits takes and frees it */
	u64 since;		/* ns, ktime_get_mono_fast_ns() */
	struct jifl_lock_cell *cell;
};

#define JIFL_LOCK_WAITS_BITS	12

/* The waits of a table, and how many found no room. */
struct jifl_lock_waits {
	struct jifl_lock_wait *waits;	/* 1 << JIFL_LOCK_WAITS_BITS */
	atomic64_t untimed;
};

struct jifl_lock_waits *jifl_lock_waits(struct jifl_lock_table *t);

/*
 * The functions that inserted code calls, in the context of the instrumented code: any lock may be
 * held.
 *
 * At a slow path's entry. sp: the stack pointer there.
 */
void jifl_lock_begin(struct jifl_lock_table *t, unsigned long lock, unsigned long sp,
		     const struct jifl_lock_slow *slow);
/* Before the slow path is left. sp: the stack pointer, which has the same value as at the entry. */
void jifl_lock_end(struct jifl_lock_table *t, unsigned long sp);
/* The cmpxchg at site is tried again, for the function that is `outer` calls outside of it. */
void jifl_lock_retry(struct jifl_lock_table *t, unsigned long lock, unsigned long site,
		     unsigned long outer);

#endif
