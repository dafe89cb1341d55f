/* SPDX-License-Identifier: GPL-2.0 */
/* Places whose executions call functions: for plugins, and for the tool times. */
#ifndef JIFL_HOST_PROBE_CALLS_H
#define JIFL_HOST_PROBE_CALLS_H

#include <linux/types.h>
#include "../../../../engine/engine.h"

struct jifl_session;
struct jifl_tool;

/* What is called at a place. It does not change from the session's start to its end. */
struct jifl_probe_call {
	struct ir_insn insn;		/* the place's instruction, as copies have it */
	struct ir_insert insert;	/* without its place in a block */
	u8 taken;			/* these arguments are 1 if the branch is taken, else 0 */
	u64 fn;				/* guarded: what the insert's function calls; else 0 */
	/* What the handler of a breakpoint does instead, in any context; NULL: it calls fn. */
	void (*natively)(const struct jifl_probe_call *call);
};

/* Decodes the instruction there, as copies have it. false: there is none. Any context but NMI. */
bool jifl_probe_decode(unsigned long address, struct ir_insn *insn);

/*
 * Before the start: a function that is not inlined is called with a guard from then on. -E2BIG: it
 * has no argument to spare. Any context but NMI.
 */
int jifl_probe_guard(struct jifl_probe_call *call);

/*
 * The tool of such sessions, without its kind. Until a session is started, s->tool_data points to
 * the calls of s->splices, in their order.
 */
extern const struct jifl_tool jifl_tool_probe_calls;

/*
 * Lifts the places whose index `goes` confirms. When it returns no new copy has their calls, and no
 * breakpoint stands for them. With wait, their functions do not run any more, either. The session
 * runs. Takes jifl_session_mutex; sleeps.
 */
void jifl_probe_lift(struct jifl_session *s, bool (*goes)(void *arg, u32 index), void *arg,
		     bool wait);
/*
 * Why some executions of a place may not have called the function; NULL: none is known. *missed:
 * how many; 0: nobody has counted. The session runs, or has run. Takes jifl_session_mutex.
 */
const char *jifl_probe_loss(const struct jifl_session *s, u32 index, u64 *missed);
/* Executions of a place, natively, for which the function was not called. The session runs. */
u64 jifl_probe_uncalled(const struct jifl_session *s, u32 index);

#endif
