// SPDX-License-Identifier: GPL-2.0
/*
 * Inlining of analysis routines; see inlined.h. Registers and flags that the specialised routine
 * changes and that the kernel still needs are saved around the routine. The routine's body neither
 * pushes nor pops.
 */
#include "args.h"
#include "inlined.h"
#include "save.h"
#include "../decode/decode.h"
#include "../instrument/specialise.h"

/* Less than EMIT_INSERT, for which there is room, and less than a short branch reaches. */
#define CODE_MAX	120
#define ROUTINES	4	/* decoded routines that are kept */

static struct ir_routine routines[ROUTINES];
static u32 next_routine;

/*
 * The last specialised routine, and the call that it was made for: the same call is often inserted
 * many times.
 */
static struct special special;
static struct {
	u64 fn;
	u64 args[IR_CALL_ARGS];
	u8 nargs, fetched;
} special_of;

/* What became of calls, by routine. */
static struct ir_inlined inlined[IR_INLINED_MAX];
static u32 ninlined;

void emit_inlined_forget(void)
{
	memset(routines, 0, sizeof(routines));
	special_of.fn = 0;
}

void emit_inlined_reset(void)
{
	ninlined = 0;
}

void emit_inlined_note(u64 fn, enum jifl_inline verdict)
{
	struct ir_inlined *f;
	u32 i;

	for (i = 0; i < ninlined && inlined[i].fn != fn; i++)
		;
	if (i == IR_INLINED_MAX)
		return;
	f = &inlined[i];
	if (i == ninlined) {
		*f = (struct ir_inlined){ .fn = fn };
		ninlined++;
	}
	if (verdict == JIFL_INLINE_YES) {
		f->copies++;
	} else {
		f->calls++;
		f->reason = verdict;
	}
}

bool emit_inlined_get(u32 i, struct ir_inlined *f)
{
	if (i >= ninlined)
		return false;
	*f = inlined[i];
	return true;
}

static const struct ir_routine *routine_of(u64 fn)
{
	struct ir_routine *r;
	u32 i;

	for (i = 0; i < ROUTINES; i++)
		if (routines[i].fn == fn)
			return &routines[i];
	r = &routines[next_routine++ % ROUTINES];
	r->verdict = jifl_decode_routine(fn, r);
	return r;
}

static void specialise(const struct ir_routine *r, const struct ir_insert *ins)
{
	if (special_of.fn == ins->fn && special_of.nargs == ins->nargs &&
	    special_of.fetched == ins->fetched &&
	    !memcmp(special_of.args, ins->args, ins->nargs * sizeof(ins->args[0])))
		return;
	jifl_specialise(r, ins, &special);
	special_of.fn = ins->fn;
	special_of.fetched = ins->fetched;
	special_of.nargs = ins->nargs;
	memcpy(special_of.args, ins->args, sizeof(special_of.args));
}

static void emit_item(struct x86_writer *w, const struct special_item *item)
{
	switch (item->kind) {
	case SPECIAL_STEP:
		if (item->step.changed)
			x86_op(w, &item->step);
		else
			x86_copy(w, &item->step.insn);
		break;
	case SPECIAL_CONSTANT:
		x86_mov_imm(w, item->reg, item->value);
		break;
	case SPECIAL_CALL:
		x86_call_out(w, item->value);
		break;
	}
}

/* Branches are short: a body that is longer than they reach is not used. */
static void emit_body(struct x86_writer *w)
{
	u32 at[SPECIAL_ITEMS + 1], branch[SPECIAL_ITEMS] = { 0 };
	const struct special_item *item;
	u16 k;

	for (k = 0; k < special.nitems; k++) {
		item = &special.items[k];
		at[k] = w->len;
		if (item->kind == SPECIAL_JCC)
			branch[k] = x86_jcc_short(w, item->step.insn.cc);
		else if (item->kind != SPECIAL_JUMP)
			emit_item(w, item);
		else if (item->to != k + 1)
			branch[k] = x86_jmp_short(w);
	}
	at[k] = w->len;
	if (w->len - at[0] > CODE_MAX)
		return;
	for (k = 0; k < special.nitems; k++) {
		item = &special.items[k];
		if (branch[k])
			x86_set_rel8(w, branch[k],
				     at[item->to == SPECIAL_END ? special.nitems : item->to]);
	}
}

bool emit_inlined_needs_registers(const struct ir_insert *ins)
{
	const struct ir_routine *r = routine_of(ins->fn);

	if (r->verdict != JIFL_INLINE_YES || (ins->without & IR_WITHOUT_INLINING) ||
	    ir_insert_context(ins))
		return true;
	specialise(r, ins);
	return special.full || special.registers || ins->fetched;
}

/* The looked-up arguments that the specialised routine uses. */
static u8 needed_args(const struct ir_insert *ins)
{
	u8 needed = 0;
	u32 i;

	for (i = 0; i < ins->nargs; i++)
		if (special.needs & 1u << ir_arg_regs[i])
			needed |= 1u << i;
	return needed & ins->fetched;
}

enum jifl_inline emit_inlined(struct x86_writer *w, const struct emit_config *config,
			      const struct ir_insert *ins, u8 flags, u16 regs, struct inlined *code)
{
	const struct ir_routine *r = routine_of(ins->fn);
	struct ir_insert with = *ins;
	u32 start = w->len;
	struct emit_saved saved;
	struct emit_body body;
	u8 needed;

	if (r->verdict != JIFL_INLINE_YES)
		return r->verdict;
	if (ir_insert_context(ins))
		return JIFL_INLINE_CONTEXT;
	specialise(r, ins);
	if (special.full)
		return JIFL_INLINE_LONG;
	if (special.calls && config->align_stack)
		return JIFL_INLINE_CALLS;
	/* A called function needs DF clear. */
	if (special.calls && (flags & IR_DF))
		return JIFL_INLINE_CALLS;
	needed = needed_args(ins);
	body = (struct emit_body){ .flags = special.flags & flags, .calls = special.calls,
				   .changes = special.registers | emit_args_changed(ins, needed),
				   .reads = ir_insert_reads(ins) };
	emit_save(w, config, &body, flags, regs, &saved);
	emit_saved_lookups(&saved, &with);
	code->body = x86_here(w);
	code->pushed += saved.pushed;
	emit_args(w, &with, needed);
	emit_body(w);
	code->restore = x86_here(w);
	emit_restore(w, config, &saved);
	code->end = x86_here(w);
	if (w->len - start <= CODE_MAX)
		return JIFL_INLINE_YES;
	w->len = start;
	return JIFL_INLINE_LONG;
}
