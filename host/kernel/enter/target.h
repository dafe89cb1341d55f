/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Targets: what the code cache can be entered at. A target is one for the whole module,
 * however many sessions are about it.
 *
 *   target.c	targets come and go
 *   syscall.c	the kind JIFL_TARGET_SYSCALL, and its door
 *
 * A kind is a struct jifl_target_type. A kind that is added later brings its own door; nothing
 * else in the module knows how a target is entered.
 */
#ifndef JIFL_HOST_TARGET_H
#define JIFL_HOST_TARGET_H

#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"
#include "../store/percpu.h"

struct jifl_aim;

struct jifl_target {
	refcount_t refs;		/* one for each aim */
	u32 kind;			/* enum jifl_target_kind */
	u64 id;				/* in its kind; SYSCALL: the number */
	u64 address;			/* of the code that is entered; SYSCALL: the handler */
	u64 list;			/* aim.c's mark; jifl_session_mutex */
	/*
	 * Both are written under jifl_entry_lock and read without it where the target is
	 * entered. The head of session/mix.c says why what is found there is not freed.
	 */
	struct jifl_aim *armed[JIFL_LANES];
	struct hlist_head ways;		/* struct jifl_way, of several sessions */
};

struct jifl_target_type {
	/* Address of the code of target `id`; 0: this kernel has none. */
	u64 (*address)(u64 id);
	/* Where the kind keeps the pointer to its target `id`, for which there is an address. */
	struct jifl_target **(*place)(u64 id);
	/*
	 * From here on the door leads to `to`: an entry piece, or the code that asks
	 * session/choose.c. 0: the target runs natively. Under jifl_entry_lock.
	 */
	void (*lead)(const struct jifl_target *t, u64 to);
};

/* syscall.c */
extern const struct jifl_target_type jifl_target_syscalls;

/* Is there such a kind? */
bool jifl_target_is_kind(u32 kind);
/* Of a target of such a kind: where its code is; 0: this kernel has none. */
u64 jifl_target_address(u32 kind, u64 id);
/*
 * Brings a reference to a target, which is made if need be. NULL: this kernel has no such
 * target; ERR_PTR(-ENOMEM). Sleeps.
 */
struct jifl_target *jifl_target_get(u32 kind, u64 id);
/* Gives it back. No session that had t armed runs, and jifl_evict has returned. Sleeps. */
void jifl_target_put(struct jifl_target *t);
/* As jifl_target_type.lead. */
void jifl_target_lead(const struct jifl_target *t, u64 to);
/* May a task not return from it, as it ends there? */
bool jifl_target_ends_task(const struct jifl_target *t);

#endif
