/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Targets: the places at which threads can enter the code cache. The whole module has one struct
 * for a target, even if several sessions instrument it.
 *
 *   target.c	targets come and go
 *   entry.c	the kind JIFL_TARGET_SYSCALL, and its door
 *   function.c	the kind JIFL_TARGET_FUNCTION, and its doors
 *   notrace.c	the kind JIFL_TARGET_NOTRACE: functions that are entered by jumps
 *
 * A kind is a struct jifl_target_type. A kind that is added later brings its own door; nothing
 * else in the module knows how a target is entered.
 */
#ifndef JIFL_HOST_TARGET_H
#define JIFL_HOST_TARGET_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include <asm/text-patching.h>
#include "../../../include/uapi/jifl.h"
#include "../store/percpu.h"

struct jifl_aim;
struct jifl_function_batch;
struct jifl_jump;
struct jifl_jumps_looked;
struct module;

/* A function in a request that has no site, or whose site somebody else has; see notrace.c. */
#define JIFL_TARGET_NOTRACE	3
/* A function that is not entered through a door, of one session alone; see notrace.c. */
#define JIFL_TARGET_INSIDE	4

struct jifl_target {
	refcount_t refs;		/* one for each aim */
	u32 kind;			/* enum jifl_target_kind */
	/* Within its kind. SYSCALL: the number; else the address where the function begins. */
	u64 id;
	/*
	 * Of the code that is entered. SYSCALL: the handler; FUNCTION: behind its fentry site;
	 * INSIDE: the function's first instruction, behind an endbr64; NOTRACE: the same, or
	 * behind its fentry site, if it has one.
	 */
	u64 address;
	bool ends_task;			/* a task may end in it instead of returning from it */
	u64 list;			/* aim.c's mark; jifl_session_mutex */
	/*
	 * These are written under jifl_entry_lock. Code that enters the target reads them without a
	 * lock. The head of session/mix.c says why that code never finds freed memory.
	 */
	struct jifl_aim *armed[JIFL_LANES];
	u32 lanes;			/* bit n: armed[n] is set; a reader may find either first */
	struct hlist_head ways;		/* struct jifl_way, of several sessions */

	/* FUNCTION, NOTRACE and INSIDE */
	struct hlist_node node;		/* in the kind's hash table */
	struct module *module;		/* a reference; NULL: the kernel's own text */

	/* FUNCTION: its batch; NOTRACE, INSIDE: its jump. NULL: no door; jifl_session_mutex */
	struct jifl_function_batch *batch;
	struct jifl_jump *jump;
	u32 *door;			/* NULL: calls always ask C code; jifl_session_mutex */
	u32 users;			/* sessions that have it attached; jifl_session_mutex */
	struct rcu_head rcu;
};

/* Doors that were closed, until no thread is at them. */
struct jifl_closed {
	struct list_head batches;
	u32 targets;			/* those that have lost a jump, first in their list */
	u32 jumps;			/* of these jumps those that are gone, first in theirs */
};

struct jifl_target_type {
	/* Address of the code of target `id`; 0: this kernel has none. */
	u64 (*address)(u64 id);
	/*
	 * The kind's target `id`, whose code is at address; NULL: there is none. Under target.c's
	 * mutex, as these are.
	 */
	struct jifl_target *(*find)(u64 id, u64 address);
	/*
	 * Keeps a target that is filled, and gives it up. add: 0; -ENOENT: its module is going;
	 * -EBUSY: the function is a target of another kind. drop frees it.
	 */
	int (*add)(struct jifl_target *t);
	void (*drop)(struct jifl_target *t);
	/*
	 * Has the door lead to `to`: an entry piece, or the code that asks session/choose.c. 0: the
	 * target runs natively. Under jifl_entry_lock.
	 */
	void (*redirect)(const struct jifl_target *t, u64 to);
};

extern const struct jifl_target_type jifl_target_syscalls;	/* entry.c */
extern const struct jifl_target_type jifl_target_functions;	/* function.c */
extern const struct jifl_target_type jifl_target_notrace;	/* notrace.c */
extern const struct jifl_target_type jifl_target_inside;	/* notrace.c */

/*
 * The target of the kind NOTRACE that begins at an address; NULL: none. Interrupts off, RCU
 * watches.
 */
struct jifl_target *jifl_notrace_starting(unsigned long begin);
/* The same by the address that is entered: behind its endbr64 and its site. */
struct jifl_target *jifl_notrace_entered_at(unsigned long address);
/* The target whose calls come from a gate, by the address in it. As jifl_function_find. */
struct jifl_target *jifl_notrace_find(unsigned long door);
/*
 * Gives each of the n targets, NOTRACE and INSIDE, a door if it can have one: calls do not depend
 * on it. looked: of jifl_notrace_may for the same targets, which have been held since; or NULL. 0;
 * -ENOMEM: nothing is attached. Both under jifl_session_mutex; they sleep.
 */
int jifl_notrace_attach(struct jifl_target **targets, u32 n,
			const struct jifl_jumps_looked *looked);
/*
 * Of n functions of the kind NOTRACE, may[i] says whether one has or could have a door by which
 * calls come, and nothing else. *looked: what was learned, if it is not NULL; kvfree frees it. 0;
 * -ENOMEM. Sleeps.
 */
int jifl_notrace_may(const unsigned long *functions, u32 n, bool *may,
		     struct jifl_jumps_looked **looked);
/*
 * As jifl_function_close and jifl_function_closed. jumps: room for n. Both lists stay as the first
 * leaves them.
 */
void jifl_notrace_close(struct jifl_target **targets, struct jifl_jump **jumps, u32 n,
			struct jifl_closed *c);
void jifl_notrace_closed(struct jifl_target **targets, struct jifl_jump **jumps,
			 const struct jifl_closed *c);
/* Has any such target a door? jifl_session_mutex. */
bool jifl_notrace_has_doors(void);
/* May the function that begins there be called between an int3 exception and its handlers? */
bool jifl_notrace_is_met_by_int3(unsigned long begin);

/*
 * Bytes from where a function begins to the code that is entered: its endbr64, if it has one, and
 * its site. 0 of a system call.
 */
static inline u32 jifl_target_skipped(const struct jifl_target *t)
{
	return t->kind == JIFL_TARGET_SYSCALL ? 0 : t->address - t->id;
}

/* Those of them that are its site's; 0: it has none, or it is not skipped. */
static inline u32 jifl_target_site_bytes(const struct jifl_target *t)
{
	return jifl_target_skipped(t) < CALL_INSN_SIZE ? 0 : CALL_INSN_SIZE;
}

/* The target of any kind but SYSCALL and INSIDE that begins at an original address; as above. */
struct jifl_target *jifl_target_starting(unsigned long begin);

/* The one that has an fentry site at this address, behind an endbr64; NULL: none. As above. */
struct jifl_target *jifl_target_with_site(unsigned long site);

/* True if a request may have the kind. */
bool jifl_target_is_kind(u32 kind);
/* Address of the code of target `id` of an existing kind; 0: this kernel has none. */
u64 jifl_target_address(u32 kind, u64 id);
/*
 * Returns a reference to a target, which is made if it does not exist. NULL: this kernel has no
 * such target; ERR_PTR(-ENOMEM), or what `add` returns. Sleeps.
 */
struct jifl_target *jifl_target_get(u32 kind, u64 id);
/* Gives t back. No session that had t armed runs any more, and jifl_evict returned. Sleeps. */
void jifl_target_put(struct jifl_target *t);
/* As jifl_target_type.redirect. */
void jifl_target_redirect(const struct jifl_target *t, u64 to);

#endif
