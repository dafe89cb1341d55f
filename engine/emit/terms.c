// SPDX-License-Identifier: GPL-2.0
/*
 * Conditions as machine code; see terms.h.
 *
 * A number of the stack is not computed before it is needed: it is a constant, a register of the
 * kernel's, what flags say, or a register of this code's own (a temporary). So a comparison of a
 * register with a constant, at the end, is a cmp and a branch.
 *
 * Why the code gives what the ops give, whichever way leads to an op:
 *
 * 1. Code of an op stands behind the code of the op before it. An op takes its numbers from where
 *    the stack says they are, and puts its result into a temporary that holds no number of the
 *    stack, or into that of a number that it takes.
 * 2. A number that flags tell is on top: before anything else is pushed, or an op takes it that
 *    does not take flags, it goes into a temporary (settle).
 * 3. A skip leads to an op with its number on top, and with all below it where they were at the
 *    skip. Its number is in a temporary then, and the way that has not skipped moves its own into
 *    the same one (arrive). Nothing below is touched in between, or the ops have no code (below).
 *    A call moves numbers out of rax; so what lies below a skip is moved out before it.
 * 4. Where a skip leads to another skip, or to the end, its number is only asked whether it is 0.
 *    That is known. So the branch goes where this other skip, or the end, would go (lands).
 */
#include "terms.h"
#include "../base/plant.h"

enum { CC_B = 2, CC_BE = 6, CC_L = 12 };

enum number_kind {
	NUMBER_CONST,
	NUMBER_KEPT,		/* a register, as the kernel left it */
	NUMBER_TEMP,
	NUMBER_FLAGS,		/* 1 if condition code cc holds, else 0 */
};

struct number {
	u8 kind;		/* enum number_kind */
	u8 reg;
	u8 cc;
	u64 imm;
};

/* A branch to an op that has no code yet. */
struct skip {
	u32 field;		/* its rel32 */
	u16 to;			/* the op */
	u8 below;		/* numbers below its own */
	u8 reg;			/* its number is in here; IR_REG_NONE: it is not needed */
	bool bound;
};

struct gen {
	struct x86_writer *w;
	const struct ir_terms *t;
	const struct emit_saved *saved;
	struct terms_code *code;
	u8 order[16], norder;	/* temporaries, the cheapest first */
	struct number stack[IR_TERMS_STACK];
	u32 depth;
	struct skip skips[IR_TERMS_MAX];
	u32 nskips;
	u32 passes[IR_TERMS_MAX], npasses; /* rel32s: the condition holds */
	bool refused;
};

/* --- numbers ----------------------------------------------------------------------------- */

static struct ir_value in_reg(u8 reg)
{
	return (struct ir_value){ .kind = IR_VALUE_REG, .reg = reg, .index = IR_REG_NONE };
}

static struct ir_value constant(s64 value)
{
	return (struct ir_value){ .kind = IR_VALUE_IMM, .value = value };
}

static void op(struct gen *g, u8 code, u8 width, u8 reg, struct ir_value src)
{
	struct ir_step s = { .op = code, .width = width, .dst = in_reg(reg), .src = src };

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

static u8 temporary(struct gen *g)
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

static void put(struct gen *g, const struct number *n, u8 reg)
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

static void to_temporary(struct gen *g, struct number *n)
{
	u8 reg;

	if (n->kind == NUMBER_TEMP)
		return;
	reg = temporary(g);
	put(g, n, reg);
	*n = (struct number){ .kind = NUMBER_TEMP, .reg = reg };
}

/* A register that holds the number, to be read. */
static u8 to_register(struct gen *g, struct number *n)
{
	if (n->kind != NUMBER_KEPT)
		to_temporary(g, n);
	return n->reg;
}

static struct number *top(struct gen *g)
{
	return &g->stack[g->depth - 1];
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

/* Step 2. */
static void settle(struct gen *g)
{
	if (g->depth && top(g)->kind == NUMBER_FLAGS)
		to_temporary(g, top(g));
}

/* Step 3: the op takes so many numbers. */
static void take(struct gen *g, u32 n)
{
	u32 i;

	if (g->depth < n) {
		g->refused = true;
		g->depth = n;
	}
	for (i = 0; i < g->nskips; i++)
		if (!g->skips[i].bound && g->depth - n < g->skips[i].below)
			g->refused = true;
}

/* --- ops --------------------------------------------------------------------------------- */

static void leave_rax(struct gen *g, u32 n)
{
	u32 i;
	u8 reg;

	for (i = 0; i < n; i++)
		if (g->stack[i].kind == NUMBER_TEMP && g->stack[i].reg == IR_RAX) {
			reg = temporary(g);
			x86_mov(g->w, reg, IR_RAX);
			g->stack[i].reg = reg;
		}
}

static void extend(struct gen *g, u8 reg, u8 from, u8 width, bool is_signed)
{
	struct ir_step s = { .op = is_signed ? IR_OP_MOVSX : IR_OP_MOVZX, .width = 8,
			     .src_width = width, .dst = in_reg(reg), .src = in_reg(from) };

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

	leave_rax(g, g->depth - 1);
	put(g, top(g), IR_RAX);
	if (t->imm && jifl_fits_s32((s64)t->imm)) {
		op(g, IR_OP_ADD, 8, IR_RAX, constant((s64)t->imm));
	} else if (t->imm) {
		u8 reg = temporary(g);

		x86_mov_imm(g->w, reg, t->imm);
		op(g, IR_OP_ADD, 8, IR_RAX, in_reg(reg));
	}
	x86_call_out(g->w, g->t->load[log]);
	g->code->unknown[g->code->nunknown++] = x86_test_eax(g->w);
	if (t->is_signed)
		extend(g, IR_RAX, IR_RAX, t->width, true);
	g->code->changes |= 1u << IR_RAX;
	*top(g) = (struct number){ .kind = NUMBER_TEMP, .reg = IR_RAX };
}

static void ask(struct gen *g, const struct ir_term *t)
{
	leave_rax(g, g->depth);
	x86_call_out(g->w, t->imm);
	g->code->changes |= 1u << IR_RAX;
	push(g, NUMBER_TEMP)->reg = IR_RAX;
}

static void cell(struct gen *g, const struct ir_term *t)
{
	const u8 reg = temporary(g);
	struct ir_step s = { .op = IR_OP_MOV, .width = t->width, .segment = 0x65,
			     .dst = in_reg(reg),
			     .src = { .kind = IR_VALUE_MEM, .reg = IR_REG_NONE,
				      .index = IR_REG_NONE, .scale = 1, .value = (s64)t->imm } };

	x86_op(g->w, &s);
	push(g, NUMBER_TEMP)->reg = reg;
}

static void shift(struct gen *g, u8 code, u8 reg, u32 by)
{
	if (by)
		op(g, code, 8, reg, constant(by));
}

static void unary(struct gen *g, const struct ir_term *t)
{
	struct number *n = top(g);
	u8 from;

	if (t->op == IR_TERM_EXTEND) {
		from = to_register(g, n);
		if (n->kind != NUMBER_TEMP)
			*n = (struct number){ .kind = NUMBER_TEMP, .reg = temporary(g) };
		extend(g, n->reg, from, t->width, t->is_signed);
		return;
	}
	to_temporary(g, n);
	switch (t->op) {
	case IR_TERM_BITS:
		shift(g, IR_OP_SHL, n->reg, 64 - t->arg - (u32)t->imm);
		shift(g, t->is_signed ? IR_OP_SAR : IR_OP_SHR, n->reg, 64 - t->arg);
		break;
	case IR_TERM_NEGATE:
		op(g, IR_OP_NEG, 8, n->reg, in_reg(n->reg));
		break;
	default:
		op(g, IR_OP_NOT, 8, n->reg, in_reg(n->reg));
		break;
	}
}

/* top = !top */
static void not(struct gen *g)
{
	struct number *n = top(g);
	u8 reg;

	if (n->kind == NUMBER_FLAGS) {
		n->cc ^= 1;
		return;
	}
	reg = to_register(g, n);
	op(g, IR_OP_TEST, 8, reg, in_reg(reg));
	*n = (struct number){ .kind = NUMBER_FLAGS, .cc = X86_CC_E };
}

/* The right operand of an instruction: a constant, or a register. */
static struct ir_value operand(struct gen *g, struct number *n)
{
	if (n->kind == NUMBER_CONST && jifl_fits_s32((s64)n->imm))
		return constant((s64)n->imm);
	return in_reg(to_register(g, n));
}

static void compare(struct gen *g, const struct ir_term *t)
{
	struct number *left = top(g) - 1;
	u8 reg = to_register(g, left), cc;
	struct ir_value right = operand(g, top(g));

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
	op(g, IR_OP_CMP, 8, reg, right);
	g->depth--;
	*left = (struct number){ .kind = NUMBER_FLAGS, .cc = cc };
}

static void binary(struct gen *g, const struct ir_term *t)
{
	static const u8 codes[] = { [IR_TERM_ADD] = IR_OP_ADD, [IR_TERM_SUB] = IR_OP_SUB,
				    [IR_TERM_AND] = IR_OP_AND, [IR_TERM_OR] = IR_OP_OR,
				    [IR_TERM_XOR] = IR_OP_XOR };
	struct number *right = top(g), *left = right - 1;

	if (t->op == IR_TERM_SHL || t->op == IR_TERM_SHR) {
		if (right->kind != NUMBER_CONST) {
			g->refused = true;
			return;
		}
		to_temporary(g, left);
		shift(g, t->op == IR_TERM_SHL ? IR_OP_SHL : t->is_signed ? IR_OP_SAR : IR_OP_SHR,
		      left->reg, right->imm & 63);
	} else {
		to_temporary(g, left);
		if (t->op == IR_TERM_MUL)
			x86_imul(g->w, left->reg, to_register(g, right));
		else
			op(g, codes[t->op], 8, left->reg, operand(g, right));
	}
	g->depth--;
}

/* --- ways -------------------------------------------------------------------------------- */

/* Step 4. Where a number that is 0, or is not, goes on: *to is the op; *taken: it is not needed. */
static bool lands(const struct gen *g, u32 at, bool zero, u32 *to, bool *taken)
{
	const struct ir_term *t;

	*taken = false;
	for (*to = at; *to < g->t->n; *to += 1 + t->arg) {
		t = &g->t->terms[*to];
		if (t->op != IR_TERM_SKIP_ZERO && t->op != IR_TERM_SKIP_NONZERO)
			return true;
		if (zero != (t->op == IR_TERM_SKIP_ZERO)) {
			++*to;
			*taken = true;
			return true;
		}
	}
	return false;
}

/* Branches if the number on top is 0, or is not. */
static u32 branch_if(struct gen *g, bool zero)
{
	struct number *n = top(g);
	u8 reg;

	if (n->kind == NUMBER_FLAGS)
		return x86_jcc(g->w, zero ? n->cc ^ 1 : n->cc, 0);
	reg = to_register(g, n);
	op(g, IR_OP_TEST, 8, reg, in_reg(reg));
	return x86_jcc(g->w, zero ? X86_CC_E : X86_CC_NE, 0);
}

static void skip(struct gen *g, u32 at)
{
	const struct ir_term *t = &g->t->terms[at];
	const bool zero = t->op == IR_TERM_SKIP_ZERO;
	bool taken;
	u32 to;

	leave_rax(g, g->depth - 1);
	if (!lands(g, at + 1 + t->arg, zero, &to, &taken)) {
		if (zero)
			g->code->fails[g->code->nfails++] = branch_if(g, true);
		else
			g->passes[g->npasses++] = branch_if(g, false);
		g->depth--;
		return;
	}
	if (!taken)
		to_temporary(g, top(g));
	g->skips[g->nskips] = (struct skip){ .to = (u16)to, .below = (u8)(g->depth - 1),
					     .reg = taken ? IR_REG_NONE : top(g)->reg };
	g->skips[g->nskips++].field = branch_if(g, zero);
	g->depth--;
}

/* Ways that lead to op i end here: first those whose number is not needed. */
static void bind(struct gen *g, u32 i, bool kept)
{
	struct skip *s;

	for (s = g->skips; s < g->skips + g->nskips; s++)
		if (!s->bound && s->to == i && (s->reg != IR_REG_NONE) == kept) {
			x86_set_rel32(g->w, s->field, x86_here(g->w));
			s->bound = true;
		}
}

/* Step 3. */
static void arrive(struct gen *g, u32 i)
{
	const struct skip *s;

	bind(g, i, false);
	for (s = g->skips; s < g->skips + g->nskips; s++) {
		if (s->bound || s->to != i)
			continue;
		if (g->depth != s->below + 1u) {
			g->refused = true;
			return;
		}
		put(g, top(g), s->reg);
		*top(g) = (struct number){ .kind = NUMBER_TEMP, .reg = s->reg };
		/* Others that keep theirs have it elsewhere: rare. */
		for (; s < g->skips + g->nskips; s++)
			if (!s->bound && s->to == i && s->reg != top(g)->reg)
				g->refused = true;
		break;
	}
	bind(g, i, true);
}

/* --- all --------------------------------------------------------------------------------- */

static void term(struct gen *g, u32 i)
{
	const struct ir_term *t = &g->t->terms[i];

	take(g, t->op <= IR_TERM_ASK ? 0 :
		t->op >= IR_TERM_ADD && t->op <= IR_TERM_LE ? 2 : 1);
	if (t->op < IR_TERM_NOT || (t->op > IR_TERM_NOT && t->op < IR_TERM_SKIP_ZERO))
		settle(g);
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
	case IR_TERM_SKIP_ZERO:
	case IR_TERM_SKIP_NONZERO:
		skip(g, i);
		break;
	default:
		if (t->op >= IR_TERM_EQ)
			compare(g, t);
		else
			binary(g, t);
		break;
	}
}

/*
 * The registers that may be temporaries, the dead ones first. rax is where calls have their result,
 * and where flags are saved. A function that realigns its stack needs r10 for stack walks.
 */
static void find_temporaries(struct gen *g, u16 regs)
{
	static const u8 all[] = { IR_R11, IR_R9, IR_R8, IR_RCX, IR_RDX, IR_RSI, IR_RDI, IR_R10 };
	u32 i, live;

	for (live = 0; live < 2; live++)
		for (i = 0; i < sizeof(all); i++)
			if ((regs >> all[i] & 1) == live && !(g->t->reads & 1u << all[i]) &&
			    !(live && all[i] == IR_R10))
				g->order[g->norder++] = all[i];
}

bool emit_terms(struct x86_writer *w, const struct ir_terms *terms, const struct emit_saved *saved,
		u16 regs, struct terms_code *code)
{
	static struct gen g;	/* under the engine lock, like all scratch */
	u32 i;

	memset(&g, 0, sizeof(g));
	g.w = w;
	g.t = terms;
	g.saved = saved;
	g.code = code;
	code->changes = code->nfails = code->nunknown = 0;
	/* What the kernel has in rax would be lost at the first call. */
	if (!terms->n || (terms->calls && terms->reads & 1u << IR_RAX))
		return false;
	find_temporaries(&g, regs);
	for (i = 0; i < terms->n && !g.refused; i++) {
		arrive(&g, i);
		if (!g.refused)
			term(&g, i);
	}
	if (g.refused || g.depth != 1)
		return false;
	code->fails[code->nfails++] = branch_if(&g, !JIFL_PLANTED(terms_inverted));
	for (i = 0; i < g.npasses; i++)
		x86_set_rel32(w, g.passes[i], x86_here(w));
	return !g.refused;
}

bool emit_terms_have_code(const struct ir_terms *terms)
{
	static u8 scratch[TERMS_CODE];
	static struct terms_code code;
	const struct emit_saved none = { 0 };
	struct x86_writer w = { .buf = scratch, .cap = sizeof(scratch) };

	/* A branch may take more prefixes elsewhere. What an insert has room for is more. */
	return emit_terms(&w, terms, &none, 0xffff, &code) && !w.full;
}
