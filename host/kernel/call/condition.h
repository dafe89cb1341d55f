/* SPDX-License-Identifier: GPL-2.0 */
/* Conditions on the calls of a function: who calls it, and with which first argument. */
#ifndef JIFL_HOST_CONDITION_H
#define JIFL_HOST_CONDITION_H

#include <linux/types.h>

#include "tool.h"
#include "whose.h"

struct ir_insert;
struct jifl_condition;

/* What conditions look at, where a function begins. */
struct jifl_facts {
	unsigned long caller;		/* the return address, native or in the code cache */
	unsigned long arg0;		/* the first argument */
	/*
	 * What the stub of a function's door has pushed: JIFL_DOOR_REGS, in the order of
	 * JIFL_PUSH_CALL from the last on. NULL: it is not known.
	 */
	const u64 *pushed;
};

/* Of jifl_function_stub, below the address behind the site, which is below the return address. */
enum { JIFL_DOOR_R11, JIFL_DOOR_R9, JIFL_DOOR_R8, JIFL_DOOR_RDI, JIFL_DOOR_RSI, JIFL_DOOR_RDX,
       JIFL_DOOR_RCX, JIFL_DOOR_REGS };

/* Is a condition from user space one? */
bool jifl_condition_is_valid(const struct jifl_condition *c);
/* Have the session's calls a condition that is a program? Else programs are those of places. */
static inline bool jifl_condition_program(const struct jifl_session *s)
{
	return s->programs && s->tool->meant;
}

/* Are not all calls of the aim's target meant? Each call that asks for a piece asks this. */
static inline bool jifl_condition_has(const struct jifl_aim *aim)
{
	return aim->condition || aim->session->under || jifl_condition_program(aim->session);
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
bool jifl_condition_holds(struct jifl_aim *aim, const struct jifl_facts *facts);
/*
 * As jifl_count_nested, for an aim with a condition, which inserted code looks at. counted: calls
 * that are meant are counted, else they are missed.
 */
void jifl_condition_nested(struct jifl_aim *aim, bool counted, struct ir_insert *ins);
/*
 * The same at once, in two steps: whether the call is meant, which the stack tells only before its
 * return is hooked, and then that it has been made. Preemption is off.
 */
bool jifl_condition_is_meant(struct jifl_aim *aim, const struct jifl_facts *facts);
void jifl_condition_tell(struct jifl_aim *aim, bool counted);

#endif
