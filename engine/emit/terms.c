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
 *    the same one (arrive). Nothing below is touched in between, by an op or where another skip
 *    ends, or the ops have no code (take). A call moves numbers out of rax; so what lies below a
 *    skip is moved out before it.
 * 4. Where a skip leads to another skip, or to the end of a condition, its number is only asked
 *    whether it is 0. That is known. So the branch goes where this other skip, or the end, would go
 *    (lands).
 */
#include "numbers.h"
#include "../base/plant.h"

/* --- the stack --------------------------------------------------------------------------- */

/* Step 2. */
static void settle(struct gen *g)
{
	if (g->depth && number_top(g)->kind == NUMBER_FLAGS)
		number_to_temporary(g, number_top(g));
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

/* --- ways -------------------------------------------------------------------------------- */

/*
 * Step 4. Where a number that is 0, or is not, goes on: *to is the op; *taken: it is not needed.
 * false: that is behind the end, and nothing else is asked.
 */
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
	return g->numbers;
}

/* Branches if the number on top is 0, or is not. */
static u32 branch_if(struct gen *g, bool zero)
{
	struct number *n = number_top(g);
	u8 reg;

	if (n->kind == NUMBER_FLAGS)
		return x86_jcc(g->w, zero ? n->cc ^ 1 : n->cc, 0);
	reg = number_to_register(g, n);
	number_op(g, IR_OP_TEST, 8, reg, number_in_reg(reg));
	return x86_jcc(g->w, zero ? X86_CC_E : X86_CC_NE, 0);
}

static void skip(struct gen *g, u32 at)
{
	const struct ir_term *t = &g->t->terms[at];
	const bool zero = t->op == IR_TERM_SKIP_ZERO;
	bool taken;
	u32 to;

	number_leave_rax(g, g->depth - 1);
	if (!lands(g, at + 1 + t->arg, zero, &to, &taken)) {
		if (zero)
			g->code->fails[g->code->nfails++] = branch_if(g, true);
		else
			g->passes[g->npasses++] = branch_if(g, false);
		g->depth--;
		return;
	}
	if (!taken)
		number_to_temporary(g, number_top(g));
	g->skips[g->nskips] = (struct skip){ .to = (u16)to, .below = (u8)(g->depth - 1),
					     .reg = taken ? IR_REG_NONE : number_top(g)->reg };
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
		/* It may lie below another skip's number. */
		take(g, 1);
		number_put(g, number_top(g), s->reg);
		*number_top(g) = (struct number){ .kind = NUMBER_TEMP, .reg = s->reg };
		/* Others that keep theirs have it elsewhere: rare. */
		for (; s < g->skips + g->nskips; s++)
			if (!s->bound && s->to == i && s->reg != number_top(g)->reg)
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
	if (t->op >= IR_TERM_SKIP_ZERO)
		skip(g, i);
	else
		emit_number(g, t);
}

/*
 * The registers that may be temporaries, the dead ones first. rax is where calls have their result,
 * and where flags are saved. A function that realigns its stack needs r10 for stack walks. What
 * appends numbers to a record needs rdx.
 */
static void find_temporaries(struct gen *g, u16 regs)
{
	static const u8 all[] = { IR_R11, IR_R9, IR_R8, IR_RCX, IR_RDX, IR_RSI, IR_RDI, IR_R10,
				  IR_RBX, IR_R15, IR_R14 };
	u32 i, live;

	for (live = 0; live < 2; live++)
		for (i = 0; i < sizeof(all); i++)
			if ((regs >> all[i] & 1) == live && !(g->t->reads & 1u << all[i]) &&
			    !(live && all[i] == IR_R10) && !(g->numbers && all[i] == IR_RDX))
				g->order[g->norder++] = all[i];
}

static struct gen made;	/* under the engine lock, like all scratch */

static bool emit_all(struct x86_writer *w, const struct ir_terms *terms,
		     const struct emit_saved *saved, u16 regs, bool numbers,
		     struct terms_code *code)
{
	u32 i;

	memset(&made, 0, sizeof(made));
	made.numbers = numbers;
	made.w = w;
	made.t = terms;
	made.saved = saved;
	made.code = code;
	code->changes = code->nfails = code->nunknown = 0;
	/* What the kernel has in rax would be lost at the first call. */
	if ((!terms->n && !numbers) || (terms->calls && terms->reads & 1u << IR_RAX))
		return false;
	find_temporaries(&made, regs);
	for (i = 0; i < terms->n && !made.refused; i++) {
		arrive(&made, i);
		if (!made.refused)
			term(&made, i);
	}
	return !made.refused;
}

bool emit_terms(struct x86_writer *w, const struct ir_terms *terms, const struct emit_saved *saved,
		u16 regs, struct terms_code *code)
{
	u32 i;

	if (!emit_all(w, terms, saved, regs, false, code) || made.depth != 1)
		return false;
	code->fails[code->nfails++] = branch_if(&made, !JIFL_PLANTED(terms_inverted));
	for (i = 0; i < made.npasses; i++)
		x86_set_rel32(w, made.passes[i], x86_here(w));
	return !made.refused;
}

u8 emit_numbers_scratch(void)
{
	const u8 reg = number_temporary(&made);

	if (made.refused || made.depth == IR_TERMS_STACK)
		return IR_REG_NONE;
	made.stack[made.depth++] = (struct number){ .kind = NUMBER_TEMP, .reg = reg };
	return reg;
}

bool emit_numbers(struct x86_writer *w, const struct ir_terms *terms,
		  const struct emit_saved *saved, u16 regs, struct terms_code *code,
		  u32 n, struct ir_value *values)
{
	u32 i;

	if (!emit_all(w, terms, saved, regs, true, code))
		return false;
	/* Skips may lead to the end. */
	arrive(&made, terms->n);
	if (made.refused || made.depth != n)
		return false;
	settle(&made);
	number_leave_rax(&made, n);
	for (i = 0; i < n; i++)
		values[i] = number_operand(&made, &made.stack[i]);
	return !made.refused;
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
