// SPDX-License-Identifier: GPL-2.0
/*
 * What plugins insert through handles goes where it belongs. want.c reads what is
 * wanted.
 *
 * Context: inside callbacks; interrupts are off.
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
