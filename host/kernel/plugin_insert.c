// SPDX-License-Identifier: GPL-2.0
/*
 * Plugins' callbacks, and what they insert through handles.
 *
 * Handles are not pointers. A handle says on which CPU and in which round of
 * callbacks it was given, and of what kind it is, so one that was kept for
 * later, or that belongs to another CPU's callback, is told from a live one
 * without touching memory.
 *
 * Contexts: jifl_plugin_instrument under the engine lock; jifl_plugin_entry
 * under jifl_entry_lock.
 */
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/stdarg.h>

#include "plugin.h"

/*
 * Refused inserts of one round after which no more is expected of a plugin. One
 * that asks once or twice for each instruction of a full block stays below.
 */
#define JIFL_REFUSED_MAX	4096

/* --- handles ------------------------------------------------------------------------- */

enum jifl_handle {
	JIFL_HANDLE_POINT = 1,
	JIFL_HANDLE_ROUTINE,
	JIFL_HANDLE_BB,
	JIFL_HANDLE_INS,
};

/* What the callbacks that run on this CPU are about. Interrupts are off. */
struct jifl_round {
	struct jifl_plugin *plugin;	/* NULL: no callback runs */
	u64 number;
	struct ir_block *block;		/* routine, bb, ins */
	struct ir_insert *inserts;	/* entry, exit */
	u32 ninserts;
	u32 refused;			/* inserts, for want of room */
	unsigned int nr;
	enum jifl_callback_kind kind;	/* ENTRY or EXIT, where inserts is set */
};

static DEFINE_PER_CPU(struct jifl_round, jifl_round);

/*
 * number of the round : 38, CPU : 13, kind : 3, index : 10. A CPU has its own
 * numbers, from 1 on, so no handle is NULL.
 */
#define JIFL_HANDLE_INDEX_BITS	10
#define JIFL_HANDLE_KIND_SHIFT	10
#define JIFL_HANDLE_CPU_SHIFT	13
#define JIFL_HANDLE_ROUND_SHIFT	26

static void *jifl_handle(const struct jifl_round *r, enum jifl_handle kind, u32 index)
{
	return (void *)(r->number << JIFL_HANDLE_ROUND_SHIFT |
			(u64)raw_smp_processor_id() << JIFL_HANDLE_CPU_SHIFT |
			(u64)kind << JIFL_HANDLE_KIND_SHIFT | index);
}

static u32 jifl_handle_index(const void *handle)
{
	return (unsigned long)handle & ((1u << JIFL_HANDLE_INDEX_BITS) - 1);
}

/* The round that the handle is of, NULL and a line in the log if it is over. */
static struct jifl_round *jifl_handle_round(struct jifl_plugin *p, const void *handle,
					    enum jifl_handle kind, const char *what)
{
	/* With interrupts on, no callback is running here. */
	if (irqs_disabled()) {
		struct jifl_round *r = this_cpu_ptr(&jifl_round);

		if (r->plugin == p &&
		    handle == jifl_handle(r, kind, jifl_handle_index(handle)))
			return r;
	}
	jifl_plugin_mistake(p, -EPERM, what, "not a handle of the callback that runs");
	return NULL;
}

static struct jifl_round *jifl_round_begin(struct jifl_plugin *p)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	r->number++;
	r->block = NULL;
	r->inserts = NULL;
	r->ninserts = 0;
	r->refused = 0;
	r->plugin = p;
	return r;
}

static void jifl_round_end(struct jifl_round *r)
{
	r->plugin = NULL;
}

/* --- inserting ------------------------------------------------------------------------ */

/* Begins each insertion through a handle: 0, or -EPERM for one that is not good. */
static int jifl_insert_begin(struct jifl_plugin *p, const void *handle, enum jifl_handle kind,
			     const char *what, struct jifl_wanted *w)
{
	struct jifl_round *r = jifl_handle_round(p, handle, kind, what);

	if (!r)
		return -EPERM;
	*w = (struct jifl_wanted){ .plugin = p, .what = what, .at = JIFL_AT_CODE };
	if (kind == JIFL_HANDLE_ROUTINE)
		w->at = JIFL_AT_ROUTINE;
	else if (kind == JIFL_HANDLE_POINT)
		w->at = r->kind == JIFL_CALLBACK_ENTRY ? JIFL_AT_ENTRY : JIFL_AT_EXIT;
	return 0;
}

static int jifl_insert_refuse(struct jifl_round *r)
{
	if (++r->refused == JIFL_REFUSED_MAX)
		jifl_plugin_expel(r->plugin);
	return -ENOSPC;
}

/* At the entry or the exit of the round's system call. */
static int jifl_insert_at_point(const struct jifl_wanted *w)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	if (r->ninserts == JIFL_ENTRY_INSERTS)
		return jifl_insert_refuse(r);
	r->inserts[r->ninserts++] = w->ins;
	return 0;
}

/* In the round's block, at instruction `at`. */
static int jifl_insert_into_block(const struct jifl_wanted *w, enum ir_place place, u32 at)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);
	struct ir_insert *ins = ir_block_insert(r->block, place, at);

	if (!ins)
		return jifl_insert_refuse(r);
	*ins = w->ins;
	ins->place = place;
	ins->at = at;
	return 0;
}

int jifl_syscall_insert_call(struct jifl_plugin *p, syscall_point_s *point, void *fn, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_insert_begin(p, point, JIFL_HANDLE_POINT, "syscall_insert_call", &w);
	ret = ret ?: jifl_want_call(&w, fn, ap);
	va_end(ap);
	return ret ?: jifl_insert_at_point(&w);
}
EXPORT_SYMBOL_GPL(jifl_syscall_insert_call);

int jifl_syscall_insert_hist(struct jifl_plugin *p, syscall_point_s *point, hist_s *hist,
			     int value, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, value);
	ret = jifl_insert_begin(p, point, JIFL_HANDLE_POINT, "syscall_insert_hist", &w);
	ret = ret ?: jifl_want_hist(&w, hist, value, ap);
	va_end(ap);
	return ret ?: jifl_insert_at_point(&w);
}
EXPORT_SYMBOL_GPL(jifl_syscall_insert_hist);

/* Before the first instruction of what handle stands for. */
static int jifl_first_call(struct jifl_plugin *p, const void *handle, enum jifl_handle kind,
			   const char *what, void *fn, va_list ap)
{
	struct jifl_wanted w;
	int ret = jifl_insert_begin(p, handle, kind, what, &w);

	ret = ret ?: jifl_want_call(&w, fn, ap);
	return ret ?: jifl_insert_into_block(&w, IR_BEFORE, 0);
}

static int jifl_first_hist(struct jifl_plugin *p, const void *handle, enum jifl_handle kind,
			   const char *what, hist_s *hist, int value, va_list ap)
{
	struct jifl_wanted w;
	int ret = jifl_insert_begin(p, handle, kind, what, &w);

	ret = ret ?: jifl_want_hist(&w, hist, value, ap);
	return ret ?: jifl_insert_into_block(&w, IR_BEFORE, 0);
}

int jifl_routine_insert_call(struct jifl_plugin *p, routine_s *routine, void *fn, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_first_call(p, routine, JIFL_HANDLE_ROUTINE, "routine_insert_call", fn, ap);
	va_end(ap);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_routine_insert_call);

int jifl_routine_insert_hist(struct jifl_plugin *p, routine_s *routine, hist_s *hist, int value, ...)
{
	va_list ap;
	int ret;

	va_start(ap, value);
	ret = jifl_first_hist(p, routine, JIFL_HANDLE_ROUTINE, "routine_insert_hist", hist, value,
			      ap);
	va_end(ap);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_routine_insert_hist);

int jifl_bb_insert_call(struct jifl_plugin *p, bb_s *bb, void *fn, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_first_call(p, bb, JIFL_HANDLE_BB, "bb_insert_call", fn, ap);
	va_end(ap);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_bb_insert_call);

int jifl_bb_insert_hist(struct jifl_plugin *p, bb_s *bb, hist_s *hist, int value, ...)
{
	va_list ap;
	int ret;

	va_start(ap, value);
	ret = jifl_first_hist(p, bb, JIFL_HANDLE_BB, "bb_insert_hist", hist, value, ap);
	va_end(ap);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_bb_insert_hist);

/* ... and is there such a place at the instruction? */
static int jifl_ins_begin(struct jifl_plugin *p, ins_s *ins, enum jifl_ipoint where,
			  const char *what, struct jifl_wanted *w)
{
	int ret = jifl_insert_begin(p, ins, JIFL_HANDLE_INS, what, w);

	if (ret)
		return ret;
	if (where != IPOINT_BEFORE && where != IPOINT_AFTER)
		return jifl_plugin_mistake(p, -EINVAL, what,
					   "neither IPOINT_BEFORE nor IPOINT_AFTER");
	if (where == IPOINT_AFTER &&
	    ir_kind_ends_block(this_cpu_ptr(&jifl_round)->block->insns[jifl_handle_index(ins)].kind))
		return jifl_plugin_mistake(p, -EINVAL, what, "nothing can be done after a branch");
	return 0;
}

static int jifl_ins_insert(const struct jifl_wanted *w, ins_s *ins, enum jifl_ipoint where)
{
	return jifl_insert_into_block(w, where == IPOINT_BEFORE ? IR_BEFORE : IR_AFTER,
				      jifl_handle_index(ins));
}

int jifl_ins_insert_call(struct jifl_plugin *p, ins_s *ins, enum jifl_ipoint where, void *fn, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_ins_begin(p, ins, where, "ins_insert_call", &w);
	ret = ret ?: jifl_want_call(&w, fn, ap);
	va_end(ap);
	return ret ?: jifl_ins_insert(&w, ins, where);
}
EXPORT_SYMBOL_GPL(jifl_ins_insert_call);

int jifl_ins_insert_hist(struct jifl_plugin *p, ins_s *ins, enum jifl_ipoint where, hist_s *hist,
			 int value, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, value);
	ret = jifl_ins_begin(p, ins, where, "ins_insert_hist", &w);
	ret = ret ?: jifl_want_hist(&w, hist, value, ap);
	va_end(ap);
	return ret ?: jifl_ins_insert(&w, ins, where);
}
EXPORT_SYMBOL_GPL(jifl_ins_insert_hist);

/* --- what handles tell ------------------------------------------------------------------ */

int jifl_syscall_nr(struct jifl_plugin *p, syscall_point_s *point)
{
	struct jifl_round *r = jifl_handle_round(p, point, JIFL_HANDLE_POINT, "syscall_nr");

	return r ? r->nr : -EPERM;
}
EXPORT_SYMBOL_GPL(jifl_syscall_nr);

unsigned long jifl_routine_address(struct jifl_plugin *p, routine_s *routine)
{
	struct jifl_round *r = jifl_handle_round(p, routine, JIFL_HANDLE_ROUTINE,
						 "routine_address");

	return r ? r->block->addr.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_routine_address);

int jifl_bb_size(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "bb_size");

	return r ? r->block->count : -EPERM;
}
EXPORT_SYMBOL_GPL(jifl_bb_size);

unsigned long jifl_bb_address(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "bb_address");

	return r ? r->block->addr.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_bb_address);

/* NULL when the block has no such instruction; -1 comes as a large number. */
static ins_s *jifl_ins_at(struct jifl_round *r, u32 index)
{
	if (index >= r->block->ninsns)
		return NULL;
	return jifl_handle(r, JIFL_HANDLE_INS, index);
}

ins_s *jifl_ins_first(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "ins_first");

	return r ? jifl_ins_at(r, 0) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_first);

ins_s *jifl_ins_last(struct jifl_plugin *p, bb_s *bb)
{
	struct jifl_round *r = jifl_handle_round(p, bb, JIFL_HANDLE_BB, "ins_last");

	return r ? jifl_ins_at(r, r->block->ninsns - 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_last);

ins_s *jifl_ins_next(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_next");

	return r ? jifl_ins_at(r, jifl_handle_index(ins) + 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_next);

ins_s *jifl_ins_prev(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_prev");

	return r ? jifl_ins_at(r, jifl_handle_index(ins) - 1) : NULL;
}
EXPORT_SYMBOL_GPL(jifl_ins_prev);

unsigned long jifl_ins_address(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_address");

	return r ? r->block->insns[jifl_handle_index(ins)].addr.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_address);

enum jifl_ins_type jifl_ins_type(struct jifl_plugin *p, ins_s *ins)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, "ins_type");

	if (!r)
		return INS_TYPE_OTHER;
	return r->block->insns[jifl_handle_index(ins)].type;
}
EXPORT_SYMBOL_GPL(jifl_ins_type);

/* --- calling callbacks -------------------------------------------------------------------- */

static void jifl_plugin_call_ins(syscall_s *s, struct jifl_round *r)
{
	const unsigned int n = s->ncallbacks[JIFL_CALLBACK_INS];
	unsigned int at, i;

	for (at = 0; n && at < r->block->ninsns; at++)
		for (i = 0; i < n; i++) {
			struct jifl_callback *c = &s->callbacks[JIFL_CALLBACK_INS][i];

			((ins_callback)c->fn)(jifl_handle(r, JIFL_HANDLE_INS, at), c->arg);
		}
}

static void jifl_plugin_call_routine(syscall_s *s, struct jifl_round *r)
{
	const unsigned int n = s->ncallbacks[JIFL_CALLBACK_ROUTINE];
	unsigned int i;

	if (!n || !jifl_ksym_starts(r->block->addr.v))
		return;
	for (i = 0; i < n; i++) {
		struct jifl_callback *c = &s->callbacks[JIFL_CALLBACK_ROUTINE][i];

		((routine_callback)c->fn)(jifl_handle(r, JIFL_HANDLE_ROUTINE, 0), c->arg);
	}
}

/* The engine's callback for plugin sessions; arg: the syscall_s. */
void jifl_plugin_instrument(struct ir_block *b, void *arg)
{
	syscall_s *s = arg;
	struct jifl_callback *c;
	struct jifl_round *r;
	unsigned int i;

	if (READ_ONCE(s->plugin->expelled))
		return;
	r = jifl_round_begin(s->plugin);
	r->block = b;
	jifl_plugin_call_routine(s, r);
	for (i = 0; i < s->ncallbacks[JIFL_CALLBACK_BB]; i++) {
		c = &s->callbacks[JIFL_CALLBACK_BB][i];
		((bb_callback)c->fn)(jifl_handle(r, JIFL_HANDLE_BB, 0), c->arg);
	}
	jifl_plugin_call_ins(s, r);
	jifl_round_end(r);
}

static u32 jifl_plugin_point(syscall_s *s, enum jifl_callback_kind kind, unsigned int nr,
			     struct ir_insert *inserts)
{
	struct jifl_round *r = jifl_round_begin(s->plugin);
	unsigned int i;

	r->inserts = inserts;
	r->nr = nr;
	r->kind = kind;
	for (i = 0; i < s->ncallbacks[kind]; i++) {
		struct jifl_callback *c = &s->callbacks[kind][i];

		((syscall_callback)c->fn)(jifl_handle(r, JIFL_HANDLE_POINT, 0), c->arg);
	}
	jifl_round_end(r);
	return r->ninserts;
}

void jifl_plugin_entry(struct jifl_session *session, unsigned int nr,
		       struct ir_insert *entry, u32 *nentry,
		       struct ir_insert *exit, u32 *nexit)
{
	syscall_s *s = session->plugin;

	*nentry = jifl_plugin_point(s, JIFL_CALLBACK_ENTRY, nr, entry);
	*nexit = jifl_plugin_point(s, JIFL_CALLBACK_EXIT, nr, exit);
}
