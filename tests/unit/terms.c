// SPDX-License-Identifier: GPL-2.0
/*
 * Random conditions of ops before each instruction, compiled; see inserts.h. Behind each stands a
 * call with all registers, which computes the same from the ops.
 */
#include <stdlib.h>

#include "inserts.h"
#include "terms.h"
#include "unit.h"

u64 terms_held, terms_wrong;
static u64 held_wanted, unknown, unknown_wanted;
static u64 *far_held;		/* those that are counted out of reach */

static struct context seen;

static void make_far_held(void)
{
	if (!far_held)
		far_held = insert_far_cell();
}

void terms_begin(void)
{
	make_far_held();
	terms_held = terms_wrong = *far_held = 0;
	held_wanted = unknown = unknown_wanted = 0;
}

/* --- computed from the ops: as analysis routines, without vector registers -------------------- */

#pragma GCC push_options
#pragma GCC target("general-regs-only")

/* memcpy may use vector registers. */
static void copy(void *to, const void *from, u64 n)
{
	asm volatile("rep movsb" : "+D" (to), "+S" (from), "+c" (n) : : "memory");
}

static u64 register_of(const struct context *c, u32 reg)
{
	const u64 regs[] = { c->rax, c->rcx, c->rdx, c->rbx, c->sp, c->rbp, c->rsi, c->rdi,
			     c->r8, c->r9, c->r10, c->r11, c->r12, c->r13, c->r14, c->r15 };

	return regs[reg];
}

static u64 low(u64 value, u32 bits, bool is_signed)
{
	const u64 mask = bits < 64 ? (1ull << bits) - 1 : ~0ull;

	value &= mask;
	if (is_signed && value >> (bits - 1) & 1)
		value |= ~mask;
	return value;
}

static bool load(const struct ir_term *t, u64 *top)
{
	const u64 at = *top + t->imm - (u64)(unsigned long)terms_memory;
	u64 value = 0;

	if (at > sizeof(terms_memory) - t->width)
		return false;
	copy(&value, terms_memory + at, t->width);
	*top = low(value, t->width * 8, t->is_signed);
	return true;
}

static u64 binary(const struct ir_term *t, u64 l, u64 r)
{
	switch (t->op) {
	case IR_TERM_ADD:
		return l + r;
	case IR_TERM_SUB:
		return l - r;
	case IR_TERM_MUL:
		return l * r;
	case IR_TERM_AND:
		return l & r;
	case IR_TERM_OR:
		return l | r;
	case IR_TERM_XOR:
		return l ^ r;
	case IR_TERM_SHL:
		return l << (r & 63);
	case IR_TERM_SHR:
		return t->is_signed ? (u64)((s64)l >> (r & 63)) : l >> (r & 63);
	case IR_TERM_EQ:
		return l == r;
	case IR_TERM_NE:
		return l != r;
	case IR_TERM_LT:
		return t->is_signed ? (s64)l < (s64)r : l < r;
	default:
		return t->is_signed ? (s64)l <= (s64)r : l <= r;
	}
}

bool terms_numbers(const struct ir_terms *terms, const struct context *c, u64 *stack)
{
	u64 *top = stack - 1;
	const struct ir_term *t;
	u32 i;

	for (i = 0; i < terms->n; i++) {
		t = &terms->terms[i];
		switch (t->op) {
		case IR_TERM_CONST:
			*++top = t->imm;
			break;
		case IR_TERM_REG:
			*++top = register_of(c, t->arg);
			break;
		case IR_TERM_ASK:
			*++top = 0x123456789;
			break;
		case IR_TERM_CELL:
			*++top = 0;
			copy(top, terms_memory, t->width);
			break;
		case IR_TERM_LOAD:
			if (!load(t, top))
				return false;
			break;
		case IR_TERM_EXTEND:
			*top = low(*top, t->width * 8, t->is_signed);
			break;
		case IR_TERM_BITS:
			*top = low(*top >> t->imm, t->arg, t->is_signed);
			break;
		case IR_TERM_NEGATE:
			*top = -*top;
			break;
		case IR_TERM_INVERT:
			*top = ~*top;
			break;
		case IR_TERM_NOT:
			*top = !*top;
			break;
		case IR_TERM_SKIP_ZERO:
		case IR_TERM_SKIP_NONZERO:
			if (!*top == (t->op == IR_TERM_SKIP_ZERO))
				i += t->arg;
			else
				top--;
			break;
		default:
			top--;
			*top = binary(t, *top, top[1]);
			break;
		}
	}
	return true;
}

/* 0, 1; -1: unknown */
static s32 holds(const struct ir_terms *terms, const struct context *c)
{
	u64 stack[IR_TERMS_STACK];

	return terms_numbers(terms, c, stack) ? !!stack[0] : -1;
}

/* The insert that is called where the terms hold. */
static void held(const struct context *c)
{
	terms_held++;
	copy(&seen, c, sizeof(seen));
}

static bool was_seen(const struct context *c)
{
	const u64 *a = (const u64 *)c, *b = (const u64 *)&seen;
	u32 i;

	for (i = 0; i < sizeof(*c) / sizeof(*a) && a[i] == b[i]; i++)
		;
	return i == sizeof(*c) / sizeof(*a);
}

static u64 held_ever(void)
{
	return terms_held + *far_held;
}

/* What is inserted somewhere. There are many, but only so many are kept. */
enum { KEPT = 1 << 14 };
struct inserted {
	u64 seed;
	bool calls;
	struct ir_terms terms;
};

static void check(const struct context *c, const struct inserted *in, u64 seed)
{
	const bool kept = in->seed == seed;
	s32 wanted = kept ? holds(&in->terms, c) : 0;

	held_wanted += wanted > 0;
	unknown_wanted += wanted < 0;
	if (kept && (held_ever() != held_wanted || unknown != unknown_wanted ||
		     (in->calls && wanted > 0 && !was_seen(c)))) {
		if (!terms_wrong++)
			unit_fail(__FILE__, __LINE__, "terms", "seed %#llx: %d", seed, wanted);
	}
	held_wanted = held_ever();
	unknown_wanted = unknown;
}

#pragma GCC pop_options

/* --- inserts ---------------------------------------------------------------------------------- */

static struct ir_insert *call(struct ir_insert *ins, const struct ir_block *b, u16 i, u64 fn)
{
	ins->kind = IR_INSERT_CALL;
	ins->fn = fn;
	ins->nargs = 3;
	ins->fetched = 1;
	ins->fetches[0] = (struct ir_fetch){ .how = IR_FETCH_CONTEXT,
					     .disp = (s32)b->insns[i].addr.v };
	return ins;
}

void insert_terms(struct ir_block *b, void *arg)
{
	/* Not in the program: tables are made for all of its addresses (host/user/targets.c). */
	static struct inserted *all;
	static u32 next;
	struct inserted *in;
	struct ir_insert *ins;
	u64 mixed;
	u16 i;

	make_far_held();
	if (!all)
		all = calloc(KEPT, sizeof(*all));
	for (i = 0; i < b->ninsns && ir_block_has_room(b, IR_INSERT_LONG + 1); i++) {
		in = &all[next++ % KEPT];
		in->seed = b->insns[i].addr.v + (insert_seed << 32);
		mixed = in->seed * 0x9e3779b97f4a7c15;
		in->calls = mixed >> 40 & 1;
		terms_set_loads(&in->terms);
		terms_make(&in->terms, in->seed);
		ins = ir_block_insert_long(b, IR_BEFORE, i);
		if (in->calls) {
			call(ins, b, i, (u64)(unsigned long)held);
		} else {
			ins->kind = IR_INSERT_COUNT;
			ins->counter = (u64)(unsigned long)(mixed >> 41 & 1 ? far_held :
									      &terms_held);
		}
		ins->terms = &in->terms;
		ins->unknown = (u64)(unsigned long)&unknown;
		ins->keeps = (u16)(mixed >> 48);
		ins->keeps_flags = mixed >> 41 & 1;
		ins = call(ir_block_insert(b, IR_BEFORE, i), b, i, (u64)(unsigned long)check);
		ins->args[1] = (u64)(unsigned long)in;
		ins->args[2] = in->seed;
	}
}
