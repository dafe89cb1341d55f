// SPDX-License-Identifier: GPL-2.0
/*
 * The ops that compute numbers, as machine code; see terms.c. Registers of the kernel's are read,
 * never changed: what changes a number works on a temporary.
 */
#include "numbers.h"
#include "../base/plant.h"

enum { CC_B = 2, CC_BE = 6, CC_L = 12 };

/* --- numbers ----------------------------------------------------------------------------- */

void number_op(struct gen *g, u8 code, u8 width, u8 reg, struct ir_value src)
{
	struct ir_step s = { .op = code, .width = width, .dst = number_in_reg(reg), .src = src };

	x86_op(g->w, &s);
}

static bool is_used(const struct gen *g, u8 reg)
{
	u32 i;

	for (i = 0; i < g->depth; i++)
		if (g->stack[i].kind == NUMBER_TEMP && g->stack[i].reg == reg)
			return true;
	return false;
}

u8 number_temporary(struct gen *g)
{
	u32 i;

	for (i = 0; i < g->norder; i++)
		if (!is_used(g, g->order[i])) {
			g->code->changes |= 1u << g->order[i];
			return g->order[i];
		}
	g->refused = true;
	return IR_R11;
}

void number_put(struct gen *g, const struct number *n, u8 reg)
{
	switch (n->kind) {
	case NUMBER_CONST:
		x86_mov_imm(g->w, reg, n->imm);
		break;
	case NUMBER_FLAGS:
		x86_setcc(g->w, n->cc, reg);
		break;
	default:
		if (n->reg != reg)
			x86_mov(g->w, reg, n->reg);
		break;
	}
}

void number_to_temporary(struct gen *g, struct number *n)
{
	u8 reg;

	if (n->kind == NUMBER_TEMP)
		return;
	reg = number_temporary(g);
	number_put(g, n, reg);
	*n = (struct number){ .kind = NUMBER_TEMP, .reg = reg };
}

/* A register that holds the number, to be read. */
u8 number_to_register(struct gen *g, struct number *n)
{
	if (n->kind != NUMBER_KEPT)
		number_to_temporary(g, n);
	return n->reg;
}

static struct number *push(struct gen *g, u8 kind)
{
	struct number *n;

	if (g->depth == IR_TERMS_STACK) {
		g->refused = true;
		return &g->stack[0];
	}
	n = &g->stack[g->depth++];
	*n = (struct number){ .kind = kind };
	return n;
}

/* --- ops --------------------------------------------------------------------------------- */

void number_leave_rax(struct gen *g, u32 n)
{
	u32 i;
	u8 reg;

	for (i = 0; i < n; i++)
		if (g->stack[i].kind == NUMBER_TEMP && g->stack[i].reg == IR_RAX) {
			reg = number_temporary(g);
			x86_mov(g->w, reg, IR_RAX);
			g->stack[i].reg = reg;
		}
}

static void extend(struct gen *g, u8 reg, u8 from, u8 width, bool is_signed)
{
	struct ir_step s = { .op = is_signed ? IR_OP_MOVSX : IR_OP_MOVZX, .width = 8,
			     .src_width = width, .dst = number_in_reg(reg),
			     .src = number_in_reg(from) };

	if (width == 4 && !is_signed) {
		s.op = IR_OP_MOV;
		s.width = 4;
	}
	if (width < 8)
		x86_op(g->w, &s);
	else if (reg != from)
		x86_mov(g->w, reg, from);
}

static void load(struct gen *g, const struct ir_term *t)
{
	u8 log = t->width == 8 ? 3 : t->width >> 1;

	number_leave_rax(g, g->depth - 1);
	number_put(g, number_top(g), IR_RAX);
	if (t->imm && jifl_fits_s32((s64)t->imm)) {
		number_op(g, IR_OP_ADD, 8, IR_RAX, number_constant((s64)t->imm));
	} else if (t->imm) {
		u8 reg = number_temporary(g);

		x86_mov_imm(g->w, reg, t->imm);
		number_op(g, IR_OP_ADD, 8, IR_RAX, number_in_reg(reg));
	}
	x86_call_out(g->w, g->t->load[log]);
	g->code->unknown[g->code->nunknown++] = x86_test_eax(g->w);
	if (t->is_signed)
		extend(g, IR_RAX, IR_RAX, t->width, true);
	g->code->changes |= 1u << IR_RAX;
	*number_top(g) = (struct number){ .kind = NUMBER_TEMP, .reg = IR_RAX };
}

static void ask(struct gen *g, const struct ir_term *t)
{
	number_leave_rax(g, g->depth);
	x86_call_out(g->w, t->imm);
	g->code->changes |= 1u << IR_RAX;
	push(g, NUMBER_TEMP)->reg = IR_RAX;
}

static void cell(struct gen *g, const struct ir_term *t)
{
	const u8 reg = number_temporary(g);
	struct ir_step s = { .op = IR_OP_MOV, .width = t->width, .segment = 0x65,
			     .dst = number_in_reg(reg),
			     .src = { .kind = IR_VALUE_MEM, .reg = IR_REG_NONE,
				      .index = IR_REG_NONE, .scale = 1, .value = (s64)t->imm } };

	x86_op(g->w, &s);
	push(g, NUMBER_TEMP)->reg = reg;
}

static void shift(struct gen *g, u8 code, u8 reg, u32 by)
{
	if (by)
		number_op(g, code, 8, reg, number_constant(by));
}

static void unary(struct gen *g, const struct ir_term *t)
{
	struct number *n = number_top(g);
	u8 from;

	if (t->op == IR_TERM_EXTEND) {
		from = number_to_register(g, n);
		if (n->kind != NUMBER_TEMP)
			*n = (struct number){ .kind = NUMBER_TEMP, .reg = number_temporary(g) };
		extend(g, n->reg, from, t->width, t->is_signed);
		return;
	}
	number_to_temporary(g, n);
	switch (t->op) {
	case IR_TERM_BITS:
		shift(g, IR_OP_SHL, n->reg, 64 - t->arg - (u32)t->imm);
		shift(g, t->is_signed ? IR_OP_SAR : IR_OP_SHR, n->reg, 64 - t->arg);
		break;
	case IR_TERM_NEGATE:
		number_op(g, IR_OP_NEG, 8, n->reg, number_in_reg(n->reg));
		break;
	default:
		number_op(g, IR_OP_NOT, 8, n->reg, number_in_reg(n->reg));
		break;
	}
}

/* top = !top */
static void not(struct gen *g)
{
	struct number *n = number_top(g);
	u8 reg;

	if (n->kind == NUMBER_FLAGS) {
		n->cc ^= 1;
		return;
	}
	reg = number_to_register(g, n);
	number_op(g, IR_OP_TEST, 8, reg, number_in_reg(reg));
	*n = (struct number){ .kind = NUMBER_FLAGS, .cc = X86_CC_E };
}

struct ir_value number_operand(struct gen *g, struct number *n)
{
	if (n->kind == NUMBER_CONST && jifl_fits_s32((s64)n->imm))
		return number_constant((s64)n->imm);
	return number_in_reg(number_to_register(g, n));
}

static void compare(struct gen *g, const struct ir_term *t)
{
	struct number *left = number_top(g) - 1;
	u8 reg = number_to_register(g, left), cc;
	struct ir_value right = number_operand(g, number_top(g));

	switch (t->op) {
	case IR_TERM_EQ:
		cc = X86_CC_E;
		break;
	case IR_TERM_NE:
		cc = X86_CC_NE;
		break;
	case IR_TERM_LT:
		cc = t->is_signed && !JIFL_PLANTED(terms_unsigned) ? CC_L : CC_B;
		break;
	default:
		cc = t->is_signed ? X86_CC_LE : CC_BE;
		break;
	}
	number_op(g, IR_OP_CMP, 8, reg, right);
	g->depth--;
	*left = (struct number){ .kind = NUMBER_FLAGS, .cc = cc };
}

static void binary(struct gen *g, const struct ir_term *t)
{
	static const u8 codes[] = { [IR_TERM_ADD] = IR_OP_ADD, [IR_TERM_SUB] = IR_OP_SUB,
				    [IR_TERM_AND] = IR_OP_AND, [IR_TERM_OR] = IR_OP_OR,
				    [IR_TERM_XOR] = IR_OP_XOR };
	struct number *right = number_top(g), *left = right - 1;

	if (t->op == IR_TERM_SHL || t->op == IR_TERM_SHR) {
		if (right->kind != NUMBER_CONST) {
			g->refused = true;
			return;
		}
		number_to_temporary(g, left);
		shift(g, t->op == IR_TERM_SHL ? IR_OP_SHL : t->is_signed ? IR_OP_SAR : IR_OP_SHR,
		      left->reg, right->imm & 63);
	} else {
		number_to_temporary(g, left);
		if (t->op == IR_TERM_MUL)
			x86_imul(g->w, left->reg, number_to_register(g, right));
		else
			number_op(g, codes[t->op], 8, left->reg, number_operand(g, right));
	}
	g->depth--;
}

/* --- all --------------------------------------------------------------------------------- */

void emit_number(struct gen *g, const struct ir_term *t)
{
	switch (t->op) {
	case IR_TERM_CONST:
		push(g, NUMBER_CONST)->imm = t->imm;
		break;
	case IR_TERM_REG:
		push(g, NUMBER_KEPT)->reg = emit_saved_at(g->saved, t->arg);
		break;
	case IR_TERM_CELL:
		cell(g, t);
		break;
	case IR_TERM_ASK:
		ask(g, t);
		break;
	case IR_TERM_LOAD:
		load(g, t);
		break;
	case IR_TERM_EXTEND:
	case IR_TERM_BITS:
	case IR_TERM_NEGATE:
	case IR_TERM_INVERT:
		unary(g, t);
		break;
	case IR_TERM_NOT:
		not(g);
		break;
	default:
		if (t->op >= IR_TERM_EQ)
			compare(g, t);
		else
			binary(g, t);
		break;
	}
}
