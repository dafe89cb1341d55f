// SPDX-License-Identifier: GPL-2.0
/*
 * Puts what plugins insert through handles to its place. want.c reads the arguments.
 *
 * All insertions of jifl.h end in two functions, jifl_insert_call and jifl_insert_hist, which have
 * a place as argument. jifl_places below has the functions that begin and end an insertion, for
 * each kind of place.
 *
 * Context: inside callbacks; interrupts are off.
 */
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/stdarg.h>

#include "plugin.h"

/*
 * Refused inserts of one round after which a plugin counts as broken. A plugin that asks once or
 * twice for each instruction of a full block stays below this number.
 */
#define JIFL_REFUSED_MAX	4096

static int jifl_insert_refuse(struct jifl_round *r)
{
	if (++r->refused == JIFL_REFUSED_MAX)
		jifl_plugin_expel(r->plugin);
	return -ENOSPC;
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

/* --- at the entry or the exit of the round's target -------------------------------- */

static int jifl_point_begin(struct jifl_wanted *w, const struct jifl_place *place)
{
	const struct jifl_round *r = this_cpu_ptr(&jifl_round);

	w->at = r->kind == JIFL_CALLBACK_EXIT ? JIFL_AT_EXIT :
		w->functions ? JIFL_AT_CALL : JIFL_AT_ENTRY;
	if (w->functions)
		w->address = r->target->id;
	else
		w->nr = r->target->id;
	return 0;
}

static int jifl_point_insert(struct jifl_wanted *w)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	if (r->ninserts == JIFL_POINT_INSERTS)
		return jifl_insert_refuse(r);
	r->inserts[r->ninserts++] = w->ins;
	return 0;
}

/* --- where a block begins, or a routine -------------------------------------------- */

static int jifl_bb_begin(struct jifl_wanted *w, const struct jifl_place *place)
{
	w->at = JIFL_AT_CODE;
	w->address = this_cpu_ptr(&jifl_round)->block->addr.v;
	return 0;
}

static int jifl_bb_insert(struct jifl_wanted *w)
{
	return jifl_insert_into_block(w, IR_BEFORE, 0);
}

static int jifl_routine_begin(struct jifl_wanted *w, const struct jifl_place *place)
{
	w->at = JIFL_AT_ROUTINE;
	w->address = this_cpu_ptr(&jifl_round)->routine;
	return 0;
}

/* Inserts nothing if the routine does not begin in the block, but is only left there. */
static int jifl_routine_insert(struct jifl_wanted *w)
{
	return this_cpu_ptr(&jifl_round)->enters ? jifl_bb_insert(w) : 0;
}

/* --- where a routine is left, if it is in this block ------------------------------- */

static int jifl_exit_begin(struct jifl_wanted *w, const struct jifl_place *place)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	r->of->exits = true;
	w->at = JIFL_AT_RETURN;
	w->insn = &r->block->insns[r->block->ninsns - 1];
	w->address = w->insn->addr.v;
	w->place = r->out.place;
	return 0;
}

static int jifl_exit_insert(struct jifl_wanted *w)
{
	struct jifl_round *r = this_cpu_ptr(&jifl_round);

	if (r->out.kind == JIFL_STAYS || (r->out.kind == JIFL_JUMPS && w->needs_return))
		return 0;
	return jifl_insert_into_block(w, w->place, r->block->ninsns - 1);
}

/* --- at an instruction ---------------------------------------------------------------- */

static const u8 jifl_ipoints[] = {
	[IPOINT_BEFORE] = IR_BEFORE,
	[IPOINT_AFTER] = IR_AFTER,
	[IPOINT_TAKEN] = IR_TAKEN,
	[IPOINT_NOT_TAKEN] = IR_AFTER,
};

/* NULL, or why an instruction of this kind does not have the place. */
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

static int jifl_ins_begin(struct jifl_wanted *w, const struct jifl_place *place)
{
	const char *mistake;

	w->at = JIFL_AT_CODE;
	w->insn = &this_cpu_ptr(&jifl_round)->block->insns[jifl_round_index(place->handle)];
	mistake = jifl_ins_no_place(place->where, w->insn->kind);
	if (mistake)
		return jifl_plugin_mistake(w->plugin, -EINVAL, w->what, mistake);
	w->address = w->insn->addr.v;
	w->place = jifl_ipoints[place->where];
	w->after = place->where != IPOINT_BEFORE;
	return 0;
}

/* An insert that asks before a branch which way it goes is put on both edges instead. */
static int jifl_ins_insert_both(struct jifl_wanted *w, u32 at)
{
	struct ir_block *b = this_cpu_ptr(&jifl_round)->block;
	u32 i;

	if (!ir_block_has_room(b, 2))
		return jifl_insert_refuse(this_cpu_ptr(&jifl_round));
	jifl_insert_into_block(w, IR_TAKEN, at);
	for (i = 0; i < w->ins.nargs; i++)
		if (w->taken & 1u << i)
			w->ins.args[i] = 0;
	return jifl_insert_into_block(w, IR_AFTER, at);
}

static int jifl_ins_insert(struct jifl_wanted *w)
{
	u32 at = w->insn - this_cpu_ptr(&jifl_round)->block->insns;

	return w->taken ? jifl_ins_insert_both(w, at) : jifl_insert_into_block(w, w->place, at);
}

/* --- all of them ------------------------------------------------------------------------ */

enum jifl_inserted { JIFL_INSERTED_CALL, JIFL_INSERTED_HIST };

static const struct jifl_place_kind {
	enum jifl_handle handle;	/* kind of handle that names the place */
	/* The names in jifl.h, for the log; by what is inserted. */
	const char *what[2];
	const char *of_functions[2];	/* NULL: the same */
	int (*begin)(struct jifl_wanted *w, const struct jifl_place *place);
	int (*insert)(struct jifl_wanted *w);
} jifl_places[] = {
	[JIFL_PLACE_POINT] = { JIFL_HANDLE_POINT, { "syscall_insert_call", "syscall_insert_hist" },
			       { "target_insert_call", "target_insert_hist" },
			       jifl_point_begin, jifl_point_insert },
	[JIFL_PLACE_ROUTINE] = { JIFL_HANDLE_ROUTINE,
				 { "routine_insert_call", "routine_insert_hist" }, {},
				 jifl_routine_begin, jifl_routine_insert },
	[JIFL_PLACE_ROUTINE_EXIT] = { JIFL_HANDLE_ROUTINE,
				      { "routine_insert_exit_call", "routine_insert_exit_hist" }, {},
				      jifl_exit_begin, jifl_exit_insert },
	[JIFL_PLACE_BB] = { JIFL_HANDLE_BB, { "bb_insert_call", "bb_insert_hist" }, {},
			    jifl_bb_begin, jifl_bb_insert },
	[JIFL_PLACE_INS] = { JIFL_HANDLE_INS, { "ins_insert_call", "ins_insert_hist" }, {},
			     jifl_ins_begin, jifl_ins_insert },
};

/*
 * 0; -EINVAL: there is no such kind of place; or a logged mistake: the handle is stale, or the
 * place does not exist there.
 */
static int jifl_insert_begin(struct jifl_plugin *p, const struct jifl_place *place,
			     enum jifl_inserted inserted, struct jifl_wanted *w)
{
	const struct jifl_place_kind *kind = &jifl_places[place->kind];
	const char *what;
	struct jifl_round *r;

	if (place->kind >= ARRAY_SIZE(jifl_places))
		return -EINVAL;
	what = kind->what[inserted];
	r = jifl_round_of(p, place->handle, kind->handle, what);
	if (!r)
		return -EPERM;
	if (r->of->functions && kind->of_functions[inserted])
		what = kind->of_functions[inserted];
	*w = (struct jifl_wanted){ .plugin = p, .what = what, .nr = r->of->nr,
				   .functions = r->of->functions };
	return kind->begin(w, place);
}

int jifl_insert_call(struct jifl_plugin *p, struct jifl_place place, void *fn, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, fn);
	ret = jifl_insert_begin(p, &place, JIFL_INSERTED_CALL, &w) ?: jifl_want_call(&w, fn, ap);
	va_end(ap);
	return ret ?: jifl_places[place.kind].insert(&w);
}
EXPORT_SYMBOL_GPL(jifl_insert_call);

int jifl_insert_hist(struct jifl_plugin *p, struct jifl_place place, hist_t *hist, int value, ...)
{
	struct jifl_wanted w;
	va_list ap;
	int ret;

	va_start(ap, value);
	ret = jifl_insert_begin(p, &place, JIFL_INSERTED_HIST, &w) ?:
	      jifl_want_hist(&w, hist, value, ap);
	va_end(ap);
	return ret ?: jifl_places[place.kind].insert(&w);
}
EXPORT_SYMBOL_GPL(jifl_insert_hist);
