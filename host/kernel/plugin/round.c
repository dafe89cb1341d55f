// SPDX-License-Identifier: GPL-2.0
/*
 * Calls the callbacks of plugins, in rounds: one round for each block that is translated, and one
 * for the entry and one for the exit of a system call. A handle belongs to one round.
 *
 * Handles are not pointers. A handle consists of its CPU, its round and its kind. So a handle that
 * a plugin has kept, or that belongs to a callback on another CPU, is recognised without an access
 * to memory. The handle of a routine also has the routine's address, which can be read from it at
 * any later time.
 *
 * Contexts: jifl_plugin_instrument: under the engine lock; jifl_plugin_point: under
 * jifl_entry_lock. Both locks say that the module runs, so no callback interrupts another one of
 * the same CPU.
 */
#include <linux/percpu.h>

#include "../kernel.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "../text/function.h"
#include "plugin.h"

/* --- handles ------------------------------------------------------------------------- */

DEFINE_PER_CPU(struct jifl_round, jifl_round);

/*
 * The bits of a handle, from the highest on. Of a routine: low half of the address : 32, number of
 * the round : 16, CPU : 13, kind : 3. Of all else: number of the round : 38, index : 10, CPU : 13,
 * kind : 3. No kind is 0, so no handle is NULL.
 *
 * Each CPU numbers its rounds from 1 on. In a routine's handle the number repeats after 65536
 * rounds. A handle that was kept for so long is taken for a live one only if the running callback
 * is about the same routine, and then both handles mean the same.
 *
 * Kernel code lies in the topmost 2 GiB (Documentation/arch/x86/x86_64/mm.rst), so the low half of
 * an address is enough.
 */
#define JIFL_HANDLE_KIND_MASK	7
#define JIFL_HANDLE_CPU_SHIFT	3
#define JIFL_HANDLE_INDEX_SHIFT	16
#define JIFL_HANDLE_INDEX_BITS	10
#define JIFL_HANDLE_ROUND_SHIFT	26
#define JIFL_HANDLE_ROUTINE_SHIFT 32

void *jifl_round_handle(const struct jifl_round *r, enum jifl_handle kind, u32 index)
{
	u64 handle = kind | (u64)raw_smp_processor_id() << JIFL_HANDLE_CPU_SHIFT;

	if (kind == JIFL_HANDLE_ROUTINE)
		return (void *)(handle | (u64)(u16)r->number << JIFL_HANDLE_INDEX_SHIFT |
				r->routine << JIFL_HANDLE_ROUTINE_SHIFT);
	return (void *)(handle | (u64)index << JIFL_HANDLE_INDEX_SHIFT |
			r->number << JIFL_HANDLE_ROUND_SHIFT);
}

u32 jifl_round_index(const void *handle)
{
	return (unsigned long)handle >> JIFL_HANDLE_INDEX_SHIFT &
	       ((1u << JIFL_HANDLE_INDEX_BITS) - 1);
}

unsigned long jifl_round_routine(struct jifl_plugin *p, const void *handle, const char *what)
{
	const unsigned long h = (unsigned long)handle;

	if ((h & JIFL_HANDLE_KIND_MASK) == JIFL_HANDLE_ROUTINE)
		return (long)(s32)(h >> JIFL_HANDLE_ROUTINE_SHIFT);
	jifl_plugin_mistake(p, -EPERM, what, "not a handle of a routine");
	return 0;
}

struct jifl_round *jifl_round_of(struct jifl_plugin *p, const void *handle,
				     enum jifl_handle kind, const char *what)
{
	/* Callbacks run with interrupts off. */
	if (irqs_disabled()) {
		struct jifl_round *r = this_cpu_ptr(&jifl_round);

		if (r->plugin == p &&
		    handle == jifl_round_handle(r, kind, jifl_round_index(handle)))
			return r;
	}
	jifl_plugin_mistake(p, -EPERM, what, "not a handle of the callback that runs");
	return NULL;
}

static struct jifl_round *jifl_round_begin(target_t *t)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	r->number++;
	r->of = t;
	r->block = NULL;
	r->routine = 0;
	r->inserts = NULL;
	r->ninserts = 0;
	r->refused = 0;
	r->plugin = t->plugin;
	return r;
}

static void jifl_round_end(struct jifl_round *r)
{
	r->plugin = NULL;
}

/* --- calling callbacks -------------------------------------------------------------------- */

static void jifl_plugin_call_ins(target_t *t, struct jifl_round *r)
{
	const unsigned int n = t->ncallbacks[JIFL_CALLBACK_INS];
	unsigned int at, i;

	for (at = 0; n && at < r->block->ninsns; at++)
		for (i = 0; i < n; i++) {
			struct jifl_callback *c = &t->callbacks[JIFL_CALLBACK_INS][i];

			((ins_callback)c->fn)(jifl_round_handle(r, JIFL_HANDLE_INS, at), c->arg);
		}
}

/*
 * Does a call of one of t's functions begin with the block? Its door leads behind the function's
 * site. t->session is not set yet while the session starts.
 */
static bool jifl_plugin_is_entered(const target_t *t, const struct ir_block *b)
{
	const struct jifl_target *target;
	unsigned int lane;

	if (!t->functions)
		return false;
	target = b->in_piece ? jifl_notrace_entered_at(b->addr.v) : jifl_function_find(b->addr.v);

	for (lane = 0; target && lane < JIFL_LANES; lane++) {
		const struct jifl_aim *aim = READ_ONCE(target->armed[lane]);

		if (aim && aim->session->tool_data == t)
			return true;
	}
	return false;
}

/*
 * Calls the callbacks of routines for a block in which a routine begins. Once the plugin has
 * inserted at an exit, they are also called for each block that leaves a routine, so no list of
 * routines is kept whose exits are wanted.
 */
static void jifl_plugin_call_routine(target_t *t, struct jifl_round *r)
{
	const unsigned int n = t->ncallbacks[JIFL_CALLBACK_ROUTINE];
	unsigned int i;

	if (!n)
		return;
	r->enters = jifl_function_starts(r->block->addr.v) || jifl_plugin_is_entered(t, r->block);
	if (!r->enters && !t->exits)
		return;
	jifl_routine_way_out(r->block, &r->out);
	if (!r->enters && r->out.kind == JIFL_STAYS)
		return;
	r->routine = jifl_function_at(r->block->addr.v)->start;
	for (i = 0; i < n; i++) {
		struct jifl_callback *c = &t->callbacks[JIFL_CALLBACK_ROUTINE][i];

		((routine_callback)c->fn)(jifl_round_handle(r, JIFL_HANDLE_ROUTINE, 0), c->arg);
	}
}

/* arg: the target_t. */
void jifl_plugin_instrument(struct ir_block *b, void *arg)
{
	target_t *t = arg;
	struct jifl_callback *c;
	struct jifl_round *r;
	unsigned int i;

	if (READ_ONCE(t->plugin->expelled))
		return;
	r = jifl_round_begin(t);
	r->block = b;
	jifl_plugin_call_routine(t, r);
	for (i = 0; i < t->ncallbacks[JIFL_CALLBACK_BB]; i++) {
		c = &t->callbacks[JIFL_CALLBACK_BB][i];
		((bb_callback)c->fn)(jifl_round_handle(r, JIFL_HANDLE_BB, 0), c->arg);
	}
	jifl_plugin_call_ins(t, r);
	jifl_round_end(r);
}

u32 jifl_plugin_point(const struct jifl_aim *aim, enum jifl_callback_kind kind,
		      struct ir_insert *inserts)
{
	target_t *t = aim->session->tool_data;
	struct jifl_round *r;
	unsigned int i;

	if (READ_ONCE(t->plugin->expelled))
		return 0;
	r = jifl_round_begin(t);
	r->inserts = inserts;
	r->target = aim->target;
	r->kind = kind;
	for (i = 0; i < t->ncallbacks[kind]; i++) {
		struct jifl_callback *c = &t->callbacks[kind][i];

		((syscall_callback)c->fn)(jifl_round_handle(r, JIFL_HANDLE_POINT, 0), c->arg);
	}
	jifl_round_end(r);
	return r->ninserts;
}

static void jifl_plugin_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
			      struct ir_insert *exit, u32 *nexit)
{
	*nentry = jifl_plugin_point(aim, JIFL_CALLBACK_ENTRY, entry);
	*nexit = jifl_plugin_point(aim, JIFL_CALLBACK_EXIT, exit);
}

static int jifl_plugin_open(struct jifl_session *s, u64 *busy_session)
{
	s->instrument_arg = s->tool_data;
	return 0;
}

const struct jifl_tool jifl_plugin_tool = {
	.name = "plugin",
	.kind = JIFL_KIND_PLUGIN,
	.calls = JIFL_CALLS_UNCOUNTED,
	.is_plugin = true,
	.instrument = jifl_plugin_instrument,
	.open = jifl_plugin_open,
	.entry = jifl_plugin_entry,
};
