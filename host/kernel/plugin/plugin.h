/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the plugin API, include/jifl.h, know of each other:
 *   plugin.c          plugins: come, go, start, stop
 *   syscall.c  what they instrument, each syscall_t
 *   round.c    their callbacks are called, with handles
 *   tell.c     what handles tell
 *   insert.c   what is inserted through handles
 *   want.c     what they ask to have inserted
 *   lookup.c   ... with which arguments, where these are no constants
 *   event.c    events: modules, flushes, ends
 *   modules.c  ... of which modules there are
 *   store.c    what they have made: heaps, storage of CPUs
 *   task.c     ... storage of tasks
 *   ring.c     ... rings of records
 *   queue.c    ... queues
 *   symbol.c   names of addresses
 *   mistake.c  what is said of wrong calls
 */
#ifndef JIFL_HOST_PLUGIN_H
#define JIFL_HOST_PLUGIN_H

#define JIFL_HOST

#include <linux/stdarg.h>

#include "../kernel.h"
#include "../call/count.h"
#include "../call/tool.h"
#include "../session/session.h"
#include "../text/routine.h"
#include "../../../include/jifl.h"

/* Says what is wrong and gives error back; what and mistake stay. Any context but NMI. */
int jifl_plugin_mistake(struct jifl_plugin *p, int error, const char *what, const char *mistake);
void jifl_plugin_mistake_exit(void);

/* Ends all that p instruments, soon; its callbacks are not called any more. Likewise. */
void jifl_plugin_expel(struct jifl_plugin *p);

/* --- events: event.c ----------------------------------------------------------------- */

int jifl_event_init(void);
void jifl_event_exit(void);
/* From here on s is told of them. Sleeps. */
void jifl_event_listen(syscall_t *s);
/* ... and no more, and no callback of its events runs. Sleeps. */
void jifl_event_ignore(syscall_t *s);
/* The same, and its callbacks for the end are called. */
void jifl_event_end(syscall_t *s);
/* As jifl_session_flushed. */
void jifl_plugin_flushed(void);
/* Is this the callback of an event? */
bool jifl_event_runs_here(void);

/* --- the kernel's modules: modules.c; all under event.c's mutex ------------------ */

/* Reads which there are, but for those of whose coming it has been told. 0 or -errno after a line in the log. */
int jifl_modules_read(void);
void jifl_modules_forget(void);
/* The kernel's notifier says so. */
void jifl_modules_coming(const struct module *mod);
void jifl_modules_going(const struct module *mod);
/* Calls fn for each that there is, the oldest first. */
void jifl_modules_each(module_callback fn, void *arg);

/* --- what plugins have made: store.c, task.c, ring.c, queue.c ----------------------- */

struct jifl_store_type {
	const char *name;	/* for the log */
	bool single;		/* a plugin has one at most */
	bool outlives;		/* the plugin's stop */
	void (*release)(struct jifl_store *s); /* what has been allocated, in part perhaps */
	u64 (*refused)(const struct jifl_store *s); /* NULL: as s says */
};

/* Is p, or is it about to be, or not yet stopped? plugin.c */
bool jifl_plugin_is_started(const struct jifl_plugin *p);

/* Zeroed; NULL. Freed by vfree(). Sleeps. */
void *jifl_store_alloc(size_t size);
/* May p make s, NULL for none, or use what it has made? 0, or a mistake, which has been told. */
int jifl_store_check(struct jifl_plugin *p, const struct jifl_store *s, const char *what);
int jifl_store_check_made(struct jifl_plugin *p, const struct jifl_store *s, const char *what);
/* From here on s is p's; 0 or a mistake, likewise. Its type says how to release it. */
int jifl_store_add(struct jifl_plugin *p, struct jifl_store *s, const struct jifl_store_type *type,
		   const char *what);
void jifl_store_remove(struct jifl_store *s);
/* NULL: p has none. Under jifl_plugin_mutex it stays. */
struct jifl_store *jifl_store_find(struct jifl_plugin *p, const struct jifl_store_type *type);
/* Says in the log what found no room. Under jifl_plugin_mutex. */
void jifl_store_log_refused(struct jifl_plugin *p);
/* Frees all that p has made; or what does not outlive its stop. Likewise. */
void jifl_store_release(struct jifl_plugin *p, bool all);

/* Looks for what the storage of tasks needs of the kernel. */
void jifl_task_init(void);
/* JIFL_IOC_PLUGIN_READ, of p. Under jifl_plugin_mutex. */
int jifl_plugin_ring_read(struct jifl_plugin *p, struct jifl_plugin_read *req);

/* Where something is to be inserted: that decides which values are there. */
enum jifl_want_at {
	JIFL_AT_ENTRY,		/* of a system call */
	JIFL_AT_EXIT,
	JIFL_AT_ROUTINE,	/* where one begins */
	JIFL_AT_RETURN,		/* ... and returns, or jumps to another */
	JIFL_AT_CODE,
};

/* Ends what the plugin itself did not: all that it instruments. Sleeps. syscall.c */
void jifl_plugin_end_syscalls(struct jifl_plugin *p);

/* --- rounds of callbacks: round.c ------------------------------------------------ */

/* What a plugin's sessions do. */
extern const struct jifl_tool jifl_plugin_tool;

enum jifl_handle {
	JIFL_HANDLE_POINT = 1,
	JIFL_HANDLE_ROUTINE,
	JIFL_HANDLE_BB,
	JIFL_HANDLE_INS,
};

/* What the callbacks that run on this CPU are about. Interrupts are off. */
struct jifl_round {
	struct jifl_plugin *plugin;	/* NULL: no callback runs */
	u64 number;
	syscall_t *syscall;
	struct ir_block *block;		/* routine, bb, ins */
	struct jifl_way_out out;	/* routine: how the block leaves it */
	bool enters;			/* routine: it begins with the block */
	u64 routine;			/* ... where it begins */
	struct ir_insert *inserts;	/* entry, exit */
	u32 ninserts;
	u32 refused;			/* inserts, for want of room */
	const struct jifl_target *target; /* entry, exit */
	enum jifl_callback_kind kind;	/* ENTRY or EXIT, where inserts is set */
};

DECLARE_PER_CPU(struct jifl_round, jifl_round);

/* A handle of the round, which is this CPU's. */
void *jifl_handle(const struct jifl_round *r, enum jifl_handle kind, u32 index);
u32 jifl_handle_index(const void *handle);
/* Where the routine begins that the handle is of, be its round over or not; 0 and a line likewise. Any context but NMI. */
unsigned long jifl_handle_routine(struct jifl_plugin *p, const void *handle, const char *what);
/* The round that the handle is of, NULL and a line in the log if it is over. */
struct jifl_round *jifl_handle_round(struct jifl_plugin *p, const void *handle,
				     enum jifl_handle kind, const char *what);

/* --- what is inserted: want.c, lookup.c ------------------------------------- */

/* What a plugin wants inserted, and which function of the API it asks. */
struct jifl_wanted {
	struct jifl_plugin *plugin;
	const char *what;
	enum jifl_want_at at;
	enum ir_place place;
	const struct ir_insn *insn; /* where it goes, NULL: to no instruction's */
	u64 address;		/* of what it goes to, 0: of none */
	int nr;			/* the system call, -1: one of several */
	bool after;		/* registers are those behind the instruction */
	bool needs_return;	/* looks at what a routine returns */
	/* Arguments that say which way a branch goes: done on both edges, 0 where not taken. */
	u8 taken;
	struct ir_insert ins;	/* without its place */
};

/* False: there is no such value. want.c */
bool jifl_value_source(enum jifl_want_at at, int value, struct ir_source *s);

/* Argument i of w->ins; value: ARG_REG's. NULL, or what is wrong. lookup.c */
const char *jifl_want_fetch(struct jifl_wanted *w, u32 i, int type, int value);

/* Fill w->ins from what follows in ap; 0, or a mistake, which has been told. */
int jifl_want_call(struct jifl_wanted *w, const void *fn, va_list ap);
int jifl_want_hist(struct jifl_wanted *w, const hist_t *hist, int value, va_list ap);

#endif
