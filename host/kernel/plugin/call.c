// SPDX-License-Identifier: GPL-2.0
/*
 * The tool of plugins' sessions that are about functions: what is done where calls of these begin
 * and end.
 *
 * Calls are followed (call/count.c), also if nothing is to be done at their ends. The lane of a
 * call tells that one runs. So a function that the plugin's own function calls, and that the
 * session has as a target, runs natively. If the call was given up (the text has changed, or there
 * was no room for what is saved of it), such a function begins one more call, and no third: that
 * one has the lane. Nothing recurses without end.
 *
 * A call begins in an entry piece, as a system call does. It ends in the hook of its return, in C
 * code. So what callbacks insert at exits is not translated, but kept for each function, and done
 * there:
 *
 * 1. It is made when the session is about to be armed, and anew when the cache was emptied: from
 *    then on a plugin may use its heap again, and what was kept points into it. In both cases no
 *    lane has a call of the session, and none can begin: the session has no calls yet, or
 *    jifl_switch_sweep has cleared all lanes and sessions pause. jifl_session_mutex is held.
 * 2. Whoever reads it has found the call in its lane. So it was not swept, and the session is not
 *    freed: lanes are swept with the machine stopped, and the hook runs with interrupts off from
 *    the look at the lane on.
 * 3. Doors let calls pass that are made there: the hook runs as code of the module.
 *
 * Context: attach and flush: process, under jifl_session_mutex. Ends: interrupts off, any lock may
 * be held.
 */
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "../kernel.h"
#include "../plant.h"
#include "../enter/entry.h"
#include "../session/session.h"
#include "plugin.h"

/* Behind those that store the call's identity. */
#define JIFL_CALLS_STORES	2
static_assert(JIFL_CALLS_STORES + JIFL_POINT_INSERTS <= JIFL_ENTRY_INSERTS);

/* What is done where calls of one function end; t->ends has one for each target of the session. */
struct jifl_plugin_end {
	u32 n;
	struct ir_insert inserts[JIFL_POINT_INSERTS];
};

const char *jifl_plugin_refusal(enum jifl_refusal why)
{
	static const char *const texts[] = {
#define TEXT(id, text) text,
		JIFL_REFUSALS(TEXT)
#undef TEXT
	};

	return texts[why];
}

/* --- making it ---------------------------------------------------------------------------- */

/* Callbacks for points run under jifl_entry_lock, as those where a piece is made do. */
static void jifl_calls_make_ends(struct jifl_session *s)
{
	const target_t *t = s->tool_data;
	struct jifl_aim *aim;
	unsigned long flags;
	u32 i;

	lockdep_assert_held(&jifl_session_mutex);
	for_each_aim(aim, s, i) {
		struct jifl_plugin_end *end = &t->ends[i];

		flags = jifl_entry_lock();
		end->n = jifl_plugin_point(aim, JIFL_CALLBACK_EXIT, end->inserts);
		jifl_entry_unlock(flags);
		cond_resched();
	}
}

static int jifl_calls_attach(struct jifl_session *s)
{
	target_t *t = s->tool_data;

	if (!t->ncallbacks[JIFL_CALLBACK_EXIT])
		return 0;
	t->ends = JIFL_ALLOC(kvcalloc(s->ntargets, sizeof(*t->ends), GFP_KERNEL));
	if (!t->ends)
		return -ENOMEM;
	jifl_calls_make_ends(s);
	return 0;
}

static void jifl_calls_close(struct jifl_session *s)
{
	target_t *t = s->tool_data;

	kvfree(t->ends);
	t->ends = NULL;
}

void jifl_plugin_calls_flushed(void)
{
	struct jifl_session *s = NULL;

	while ((s = jifl_session_next(s)))
		if (s->tool == &jifl_plugin_calls_tool && ((target_t *)s->tool_data)->ends &&
		    !JIFL_HOST_PLANTED(ends_kept))
			jifl_calls_make_ends(s);
}

/* --- doing it ------------------------------------------------------------------------------ */

static u64 jifl_end_argument(const struct ir_insert *ins, u32 i, u64 result)
{
	if (!(ins->fetched & BIT(i)))
		return ins->args[i];
	switch (ins->fetches[i].how) {
	case IR_FETCH_REG32:
		return (u32)result;
	case IR_FETCH_CELL:
		return (unsigned long)current;
	default:
		return result;
	}
}

static void jifl_end_do(const struct ir_insert *ins, u64 result)
{
	void (*fn)(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f);
	u64 args[IR_CALL_ARGS] = {};
	u64 value;
	u32 i;

	if ((ins->when.width == 8 && result != ins->equals) ||
	    (ins->when.width == 4 && (u32)result != (u32)ins->equals))
		return;
	if (ins->kind == IR_INSERT_HIST) {
		value = ins->value.width == 4 ? (u32)result : result;
		this_cpu_inc(((u64 __percpu *)(long)ins->cell.disp)[min_t(u32, fls64(value),
									  ins->buckets - 1)]);
		return;
	}
	for (i = 0; i < ins->nargs; i++)
		args[i] = jifl_end_argument(ins, i, result);
	fn = (void *)(unsigned long)ins->fn;
	fn(args[0], args[1], args[2], args[3], args[4], args[5]);
}

static void jifl_calls_end(const struct jifl_aim *aim, u64 result)
{
	const target_t *t = aim->session->tool_data;
	const struct jifl_plugin_end *end;
	u32 i;

	if (!t->ends)
		return;
	end = &t->ends[aim->index];
	for (i = 0; i < end->n; i++)
		jifl_end_do(&end->inserts[i], result);
}

static void jifl_calls_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
			     struct ir_insert *exit, u32 *nexit)
{
	jifl_count_entry(aim, entry, nentry, exit, nexit);
	*nentry += jifl_plugin_point(aim, JIFL_CALLBACK_ENTRY, entry + *nentry);
}

static int jifl_calls_open(struct jifl_session *s, u64 *busy_session)
{
	s->instrument_arg = s->tool_data;
	return 0;
}

struct jifl_tool jifl_plugin_calls_tool __ro_after_init = {
	.name = "plugin",
	.calls = JIFL_CALLS_FOLLOWED,
	.is_plugin = true,
	.instrument = jifl_plugin_instrument,
	.open = jifl_calls_open,
	.attach = jifl_calls_attach,
	.close = jifl_calls_close,
	.entry = jifl_calls_entry,
	.ends = jifl_calls_end,
};

/* For users the sessions of a plugin are of one kind. */
void jifl_calls_init(void)
{
	jifl_plugin_calls_tool.kind = jifl_plugin_tool.kind;
}
