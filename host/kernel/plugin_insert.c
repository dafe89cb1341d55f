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
	syscall_s *syscall;
	struct ir_block *block;		/* routine, bb, ins */
	struct jifl_way_out out;	/* routine: how the block leaves it */
	bool enters;			/* routine: it begins with the block */
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

static struct jifl_round *jifl_round_begin(syscall_s *s)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	r->number++;
	r->syscall = s;
	r->block = NULL;
	r->inserts = NULL;
	r->ninserts = 0;
	r->refused = 0;
	r->plugin = s->plugin;
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
	*w = (struct jifl_wanted){ .plugin = p, .what = what, .at = JIFL_AT_CODE,
				   .nr = r->syscall->nr };
	if (kind == JIFL_HANDLE_POINT) {
		w->at = r->kind == JIFL_CALLBACK_ENTRY ? JIFL_AT_ENTRY : JIFL_AT_EXIT;
		w->nr = r->nr;
		return 0;
	}
	if (kind == JIFL_HANDLE_ROUTINE)
		w->at = JIFL_AT_ROUTINE;
	w->address = r->block->addr.v;
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

/* Before the first instruction of what handle stands for. Of a routine that is only left there, nothing. */
static int jifl_insert_first(const struct jifl_wanted *w)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	return w->at == JIFL_AT_ROUTINE && !r->enters ? 0 : jifl_insert_into_block(w, IR_BEFORE, 0);
}

static int jifl_first_call(struct jifl_plugin *p, const void *handle, enum jifl_handle kind,
			   const char *what, void *fn, va_list ap)
{
	struct jifl_wanted w;
	int ret = jifl_insert_begin(p, handle, kind, what, &w);

	ret = ret ?: jifl_want_call(&w, fn, ap);
	return ret ?: jifl_insert_first(&w);
}

static int jifl_first_hist(struct jifl_plugin *p, const void *handle, enum jifl_handle kind,
			   const char *what, hist_s *hist, int value, va_list ap)
{
	struct jifl_wanted w;
	int ret = jifl_insert_begin(p, handle, kind, what, &w);

	ret = ret ?: jifl_want_hist(&w, hist, value, ap);
	return ret ?: jifl_insert_first(&w);
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

/* Where the routine is left, if it is in this block. */
static int jifl_exit_begin(struct jifl_plugin *p, routine_s *routine, const char *what,
			   struct jifl_wanted *w)
{
	struct jifl_round *r;
	int ret = jifl_insert_begin(p, routine, JIFL_HANDLE_ROUTINE, what, w);

	if (ret)
		return ret;
	r = this_cpu_ptr(&jifl_round);
	r->syscall->exits = true;
	w->at = JIFL_AT_RETURN;
	w->insn = &r->block->insns[r->block->ninsns - 1];
	w->address = w->insn->addr.v;
	w->place = r->out.place;
	return 0;
}

static int jifl_exit_insert(const struct jifl_wanted *w)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	if (r->out.kind == JIFL_STAYS || (r->out.kind == JIFL_JUMPS && w->needs_return))
		return 0;
	return jifl_insert_into_block(w, w->place, r->block->ninsns - 1);
}

int jifl_routine_insert_exit_call(struct jifl_plugin *p, routine_s *routine, void *fn, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_exit_begin(p, routine, "routine_insert_exit_call", &w);
	ret = ret ?: jifl_want_call(&w, fn, ap);
	va_end(ap);
	return ret ?: jifl_exit_insert(&w);
}
EXPORT_SYMBOL_GPL(jifl_routine_insert_exit_call);

int jifl_routine_insert_exit_hist(struct jifl_plugin *p, routine_s *routine, hist_s *hist,
				  int value, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, value);
	ret = jifl_exit_begin(p, routine, "routine_insert_exit_hist", &w);
	ret = ret ?: jifl_want_hist(&w, hist, value, ap);
	va_end(ap);
	return ret ?: jifl_exit_insert(&w);
}
EXPORT_SYMBOL_GPL(jifl_routine_insert_exit_hist);

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

static const u8 jifl_places[] = {
	[IPOINT_BEFORE] = IR_BEFORE,
	[IPOINT_AFTER] = IR_AFTER,
	[IPOINT_TAKEN] = IR_TAKEN,
	[IPOINT_NOT_TAKEN] = IR_AFTER,
};

/* NULL, or why there is no such place at an instruction of that kind. */
static const char *jifl_ins_no_place(unsigned int where, u8 kind)
{
	switch (where) {
	case IPOINT_BEFORE:
		return NULL;
	case IPOINT_AFTER:
		return ir_kind_ends_block(kind) ? "nothing can be done after a branch" : NULL;
	case IPOINT_TAKEN:
	case IPOINT_NOT_TAKEN:
		return ir_kind_is_conditional(kind) ? NULL : "it is no conditional jump";
	default:
		return "no such place: see enum jifl_ipoint";
	}
}

/* ... and is there such a place at the instruction? */
static int jifl_ins_begin(struct jifl_plugin *p, ins_s *ins, enum jifl_ipoint where,
			  const char *what, struct jifl_wanted *w)
{
	int ret = jifl_insert_begin(p, ins, JIFL_HANDLE_INS, what, w);
	const char *mistake;

	if (ret)
		return ret;
	w->insn = &this_cpu_ptr(&jifl_round)->block->insns[jifl_handle_index(ins)];
	mistake = jifl_ins_no_place(where, w->insn->kind);
	if (mistake)
		return jifl_plugin_mistake(p, -EINVAL, what, mistake);
	w->address = w->insn->addr.v;
	w->place = jifl_places[where];
	w->after = where != IPOINT_BEFORE;
	return 0;
}

/* What asks before a branch which way it goes is done where that is known. */
static int jifl_ins_insert_both(struct jifl_wanted *w, u32 at)
{
	struct ir_block *b = this_cpu_ptr(&jifl_round)->block;
	u32 i;

	if (b->ninserts + 2 > IR_BLOCK_INSERTS)
		return jifl_insert_refuse(this_cpu_ptr(&jifl_round));
	jifl_insert_into_block(w, IR_TAKEN, at);
	for (i = 0; i < w->ins.nargs; i++)
		if (w->taken & 1u << i)
			w->ins.args[i] = 0;
	return jifl_insert_into_block(w, IR_AFTER, at);
}

static int jifl_ins_insert(struct jifl_wanted *w, ins_s *ins)
{
	u32 at = jifl_handle_index(ins);

	return w->taken ? jifl_ins_insert_both(w, at) : jifl_insert_into_block(w, w->place, at);
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
	return ret ?: jifl_ins_insert(&w, ins);
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
	return ret ?: jifl_ins_insert(&w, ins);
}
EXPORT_SYMBOL_GPL(jifl_ins_insert_hist);

/* --- what handles tell ------------------------------------------------------------------ */

/* Where the routine begins that the round is about. */
static unsigned long jifl_round_routine(const struct jifl_round *r)
{
	return r->enters ? r->block->addr.v : jifl_ksym_start(r->block->addr.v);
}

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

	return r ? jifl_round_routine(r) : 0;
}
EXPORT_SYMBOL_GPL(jifl_routine_address);

int jifl_routine_name(struct jifl_plugin *p, routine_s *routine, char *name, size_t size)
{
	struct jifl_round *r = jifl_handle_round(p, routine, JIFL_HANDLE_ROUTINE, "routine_name");

	if (!r)
		return -EPERM;
	if (!name || !size)
		return jifl_plugin_mistake(p, -EINVAL, "routine_name", "no room for a name");
	jifl_ksym_name(jifl_round_routine(r), name, size);
	return 0;
}
EXPORT_SYMBOL_GPL(jifl_routine_name);

int jifl_routine_module(struct jifl_plugin *p, routine_s *routine, char *name, size_t size)
{
	struct jifl_round *r = jifl_handle_round(p, routine, JIFL_HANDLE_ROUTINE, "routine_module");

	if (!r)
		return -EPERM;
	if (!name || !size)
		return jifl_plugin_mistake(p, -EINVAL, "routine_module", "no room for a name");
	jifl_ksym_module(jifl_round_routine(r), name, size);
	return 0;
}
EXPORT_SYMBOL_GPL(jifl_routine_module);

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

static const struct ir_insn *jifl_ins_of(struct jifl_plugin *p, ins_s *ins, const char *what)
{
	struct jifl_round *r = jifl_handle_round(p, ins, JIFL_HANDLE_INS, what);

	return r ? &r->block->insns[jifl_handle_index(ins)] : NULL;
}

unsigned long jifl_ins_target(struct jifl_plugin *p, ins_s *ins)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_target");

	return insn ? insn->target.v : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_target);

enum jifl_ins_condition jifl_ins_condition(struct jifl_plugin *p, ins_s *ins)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_condition");

	if (!insn || !ir_kind_is_conditional(insn->kind))
		return INS_IF_NONE;
	return insn->kind == IR_JCC ? insn->cc : INS_IF_COUNT;
}
EXPORT_SYMBOL_GPL(jifl_ins_condition);

unsigned int jifl_ins_properties(struct jifl_plugin *p, ins_s *ins)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_properties");

	return insn ? jifl_engine_properties(insn) : 0;
}
EXPORT_SYMBOL_GPL(jifl_ins_properties);

/* Is value a register, and one of those that the instruction reads, or writes? */
static bool jifl_ins_uses(struct jifl_plugin *p, ins_s *ins, int value, bool writes, const char *what)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, what);
	u16 read, written;

	if (!insn)
		return false;
	if (value < VALUE_RAX || value > VALUE_R15) {
		jifl_plugin_mistake(p, -EINVAL, what, "not a register");
		return false;
	}
	jifl_engine_uses(insn, &read, &written);
	return (writes ? written : read) >> (value - VALUE_RAX) & 1;
}

bool jifl_ins_reads_reg(struct jifl_plugin *p, ins_s *ins, int value)
{
	return jifl_ins_uses(p, ins, value, false, "ins_reads_reg");
}
EXPORT_SYMBOL_GPL(jifl_ins_reads_reg);

bool jifl_ins_writes_reg(struct jifl_plugin *p, ins_s *ins, int value)
{
	return jifl_ins_uses(p, ins, value, true, "ins_writes_reg");
}
EXPORT_SYMBOL_GPL(jifl_ins_writes_reg);

int jifl_ins_memory_operands(struct jifl_plugin *p, ins_s *ins, struct ins_memory *m, int max)
{
	const struct ir_insn *insn = jifl_ins_of(p, ins, "ins_memory_operands");

	if (!insn)
		return -EPERM;
	if (!m || max < 0)
		return jifl_plugin_mistake(p, -EINVAL, "ins_memory_operands", "no room for them");
	return jifl_engine_memory(insn, m, max);
}
EXPORT_SYMBOL_GPL(jifl_ins_memory_operands);

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

/*
 * Called where a routine begins; and, once the plugin has asked for exits, where one is
 * left: so nobody has to remember what was asked for at its beginning.
 */
static void jifl_plugin_call_routine(syscall_s *s, struct jifl_round *r)
{
	const unsigned int n = s->ncallbacks[JIFL_CALLBACK_ROUTINE];
	unsigned int i;

	if (!n)
		return;
	r->enters = jifl_ksym_starts(r->block->addr.v);
	if (!r->enters && !s->exits)
		return;
	jifl_routine_way_out(r->block, &r->out);
	if (!r->enters && r->out.kind == JIFL_STAYS)
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
	r = jifl_round_begin(s);
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
	struct jifl_round *r = jifl_round_begin(s);
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
