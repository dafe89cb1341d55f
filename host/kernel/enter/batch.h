/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions whose doors come and go together, as one ftrace_ops. Everything here is under
 * jifl_session_mutex and sleeps.
 */
#ifndef JIFL_HOST_ENTER_BATCH_H
#define JIFL_HOST_ENTER_BATCH_H

#include <linux/ftrace.h>
#include <linux/list.h>
#include <linux/types.h>

struct jifl_target;

struct jifl_function_batch {
	struct list_head list;		/* of batches that are about to go */
	struct ftrace_ops ops;
	u32 used;			/* targets with users */
	u32 n;
	struct jifl_target *targets[];	/* references */
};

/* A batch of those of n targets that are in none. NULL without memory. */
struct jifl_function_batch *jifl_batch_make(struct jifl_target **targets, u32 n);
/* Frees one that was made, and has no doors at sites. */
void jifl_batch_drop(struct jifl_function_batch *b);
/*
 * Gives its targets places in the table of doors. These lead to the functions themselves until a
 * session is armed. 0; -ENOMEM.
 */
int jifl_batch_take_doors(const struct jifl_function_batch *b);
/* Attaches its first n targets. 0; -EBUSY: somebody else has one of the sites; -ENOMEM. */
int jifl_batch_register(struct jifl_function_batch *b, u32 n);
/*
 * Undoes it. False: ftrace has not given the sites back, and the batch must stay. *waited: ftrace
 * has waited for RCU tasks since.
 */
bool jifl_batch_unregister(struct jifl_function_batch *b, bool *waited);
/*
 * The target whose site somebody else has: the first without which the others can be attached.
 * *kept: the batch must stay.
 */
u32 jifl_batch_find_busy(struct jifl_function_batch *b, bool *kept);
/* Whether a site of it calls the stub. */
bool jifl_batch_has_site(const struct jifl_function_batch *b);
/*
 * ftrace has met an error of its own and has left sites that lead to the stub. So the module, the
 * table of doors, the batch with its ftrace_ops, and the batch's targets stay until the next boot.
 */
void jifl_batch_keep_for_good(const struct jifl_function_batch *b, int err);
/* It has its doors: it takes its references. */
void jifl_batch_keep(struct jifl_function_batch *b);
/*
 * Of batches that were unregistered before: nothing that ran with preemption off, and nothing in an
 * interrupt or an idle task, is at a door of theirs; and no thread is. Steps 1 to 4 in the head of
 * function.c.
 */
void jifl_batch_stop(void);
void jifl_batch_wait(void);
/* Frees one that was kept. No thread is at its doors. */
void jifl_batch_free(struct jifl_function_batch *b);
/* Has any batch doors? */
bool jifl_batch_any(void);

#endif
