// SPDX-License-Identifier: GPL-2.0
/*
 * The tool replace. Its session has one target, a function with an fentry site. Calls that match
 * the session's filters go to another function, of a loaded module: the replacement. All other
 * calls run the original.
 *
 * The door is that of all functions (enter/function.c). It leads to the session's gate
 * (text/replaced.c), a few instructions that count the call and jump to the replacement, with
 * registers and stack as the function's caller left them. So the replacement runs natively. If
 * other sessions have the same function, the call goes to an entry piece of all of them, and the
 * replacement runs as a copy with their inserts (session/choose.c).
 *
 * Why this is right:
 *
 * 1. No call runs a mixture of the two functions. A call has run nothing but the beginning up to
 *    the site, an endbr64 and the call of the stub, when the door decides. From there it goes to
 *    the replacement, or behind the site, once.
 * 2. The original stays whole: ftrace changes its site as for other doors, and nobody changes
 *    anything else. Threads that are behind the site when the session starts finish there.
 * 3. Copies, of whatever session, do not run the beginning of the function while the tool is
 *    attached: it is native text (text/replaced.c). Copies from before are dropped when the target
 *    is armed (session/mix.c): that is after the beginning has been hidden. A thread that comes to
 *    the start of such a copy comes to the door. One that is in it has begun its call before: it
 *    goes on in the original. At the end blocks are dropped again, in replace_detach, after the
 *    beginning is shown.
 * 4. The guards of doors hold (enter/guard.c). A call that they let pass runs the original and is
 *    counted as missed.
 * 5. No other call of the session is missed. The gate needs no code cache, no return hook and no
 *    lane: calls go there while the cache is emptied or full, in interrupts too.
 *    A session may have a condition (call/condition.c, 7). Each of its calls asks at the door.
 *    Where the door lets a call pass unasked, it is counted as missed: whether it was meant is not
 *    known.
 * 6. There is one replacement of a function at a time, and no circle: what is to replace a function
 *    is not replaced by it, over however many steps (replace_open, under jifl_session_mutex).
 *
 * What may be freed when, at the end of a session:
 *
 * 7. The session is disarmed. From then on no door leads to the gate, and jifl_choose gives no call
 *    its address. A thread that has the address already is in a stub of the doors, in the code of
 *    jifl_choose_copy with preemption off, or in the gate. None of these sleeps.
 * 8. jifl_evict stops the machine and then waits for RCU tasks. So afterwards no thread has the
 *    address or is in the gate: steps 2 to 4 in the head of enter/function.c say this of stubs, and
 *    the gate is as a stub. Idle tasks do not come to the gate, by 4. The gate is free for another
 *    session (replace_ended).
 * 9. From then on no thread comes to the replacement but by the module's own doing. Those that are
 *    in it stay as long as they like. hold.c keeps the module's text for them.
 */
#include <linux/err.h>
#include <linux/ptrace.h>
#include <linux/slab.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../text/replaced.h"
#include "../../call/condition.h"
#include "../../call/count.h"
#include "../../call/whose.h"
#include "../../enter/target.h"
#include "../../session/session.h"
#include "../probe/act.h"
#include "../tools.h"
#include "replace.h"

/* Such steps from one replacement to the next are looked at: more than there can be. */
#define STEPS_MAX	64

struct replace {
	struct jifl_hold *hold;		/* NULL: not attached */
	struct jifl_replaced *gate;
};

static struct jifl_aim *aim_of(const struct jifl_session *s)
{
	return s->aims[0];
}

/* The aim that replaces the function at begin; NULL: none. Under jifl_session_mutex. */
static const struct jifl_aim *replacing(u64 begin)
{
	struct jifl_session *s = NULL;

	while ((s = jifl_session_next(s)))
		if (s->tool->replaces && aim_of(s)->target->id == begin)
			return aim_of(s);
	return NULL;
}

static enum jifl_refusal refusal(const struct jifl_aim *aim)
{
	const struct jifl_aim *next;
	u64 with = aim->replacement;
	int steps;

	if (replacing(aim->target->id))
		return JIFL_REFUSED_REPLACED;
	for (steps = 0; with != aim->target->id; steps++) {
		next = replacing(with);
		if (!next)
			return JIFL_REFUSED_NO;
		with = next->replacement;
		if (steps == STEPS_MAX)
			break;
	}
	return JIFL_REFUSED_CIRCLE;
}

static int replace_open(struct jifl_session *s, u64 *busy_session)
{
	struct replace *r;

	s->refused = refusal(aim_of(s));
	if (s->refused)
		return -EOPNOTSUPP;
	r = JIFL_ALLOC(kzalloc(sizeof(*r), GFP_KERNEL));
	if (!r)
		return -ENOMEM;
	s->tool_data = r;
	return 0;
}

static void replace_close(struct jifl_session *s)
{
	kfree(s->tool_data);
	s->tool_data = NULL;
}

static int replace_attach(struct jifl_session *s)
{
	struct jifl_aim *aim = aim_of(s);
	const struct jifl_target *t = aim->target;
	struct replace *r = s->tool_data;
	struct jifl_replaced *gate;
	struct jifl_hold *hold;

	hold = jifl_hold_take(s->id, t->id, aim->replacement);
	if (IS_ERR(hold)) {
		s->refused = JIFL_REFUSED_WITH;
		return PTR_ERR(hold) == -ENOENT ? -EOPNOTSUPP : PTR_ERR(hold);
	}
	gate = jifl_replaced_add(t->id, t->address, (unsigned long)aim->counter,
				 aim->replacement);
	if (IS_ERR(gate)) {
		jifl_hold_drop(hold);
		s->refused = JIFL_REFUSED_KERNEL;
		return PTR_ERR(gate);
	}
	r->hold = hold;
	r->gate = gate;
	aim->gate = jifl_replaced_gate(gate);
	return 0;
}

static void replace_detach(struct jifl_session *s)
{
	const struct jifl_target *t = aim_of(s)->target;
	const struct replace *r = s->tool_data;

	jifl_replaced_show(r->gate);
	jifl_engine_invalidate(jifl_orig_at(t->id), t->address - t->id);
}

static void replace_ended(struct jifl_session *s)
{
	struct replace *r = s->tool_data;

	aim_of(s)->gate = 0;
	jifl_replaced_free(r->gate);
	jifl_hold_end(r->hold);
	r->gate = NULL;
	r->hold = NULL;
}

/* As the stub of the door has them: the function has executed nothing but its site. */
static bool replace_meant(struct jifl_aim *aim, const struct jifl_facts *facts)
{
	const u64 *pushed = facts->pushed;
	struct pt_regs regs = {
		.di = pushed[JIFL_DOOR_RDI], .si = pushed[JIFL_DOOR_RSI],
		.dx = pushed[JIFL_DOOR_RDX], .cx = pushed[JIFL_DOOR_RCX],
		.r8 = pushed[JIFL_DOOR_R8], .r9 = pushed[JIFL_DOOR_R9],
		.sp = (unsigned long)(pushed + JIFL_DOOR_REGS + 1),
	};
	bool known;
	const bool holds = jifl_number_holds(aim->session->programs, &regs, &known);

	if (!known)
		jifl_count_miss(aim, JIFL_MISS_UNKNOWN);
	return holds || JIFL_HOST_PLANTED(replaced_always);
}

const struct jifl_tool jifl_tool_replace = {
	.name = "replace",
	.kind = JIFL_KIND_REPLACE,
	.calls = JIFL_CALLS_COUNTED,
	.replaces = true,
	.meant = replace_meant,
	.exit = jifl_hold_exit,
	.open = replace_open,
	.close = replace_close,
	.attach = replace_attach,
	.detach = replace_detach,
	.ended = replace_ended,
	.entry = jifl_count_entry,
};
