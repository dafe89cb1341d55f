// SPDX-License-Identifier: GPL-2.0
/*
 * Arguments that are looked up; see args.h.
 *
 * The loads are a parallel move: the register of one argument may be the source of another. So an
 * argument is loaded when no pending argument reads its register. Where the arguments form a
 * circle, one register is copied to rax, r10 or r11, which hold no arguments and which calls may
 * change. One of the three is free: in a circle each argument's register is read by another
 * argument. n arguments read at most n registers, and these are the arguments' own. One register
 * more is read where some addresses have two registers; it is the same for all these addresses,
 * because it comes from an instruction's operand.
 */
#include "args.h"

struct loading {
	struct x86_writer *w;		/* NULL: only the changed registers are asked for */
	const struct ir_insert *ins;
	struct ir_fetch from[IR_CALL_ARGS];
	u8 pending;
	u16 changed;
};

static u16 read_by_others(const struct loading *l, u32 i)
{
	u16 regs = 0;
	u32 k;

	for (k = 0; k < IR_CALL_ARGS; k++)
		if (k != i && l->pending & 1u << k)
			regs |= ir_fetch_reads(&l->from[k]);
	return regs;
}

static struct ir_value memory(const struct ir_insert *ins, const struct ir_fetch *from)
{
	s32 pushed = from->base == IR_RSP ? ins->pushed * 8 : 0;

	return (struct ir_value){ .kind = IR_VALUE_MEM, .reg = from->base, .index = from->index,
				  .scale = from->scale, .value = from->disp + pushed };
}

static void put(struct x86_writer *w, u8 op, u8 width, enum ir_reg to, struct ir_value src)
{
	struct ir_step s = { .op = op, .width = width,
			     .dst = { .kind = IR_VALUE_REG, .reg = to }, .src = src };

	x86_op(w, &s);
}

static void load_cell(struct x86_writer *w, const struct ir_insert *ins,
		      const struct ir_fetch *from, enum ir_reg to)
{
	struct ir_value at = { .kind = IR_VALUE_MEM, .reg = to, .index = IR_REG_NONE };
	u32 i;

	x86_load_cell(w, to, (struct ir_operand){ .disp = from->disp, .gs = true });
	for (i = 0; from->how == IR_FETCH_THEN && i < JIFL_ARRAY_LEN(ins->then); i++) {
		at.value = ins->then[i];
		put(w, IR_OP_MOV, 8, to, at);
	}
}

void emit_arg(struct x86_writer *w, const struct ir_insert *ins, const struct ir_fetch *from,
	      enum ir_reg to)
{
	const struct ir_value reg = { .kind = IR_VALUE_REG, .reg = from->base };

	switch (from->how) {
	case IR_FETCH_REG:
		if (from->base != to)
			x86_mov(w, to, from->base);
		return;
	case IR_FETCH_REG32:
		put(w, IR_OP_MOV, 4, to, reg);
		return;
	case IR_FETCH_LOAD:
		put(w, IR_OP_MOV, 8, to, memory(ins, from));
		return;
	case IR_FETCH_LOAD32:
		put(w, IR_OP_MOV, 4, to, memory(ins, from));
		return;
	case IR_FETCH_ADDRESS:
		put(w, IR_OP_LEA, 8, to, memory(ins, from));
		return;
	case IR_FETCH_CONTEXT:	/* the call in call.c makes it right before */
		x86_mov(w, to, IR_RSP);
		return;
	default:
		load_cell(w, ins, from, to);
		return;
	}
}

static void load_free(struct loading *l, u32 i)
{
	l->pending &= ~(1u << i);
	l->changed |= 1u << ir_arg_regs[i];
	if (l->w)
		emit_arg(l->w, l->ins, &l->from[i], ir_arg_regs[i]);
}

/*
 * Copies the register of the first pending argument to a spare one. Arguments that read the
 * register then read the copy.
 */
static void break_circle(struct loading *l)
{
	static const u8 spare[] = { IR_R11, IR_R10, IR_RAX };
	u16 read = read_by_others(l, IR_CALL_ARGS);
	u8 i = 0, reg, to = 0;

	while (!(l->pending & 1u << i))
		i++;
	reg = ir_arg_regs[i];
	while (to + 1u < sizeof(spare) && read & 1u << spare[to])
		to++;
	l->changed |= 1u << spare[to];
	if (l->w)
		x86_mov(l->w, spare[to], reg);
	for (i = 0; i < IR_CALL_ARGS; i++) {
		if (l->from[i].base == reg)
			l->from[i].base = spare[to];
		if (l->from[i].index == reg)
			l->from[i].index = spare[to];
	}
}

static void load_all(struct loading *l)
{
	bool moved;
	u32 i;

	while (l->pending) {
		moved = false;
		for (i = 0; i < IR_CALL_ARGS; i++) {
			if (!(l->pending & 1u << i) || read_by_others(l, i) & 1u << ir_arg_regs[i])
				continue;
			load_free(l, i);
			moved = true;
		}
		if (!moved)
			break_circle(l);
	}
}

static struct loading loading_of(struct x86_writer *w, const struct ir_insert *ins, u8 mask)
{
	struct loading l = { .w = w, .ins = ins, .pending = ins->fetched & mask };

	memcpy(l.from, ins->fetches, sizeof(l.from));
	return l;
}

void emit_args(struct x86_writer *w, const struct ir_insert *ins, u8 mask)
{
	struct loading l = loading_of(w, ins, mask);

	load_all(&l);
}

u16 emit_args_changed(const struct ir_insert *ins, u8 mask)
{
	struct loading l = loading_of(NULL, ins, mask);

	load_all(&l);
	return l.changed;
}
