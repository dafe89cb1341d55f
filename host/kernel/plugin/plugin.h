/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The internal interface of the files that implement the plugin API, include/jifl.h:
 *   plugin.c   plugins: register, unregister, start, stop
 *   target.c   each target_t, or syscall_t: what plugins instrument
 *   names.c    the functions that a target_t names
 *   call.c     calls of functions: what is done where they begin and end
 *   round.c    calls their callbacks, with handles
 *   tell.c     answers questions about handles
 *   insert.c   puts inserts to their places
 *   want.c     turns arguments into inserts
 *   want_fetch.c    turns arguments that are no constants into fetches
 *   event.c    events: modules, flushes, ends
 *   modules.c  the list of modules for events
 *   store.c    objects that plugins make: heaps, storage of CPUs
 *   task.c     storage of tasks
 *   ring.c     rings of records
 *   queue.c    queues
 *   symbol.c   names of addresses
 *   probe.c    probes: their places, and what they call
 *   exits.c    probes at the returns of a function
 *   group.c    probes start and stop
 *   group_member.c   the session of probes that start at once
 *   mistake.c  logs wrong calls
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

/* Logs a mistake and returns error; what and mistake are static. Any context but NMI. */
int jifl_plugin_mistake(struct jifl_plugin *p, int error, const char *what, const char *mistake);
void jifl_plugin_mistake_exit(void);

/* Soon ends all that p instruments; calls its callbacks no more. Any context but NMI. */
void jifl_plugin_expel(struct jifl_plugin *p);

/* --- events: event.c ----------------------------------------------------------------- */

int jifl_event_init(void);
void jifl_event_exit(void);
/* From here on callbacks of t for events are called. Sleeps. */
void jifl_event_listen(target_t *t);
/* From here on none of these callbacks runs. Sleeps. */
void jifl_event_ignore(target_t *t);
/* As jifl_event_ignore; then calls the callbacks of t for the end. */
void jifl_event_end(target_t *t);
/* As jifl_session_flushed. */
void jifl_plugin_flushed(void);
/* May a function of the API sleep here, and wait for events to end? 0, or a logged mistake. */
int jifl_event_may_sleep(struct jifl_plugin *p, const char *what);

/* --- the kernel's modules: modules.c; all under event.c's mutex ------------------ */

/* Reads the loaded modules, unless the notifier reported them. 0; -errno after a log line. */
int jifl_modules_read(void);
void jifl_modules_forget(void);
/* For the kernel's notifier. */
void jifl_modules_coming(const struct module *mod);
void jifl_modules_going(const struct module *mod);
/* Calls fn for each loaded module, the oldest first. */
void jifl_modules_each(module_callback fn, void *arg);
/* The same, not under the mutex, which it takes; fn must be quick. In event.c. */
void jifl_event_modules(module_callback fn, void *arg);

/* --- objects that plugins make: store.c, task.c, ring.c, queue.c -------------------- */

struct jifl_store_type {
	const char *name;	/* for the log */
	bool single;		/* a plugin has at most one */
	bool outlives;		/* the plugin's stop */
	void (*release)(struct jifl_store *s); /* frees memory; s may be incomplete */
	u64 (*refused)(const struct jifl_store *s); /* NULL: as s says */
};

/* True if p is started, is just starting, or is not stopped yet. In plugin.c. */
bool jifl_plugin_is_started(const struct jifl_plugin *p);

/* Zeroed memory, or NULL. vfree() frees it. Sleeps. */
void *jifl_store_alloc(size_t size);
/* check: p may make s; NULL: any. check_made: p may use s. 0, or a logged mistake. */
int jifl_store_check(struct jifl_plugin *p, const struct jifl_store *s, const char *what);
int jifl_store_check_made(struct jifl_plugin *p, const struct jifl_store *s, const char *what);
/* From here on p owns s, and its type says how to release it. 0, or a logged mistake. */
int jifl_store_add(struct jifl_plugin *p, struct jifl_store *s, const struct jifl_store_type *type,
		   const char *what);
void jifl_store_remove(struct jifl_store *s);
/* NULL: p has none. Under jifl_plugin_mutex the result stays valid. */
struct jifl_store *jifl_store_find(struct jifl_plugin *p, const struct jifl_store_type *type);
/* Logs how often objects had no room. Under jifl_plugin_mutex. */
void jifl_store_log_refused(struct jifl_plugin *p);
/* Frees p's objects: all, or those that do not outlive its stop. Under jifl_plugin_mutex. */
void jifl_store_release(struct jifl_plugin *p, bool all);

/* Finds the tracepoint that the storage of tasks needs. */
void jifl_task_init(void);
/* JIFL_IOC_PLUGIN_READ for p. Under jifl_plugin_mutex. */
int jifl_plugin_ring_read(struct jifl_plugin *p, struct jifl_plugin_read *req);

/* The place of an insertion, which decides which values exist. */
enum jifl_want_at {
	JIFL_AT_ENTRY,		/* of a system call */
	JIFL_AT_EXIT,		/* of a system call, or of a function */
	JIFL_AT_CALL,		/* where a call of a function begins */
	JIFL_AT_ROUTINE,	/* its beginning */
	JIFL_AT_RETURN,		/* its return, or its jump to another */
	JIFL_AT_CODE,
};

/* Ends all instrumentation that the plugin itself did not end. Sleeps. In target.c. */
void jifl_plugin_end_targets(struct jifl_plugin *p);

/* At load. In call.c, as the next ones. */
void jifl_calls_init(void);
/* Why a function cannot be entered. */
const char *jifl_plugin_refusal(enum jifl_refusal why);
/* The cache is empty: asks anew what is done where calls end. Under jifl_session_mutex. */
void jifl_plugin_calls_flushed(void);

/* --- probes: probe.c, exits.c, group.c ------------------------------------------------------ */

/* What a probe_t has for the module. */
struct jifl_probe_call;
struct jifl_probe_call *jifl_plugin_probe_call(probe_t *probe);
/* The function, or the cold part of one, that contains the address; false: none does. */
bool jifl_plugin_probe_range(unsigned long address, unsigned long *begin, unsigned long *end);
/* Is the code there what the compiler has put aside of a function? */
bool jifl_plugin_probe_is_cold(unsigned long begin);
/* Where the kernel's function of this name begins; 0, which is logged: there is none. */
unsigned long jifl_plugin_probe_named(const struct jifl_plugin *p, const char *function,
				      const char *what);
/* A mistake about a probe: logs it with its place, and returns error. Process context. */
int jifl_plugin_probe_mistake(const probe_t *probe, int error, const char *what,
			      const char *mistake);
/*
 * Each function of the API on probes begins with this. 0, with the probes' mutex held, or a logged
 * mistake. leave gives ret back.
 */
int jifl_plugin_probe_enter(struct jifl_plugin *p, const probe_t *probe, const char *what);
int jifl_plugin_probe_leave(int ret);
/* Takes the mutex alone. */
void jifl_plugin_probe_lock(void);
/* At load. */
void jifl_group_init(void);
/* Stops all probes that the plugin itself did not stop. Sleeps. */
void jifl_plugin_end_probes(struct jifl_plugin *p);
void jifl_plugin_probe_exit(void);

/* --- rounds of callbacks: round.c ------------------------------------------------ */

/* What a plugin's sessions do: those about system calls, and those about functions (call.c). */
extern const struct jifl_tool jifl_plugin_tool;
extern struct jifl_tool jifl_plugin_calls_tool;

/* Insertions at the entry or the exit of a target, of one target_t. */
#define JIFL_POINT_INSERTS	4

/* As jifl_tool.instrument, of both. */
void jifl_plugin_instrument(struct ir_block *b, void *arg);
/*
 * Calls the callbacks for the entry or the exit of the aim's target. inserts: room for
 * JIFL_POINT_INSERTS. Returns how many there are. Under jifl_entry_lock.
 */
u32 jifl_plugin_point(const struct jifl_aim *aim, enum jifl_callback_kind kind,
		      struct ir_insert *inserts);

enum jifl_handle {
	JIFL_HANDLE_POINT = 1,
	JIFL_HANDLE_ROUTINE,
	JIFL_HANDLE_BB,
	JIFL_HANDLE_INS,
};

/* The subject of the callbacks that run on this CPU. Interrupts are off. */
struct jifl_round {
	struct jifl_plugin *plugin;	/* NULL: no callback runs */
	u64 number;
	target_t *of;
	struct ir_block *block;		/* routine, bb, ins */
	struct jifl_way_out out;	/* routine: how the block leaves it */
	bool enters;			/* routine: it begins with the block */
	u64 routine;			/* routine: address of its beginning */
	struct ir_insert *inserts;	/* entry, exit */
	u32 ninserts;
	u32 refused;			/* inserts that had no room */
	const struct jifl_target *target; /* entry, exit */
	enum jifl_callback_kind kind;	/* ENTRY or EXIT, if inserts is set */
};

DECLARE_PER_CPU(struct jifl_round, jifl_round);

/* A handle of r, which is this CPU's round. */
void *jifl_round_handle(const struct jifl_round *r, enum jifl_handle kind, u32 index);
u32 jifl_round_index(const void *handle);
/*
 * The address of a handle's routine, even if the handle's round is over; 0, and a line in the log,
 * if it is no handle of a routine. Any context but NMI.
 */
unsigned long jifl_round_routine(struct jifl_plugin *p, const void *handle, const char *what);
/* The round of a handle; NULL, and a line in the log, if the round is over. */
struct jifl_round *jifl_round_of(struct jifl_plugin *p, const void *handle,
				     enum jifl_handle kind, const char *what);

/* --- what is inserted: want.c, want_fetch.c ------------------------------------- */

/* An insertion that a plugin asks for, and the function of the API that it calls. */
struct jifl_wanted {
	struct jifl_plugin *plugin;
	const char *what;
	enum jifl_want_at at;
	enum ir_place place;
	const struct ir_insn *insn; /* its instruction; NULL: it has none */
	u64 address;		/* of its instruction, routine or function; 0: none */
	int nr;			/* the system call, -1: one of several; or a function */
	bool functions;		/* it is about functions, not about system calls */
	bool after;		/* it reads registers after the instruction */
	bool needs_return;	/* it reads a routine's return value */
	/* Arguments that tell which way a branch goes: inserted on both edges, 0 if not taken. */
	u8 taken;
	struct ir_insert ins;	/* without its place */
	const char **mistake;	/* where a mistake is told; NULL: in the log */
};

/* False: the value does not exist. In want.c. */
bool jifl_want_source(enum jifl_want_at at, int value, struct ir_source *s);

/* Sets argument i of w->ins; value: of ARG_REG. NULL, or what is wrong. In want_fetch.c. */
const char *jifl_want_fetch(struct jifl_wanted *w, u32 i, int type, int value);

/* Fill w->ins from the arguments in ap; 0, or a mistake. */
int jifl_want_call(struct jifl_wanted *w, const void *fn, va_list ap);
int jifl_want_hist(struct jifl_wanted *w, const hist_t *hist, int value, va_list ap);

#endif
