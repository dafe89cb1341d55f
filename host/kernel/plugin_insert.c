// SPDX-License-Identifier: GPL-2.0
/*
 * Plugins' callbacks, and the calls that they insert through handles.
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
#include "../../engine/host.h"

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

/* --- inserting calls ------------------------------------------------------------------ */

struct jifl_call {
	u64 args[JIFL_ARGS_MAX];
	u8 nargs;
};

static int jifl_call_args(struct jifl_call *call, va_list ap)
{
	int type;

	call->nargs = 0;
	while ((type = va_arg(ap, int)) != ARG_END) {
		u64 value;

		switch (type) {
		case ARG_VOID_PTR:
			value = (unsigned long)va_arg(ap, void *);
			break;
		case ARG_INT32:
			value = (s64)va_arg(ap, int);
			break;
		case ARG_INT64:
			value = va_arg(ap, long long);
			break;
		default:
			return -EINVAL;
		}
		if (call->nargs == JIFL_ARGS_MAX)
			return -E2BIG;
		call->args[call->nargs++] = value;
	}
	return 0;
}

/* Text of the kernel or of a module that is live: in a call's reach, too. */
static bool jifl_call_is_code(const void *fn)
{
	enum jifl_cause cause;

	return jifl_host_classify(jifl_orig_at((unsigned long)fn), &cause) != JIFL_TEXT_FOREIGN;
}

static int jifl_call_check(struct jifl_round *r, const char *what, const void *fn,
			   struct jifl_call *call, va_list ap)
{
	int ret;

	if (!fn)
		return jifl_plugin_mistake(r->plugin, -EINVAL, what, "no function to call");
	if (!jifl_call_is_code(fn))
		return jifl_plugin_mistake(r->plugin, -EINVAL, what,
					   "the function is no code of the kernel");
	ret = jifl_call_args(call, ap);
	if (ret == -E2BIG)
		return jifl_plugin_mistake(r->plugin, ret, what, "too many arguments");
	if (ret)
		return jifl_plugin_mistake(r->plugin, ret, what,
					   "unknown type of argument; is ARG_END there?");
	return 0;
}

static int jifl_call_refuse(struct jifl_round *r)
{
	if (++r->refused == JIFL_REFUSED_MAX)
		jifl_plugin_expel(r->plugin);
	return -ENOSPC;
}

static void jifl_call_fill(struct ir_insert *ins, const void *fn,
			   const struct jifl_call *call)
{
	ins->kind = IR_INSERT_CALL;
	ins->fn = (unsigned long)fn;
	ins->nargs = call->nargs;
	memcpy(ins->args, call->args, sizeof(call->args));
}

/* In the block of round r, at instruction `at`. */
static int jifl_call_insert(struct jifl_round *r, const char *what,
			    enum ir_place place, u32 at, const void *fn, va_list ap)
{
	struct jifl_call call = {};
	struct ir_insert *ins;
	int ret;

	ret = jifl_call_check(r, what, fn, &call, ap);
	if (ret)
		return ret;
	ins = ir_block_insert(r->block, place, at);
	if (!ins)
		return jifl_call_refuse(r);
	jifl_call_fill(ins, fn, &call);
	return 0;
}

int jifl_syscall_insert_call(struct jifl_plugin *p, syscall_point_s *point, void *fn, ...)
{
	static const char what[] = "syscall_insert_call";
	struct jifl_round *r = jifl_handle_round(p, point, JIFL_HANDLE_POINT, what);
	struct jifl_call call = {};
	va_list ap;
	int ret;

	if (!r)
		return -EPERM;
	va_start(ap, fn);
	ret = jifl_call_check(r, what, fn, &call, ap);
	va_end(ap);
	if (ret)
		return ret;
	if (r->ninserts == JIFL_ENTRY_INSERTS)
		return jifl_call_refuse(r);
	memset(&r->inserts[r->ninserts], 0, sizeof(r->inserts[0]));
	jifl_call_fill(&r->inserts[r->ninserts++], fn, &call);
	return 0;
}
EXPORT_SYMBOL_GPL(jifl_syscall_insert_call);

/* Before the first instruction of what handle stands for. */
static int jifl_first_insert(struct jifl_plugin *p, const void *handle, enum jifl_handle kind,
			     const char *what, void *fn, va_list ap)
{
	struct jifl_round *r = jifl_handle_round(p, handle, kind, what);

	return r ? jifl_call_insert(r, what, IR_BEFORE, 0, fn, ap) : -EPERM;
}

int jifl_routine_insert_call(struct jifl_plugin *p, routine_s *routine, void *fn, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_first_insert(p, routine, JIFL_HANDLE_ROUTINE, "routine_insert_call", fn, ap);
	va_end(ap);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_routine_insert_call);

int jifl_bb_insert_call(struct jifl_plugin *p, bb_s *bb, void *fn, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_first_insert(p, bb, JIFL_HANDLE_BB, "bb_insert_call", fn, ap);
	va_end(ap);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_bb_insert_call);

int jifl_ins_insert_call(struct jifl_plugin *p, ins_s *ins, enum jifl_ipoint where, void *fn, ...)
{
	static const char what[] = "ins_insert_call";
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, what);
	u32 at = jifl_handle_index(ins);
	va_list ap;
	int ret;

	if (!r)
		return -EPERM;
	if (where != IPOINT_BEFORE && where != IPOINT_AFTER)
		return jifl_plugin_mistake(r->plugin, -EINVAL, what,
					   "neither IPOINT_BEFORE nor IPOINT_AFTER");
	if (where == IPOINT_AFTER && ir_kind_ends_block(r->block->insns[at].kind))
		return jifl_plugin_mistake(r->plugin, -EINVAL, what,
					   "nothing can be called after a branch");
	va_start(ap, fn);
	ret = jifl_call_insert(r, what, where == IPOINT_BEFORE ? IR_BEFORE : IR_AFTER,
			       at, fn, ap);
	va_end(ap);
	return ret;
}
EXPORT_SYMBOL_GPL(jifl_ins_insert_call);

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
