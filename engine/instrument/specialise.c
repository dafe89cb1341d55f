// SPDX-License-Identifier: GPL-2.0
/*
 * Specialisation of analysis routines; see specialise.h. Method:
 *
 * 1. Constants are propagated forward over the routine's steps until nothing changes any more
 *    (fold.c evaluates), and liveness backward.
 * 2. The steps are gone through once. A constant is loaded into its register only when an
 *    instruction needs it there. So instructions that only made constants are left out.
 */
#include "fold.h"
#include "specialise.h"
#include "../base/plant.h"

#define ALL_REGS 0xffff
/* System V ABI 3.2.3: changed by a call, and read by one */
#define CALL_CHANGES (1u << IR_RAX | 1u << IR_RCX | 1u << IR_RDX | 1u << IR_RSI | 1u << IR_RDI | \
		      1u << IR_R8 | 1u << IR_R9 | 1u << IR_R10 | 1u << IR_R11)
#define CALL_READS (1u << IR_RAX | 1u << IR_RCX | 1u << IR_RDX | 1u << IR_RSI | 1u << IR_RDI | \
		    1u << IR_R8 | 1u << IR_R9)

/* Before each step; under the engine lock, like all scratch. */
static struct fold_state before[IR_ROUTINE_STEPS + 1];
static u16 live_regs[IR_ROUTINE_STEPS + 1];
static u8 live_flags[IR_ROUTINE_STEPS + 1];

static bool is_return(const struct ir_routine *r, u16 i)
{
	const struct ir_insn *insn = &r->steps[i].insn;

	return insn->kind == IR_RET || insn->kind == IR_RET_THUNK ||
	       (insn->kind == IR_JMP && r->steps[i].to == r->nsteps);
}

static bool calls_out(const struct ir_routine *r, u16 i)
{
	const struct ir_insn *insn = &r->steps[i].insn;

	return insn->kind == IR_CALL || (insn->kind == IR_JMP && r->steps[i].to == r->nsteps);
}

/* Where step i leads, when after[i] is known behind it. Entry r->nsteps: the end. -1: nowhere. */
static void successors(const struct ir_routine *r, u16 i, const struct fold_state *after,
		       int next[2])
{
	const struct ir_step *s = &r->steps[i];
	int taken;

	next[0] = i + 1;
	next[1] = -1;
	if (is_return(r, i)) {
		next[0] = r->nsteps;
	} else if (s->insn.kind == IR_JMP) {
		next[0] = s->to;
	} else if (s->insn.kind == IR_JCC) {
		taken = fold_condition(after, s->insn.cc);
		if (taken > 0)
			next[0] = s->to;
		else if (taken < 0)
			next[1] = s->to;
	}
}

static void after_step(const struct ir_routine *r, u16 i, struct fold_state *state)
{
	*state = before[i];
	if (calls_out(r, i)) {
		fold_forget(state, CALL_CHANGES);
		fold_forget_flags(state);
	} else if (r->steps[i].insn.kind == IR_PLAIN) {
		fold_step(&r->steps[i], state);
	}
}

static void propagate(const struct ir_routine *r, const struct ir_insert *ins)
{
	struct fold_state after;
	bool changed = true;
	int next[2];
	u32 i, k;

	memset(before, 0, sizeof(before));
	before[0].reached = true;
	for (i = 0; i < ins->nargs; i++)
		if (!(ins->fetched & 1u << i))
			fold_set(&before[0], ir_arg_regs[i], ins->args[i]);
	while (changed) {
		changed = false;
		for (i = 0; i < r->nsteps; i++) {
			if (!before[i].reached)
				continue;
			after_step(r, (u16)i, &after);
			successors(r, (u16)i, &after, next);
			for (k = 0; k < 2; k++)
				if (next[k] >= 0 && next[k] <= r->nsteps)
					changed |= fold_meet(&before[next[k]], &after);
		}
	}
}

static void live_before(const struct ir_routine *r, u16 i, u16 *regs, u8 *flags)
{
	const struct ir_step *s = &r->steps[i];

	if (calls_out(r, i)) {
		*regs = (*regs & ~CALL_CHANGES) | CALL_READS;
		*flags = 0;
	} else {
		*regs = (*regs & ~(s->writes & ~s->reads)) | s->reads;
		*flags = (*flags & ~s->insn.flags_written) | s->insn.flags_read;
	}
}

static void look_back(const struct ir_routine *r)
{
	struct fold_state after;
	bool changed = true;
	int next[2];
	u16 i, regs, k;
	u8 flags;

	memset(live_regs, 0, sizeof(live_regs));
	memset(live_flags, 0, sizeof(live_flags));
	while (changed) {
		changed = false;
		for (i = r->nsteps; i-- > 0;) {
			after_step(r, i, &after);
			successors(r, i, &after, next);
			regs = 0;
			flags = 0;
			for (k = 0; k < 2; k++) {
				if (next[k] < 0)
					continue;
				regs |= live_regs[next[k]];
				flags |= live_flags[next[k]];
			}
			live_before(r, i, &regs, &flags);
			changed |= regs != live_regs[i] || flags != live_flags[i];
			live_regs[i] = regs;
			live_flags[i] = flags;
		}
	}
}

/* --- going through the steps ------------------------------------------------------------ */

struct making {
	const struct ir_routine *r;
	struct special *s;
	u16 have;		/* registers that hold the constants which they are known to have */
	u8 item_of[IR_ROUTINE_STEPS + 1];
};

static struct special_item *add(struct special *s, u8 kind)
{
	struct special_item *item;

	if (s->nitems == SPECIAL_ITEMS) {
		s->full = true;
		return &s->items[0];
	}
	item = &s->items[s->nitems++];
	memset(item, 0, sizeof(*item));
	item->kind = kind;
	return item;
}

/* Loads the constants of those of the registers that are known but not loaded yet. */
static void load(struct making *m, const struct fold_state *state, u16 regs)
{
	struct special_item *item;
	u8 reg;

	regs &= state->known & ~m->have;
	if (JIFL_PLANTED(constant_not_loaded))
		regs = 0;
	for (reg = 0; reg < 16; reg++) {
		if (!(regs & 1u << reg))
			continue;
		item = add(m->s, SPECIAL_CONSTANT);
		item->reg = reg;
		item->value = state->values[reg];
		m->s->registers |= 1u << reg;
	}
	m->have |= regs;
}

/* A register that is no longer known on one of the next ways must hold its value. */
static void load_for(struct making *m, const struct fold_state *after, const int next[2])
{
	u16 regs = 0;
	u32 k;

	for (k = 0; k < 2; k++)
		if (next[k] >= 0)
			regs |= live_regs[next[k]] & after->known & ~before[next[k]].known;
	load(m, after, regs);
}

static bool is_label(const struct ir_routine *r, u16 i)
{
	u16 k;

	for (k = 0; k < r->nsteps; k++)
		if ((r->steps[k].insn.kind == IR_JMP || r->steps[k].insn.kind == IR_JCC) &&
		    r->steps[k].to == i)
			return true;
	return false;
}

/* True when the only effect of the step is a register that is known, or that nothing reads. */
static bool is_needless(const struct ir_step *s, u16 i, const struct fold_state *after)
{
	u16 needed = live_regs[i + 1] & s->writes;

	if (s->insn.flags_read && !s->writes)
		return false;
	if (s->dst.kind != IR_VALUE_REG && s->op != IR_OP_CMP && s->op != IR_OP_TEST)
		return false;
	return !ir_op_is_other(s) && !(s->flags_touched & live_flags[i + 1]) &&
	       !(needed & ~after->known) && s->src.kind != IR_VALUE_MEM;
}

static void make_step(struct making *m, u16 i, const struct fold_state *after)
{
	const struct ir_step *s = &m->r->steps[i];
	struct special_item *item;
	u16 regs;

	if (s->insn.kind == IR_NOP)
		return;
	if (is_needless(s, i, after)) {
		m->have &= ~s->writes;
		return;
	}
	/*
	 * Before the operands are put in: the registers that remain are those that the step reads.
	 */
	item = add(m->s, SPECIAL_STEP);
	item->step = *s;
	regs = fold_operands(&item->step, &before[i]);
	if (regs & before[i].known & ~m->have) {
		struct ir_step step = item->step;

		m->s->nitems--;
		load(m, &before[i], regs);
		item = add(m->s, SPECIAL_STEP);
		item->step = step;
	}
	m->s->registers |= s->writes;
	m->s->flags |= s->flags_touched;
	/* A written register holds what is known about it, if anything is known. */
	m->have = (m->have & ~s->writes) | (s->writes & after->known);
}

static void make_call(struct making *m, u16 i)
{
	struct special_item *item;

	load(m, &before[i], CALL_READS & live_regs[i]);
	item = add(m->s, SPECIAL_CALL);
	item->value = m->r->steps[i].insn.target.v;
	m->s->calls = true;
	m->s->registers |= CALL_CHANGES;
	m->s->flags = IR_FLAGS;
	m->have &= ~CALL_CHANGES;
}

static void make_branch(struct making *m, const struct ir_step *s, const int next[2], u16 i)
{
	struct special_item *item;

	if (next[1] >= 0) {
		item = add(m->s, SPECIAL_JCC);
		item->step = *s;
		item->to = s->to;
	} else if (next[0] != i + 1 || next[0] == m->r->nsteps) {
		item = add(m->s, SPECIAL_JUMP);
		item->to = (u8)next[0];
	}
}

static void make(struct making *m, u16 i)
{
	const struct ir_step *s = &m->r->steps[i];
	struct fold_state after;
	int next[2];

	if (is_label(m->r, i))
		m->have = 0;
	after_step(m->r, i, &after);
	successors(m->r, i, &after, next);
	if (calls_out(m->r, i))
		make_call(m, i);
	else if (s->insn.kind == IR_PLAIN || s->insn.kind == IR_NOP)
		make_step(m, i, &after);
	load_for(m, &after, next);
	if (s->insn.kind != IR_PLAIN && s->insn.kind != IR_NOP && s->insn.kind != IR_CALL)
		make_branch(m, s, next, i);
}

/*
 * From numbers of steps to numbers of items. A jump to the end is left out where it stands at the
 * end.
 */
static void set_jumps(struct making *m)
{
	struct special *s = m->s;
	struct special_item *item;
	u16 k;

	for (k = 0; k < s->nitems; k++) {
		item = &s->items[k];
		if (item->kind == SPECIAL_JUMP || item->kind == SPECIAL_JCC)
			item->to = m->item_of[item->to];
	}
	while (s->nitems && s->items[s->nitems - 1].kind == SPECIAL_JUMP &&
	       s->items[s->nitems - 1].to >= s->nitems)
		s->nitems--;
	for (k = 0; k < s->nitems; k++)
		if (s->items[k].to >= s->nitems)
			s->items[k].to = SPECIAL_END;
}

void jifl_specialise(const struct ir_routine *r, const struct ir_insert *ins, struct special *s)
{
	struct making m = { .r = r, .s = s };
	u16 i;

	propagate(r, ins);
	look_back(r);
	s->needs = live_regs[0] & ~before[0].known;
	s->nitems = 0;
	s->full = s->calls = false;
	s->registers = s->flags = 0;
	for (i = 0; i < r->nsteps; i++) {
		m.item_of[i] = (u8)s->nitems;
		if (before[i].reached)
			make(&m, i);
	}
	m.item_of[i] = (u8)s->nitems;
	set_jumps(&m);
}
