/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of functions inside the code cache. */
#ifndef JIFL_HOST_NESTED_H
#define JIFL_HOST_NESTED_H

#include <linux/types.h>

struct ir_block;
struct ir_insert;
struct jifl_aim;
struct jifl_facts;
struct jifl_mix;
struct jifl_session;

/*
 * Inserts into b, a block of the mix's context, what counts calls of functions that begin there,
 * and has it ask for sessions whose calls begin there.
 */
void jifl_nested_insert(struct ir_block *b, const struct jifl_mix *m);
/* Do calls of the session's functions begin in copies of others, by changing the context? */
bool jifl_nested_enters(const struct jifl_session *s);
/* Can calls of others begin in copies of this mix? */
bool jifl_nested_holds(const struct jifl_mix *m);
/*
 * Fills what counts the call of the aim's function, or counts it as missed, where the call goes on
 * in the mix's context without being one of the aim's session. False: nothing is known of its
 * calls.
 */
bool jifl_nested_in_place(struct jifl_aim *aim, const struct jifl_mix *m, struct ir_insert *ins);
/*
 * The same at once, of an aim with a condition: whether anything is to be told, which is asked
 * before the call's return is hooked, and then told, when an entry piece follows. Preemption is
 * off.
 */
bool jifl_nested_tells(struct jifl_aim *aim, const struct jifl_mix *m,
		       const struct jifl_facts *facts);
void jifl_nested_tell(struct jifl_aim *aim, const struct jifl_mix *m);

#endif
