/* SPDX-License-Identifier: GPL-2.0 */
/* Conditions on the calls of a function: who calls it, and with which first argument. */
#ifndef JIFL_HOST_CONDITION_H
#define JIFL_HOST_CONDITION_H

#include <linux/types.h>

#include "whose.h"

struct ir_insert;
struct jifl_condition;

/* What conditions look at, where a function begins. */
struct jifl_facts {
	unsigned long caller;		/* the return address, native or in the code cache */
	unsigned long arg0;		/* the first argument */
};

/* Is a condition from user space one? */
bool jifl_condition_is_valid(const struct jifl_condition *c);
/* Are not all calls of the aim's target meant? Each call that asks for a piece asks this. */
static inline bool jifl_condition_has(const struct jifl_aim *aim)
{
	return aim->condition || aim->session->under;
}

/* Is the aim's condition, if it has one, about the caller alone? That is known in a call, too. */
static inline bool jifl_condition_lasts(const struct jifl_aim *aim)
{
	return !aim->session->under && !(aim->condition && aim->condition->values);
}
/*
 * Does such a condition hold for a call that is going on, of which `caller` is the return address?
 * Any context; takes no lock.
 */
bool jifl_condition_held(const struct jifl_aim *aim, unsigned long caller);

/* Does the aim's condition, if it has one, hold for a call? Any context; takes no lock. */
bool jifl_condition_holds(const struct jifl_aim *aim, const struct jifl_facts *facts);
/*
 * As jifl_count_nested, for an aim with a condition, which inserted code looks at. counted: calls
 * that are meant are counted, else they are missed.
 */
void jifl_condition_nested(struct jifl_aim *aim, bool counted, struct ir_insert *ins);
/*
 * The same at once, in two steps: whether the call is meant, which the stack tells only before its
 * return is hooked, and then that it has been made. Preemption is off.
 */
bool jifl_condition_is_meant(const struct jifl_aim *aim, const struct jifl_facts *facts);
void jifl_condition_tell(struct jifl_aim *aim, bool counted);

#endif
