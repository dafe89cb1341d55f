/* SPDX-License-Identifier: GPL-2.0 */
/* Functions as targets: their doors, and which functions are refused. */
#ifndef JIFL_HOST_ENTER_FUNCTION_H
#define JIFL_HOST_ENTER_FUNCTION_H

#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

struct jifl_closed;
struct jifl_target;

extern char jifl_function_stub[];	/* run/stubs.S: fentry sites call it, */
extern char jifl_function_stub_counts[]; /* or this, if calls are counted before functions */
extern char jifl_inside_stub[];		/* run/stubs.S: copies call it, see session/nested.c */
extern char jifl_jump_stub[];		/* run/stubs.S: gates of jumps call it */
/* The one that sites call on this machine. */
unsigned long jifl_function_stub_address(void);
/*
 * What stands in the place of a door (door_table.h) that leads to an address; see
 * jifl_target_type.redirect.
 */
u32 jifl_function_place_of(u64 to);
/* Whether the target's door leads straight to this piece. Any context. */
bool jifl_function_leads(const struct jifl_target *t, u64 to);

/*
 * Why the function that begins at this address cannot be a target; JIFL_REFUSED_NO: it can. Process
 * context; sleeps.
 */
enum jifl_refusal jifl_function_refusal(unsigned long begin);
/*
 * Refusals of n functions will be asked for, and have been. A module with many of them may be held
 * between the two. Process context; both sleep.
 */
void jifl_function_expect(u32 n);
void jifl_function_asked(void);
/* Why functions of that name, of the kernel or a module, are refused, if they are. Any context. */
enum jifl_refusal jifl_function_name_refusal(const char *name);
/* What was kept for that goes. Nobody asks any more. */
void jifl_function_refuse_exit(void);
/* The same of a function about which jifl_notrace_may has said no. */
enum jifl_refusal jifl_function_without_door(unsigned long begin);
/*
 * Is a function's name, without the suffixes that compilers append (.isra, .constprop, .part), one
 * of n patterns? A pattern that ends in * stands for all names that begin so. Any context.
 */
bool jifl_function_name_is_among(const char *name, const char *const *patterns, u32 n);
/* The same of the function that begins at this address. Any context, interrupts off. */
bool jifl_function_is_among(unsigned long begin, const char *const *patterns, u32 n);

/* The target entered at address, behind its site; NULL: none. Preemption off, RCU watches. */
struct jifl_target *jifl_function_find(unsigned long address);
/* The target that begins at an original address; NULL: none. Interrupts off, RCU watches. */
struct jifl_target *jifl_function_starting(unsigned long begin);

/*
 * Gives each of the targets, which are functions, a door. 0; -EBUSY: somebody else has the site of
 * targets[*busy]; -ENOMEM. Nothing is attached after an error. Under jifl_session_mutex; sleeps.
 */
int jifl_function_attach(struct jifl_target **targets, u32 n, u32 *busy);
/*
 * Undoes attach for each target, in two steps. When the first returns nobody comes to a door any
 * more that no session has attached, or ftrace keeps them for good. True: the machine was stopped
 * since, and RCU tasks was waited for. Otherwise somebody does that between the two. The second
 * frees what threads at the doors may have used. Under jifl_session_mutex; both sleep.
 */
bool jifl_function_close(struct jifl_target **targets, u32 n, struct jifl_closed *c);
void jifl_function_closed(struct jifl_closed *c);
/* When it returns no thread is at a door that was closed before. */
void jifl_function_wait(void);
/* No function has a door any more: the table of doors may go. jifl_session_mutex. */
void jifl_function_close_doors(void);

#endif
