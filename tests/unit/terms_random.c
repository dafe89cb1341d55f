// SPDX-License-Identifier: GPL-2.0
/* Random ops of the engine's stack machine, by a seed: the same each time. */
#include "terms.h"
#include "unit.h"

extern const char terms_load_1[], terms_load_2[], terms_load_4[], terms_load_8[];
extern const char terms_ask[];
static u64 loads[4];

struct making {
	u64 state;
	struct ir_terms *t;
	bool full;
};

static u32 some(struct making *m, u32 n)
{
	m->state ^= m->state << 13;
	m->state ^= m->state >> 7;
	m->state ^= m->state << 17;
	return (u32)(m->state >> 20) % n;
}

static struct ir_term *add(struct making *m, u8 op)
{
	static struct ir_term none;
	struct ir_term *t = &none;

	if (m->t->n < IR_TERMS_MAX - 2)
		t = &m->t->terms[m->t->n++];
	else
		m->full = true;
	*t = (struct ir_term){ .op = op, .is_signed = some(m, 2), .width = 1 << some(m, 4) };
	return t;
}

static void add_const(struct making *m, u64 value)
{
	add(m, IR_TERM_CONST)->imm = value;
}

static void add_leaf(struct making *m)
{
	static const u64 values[] = { 0, 1, (u64)-1, 0x80000000, 0x7fffffff, 1ull << 63, 0xff };
	u8 reg;

	if (!some(m, 8)) {
		add(m, IR_TERM_ASK)->imm = (u64)(unsigned long)terms_ask;
		m->t->calls = true;
	} else if (!some(m, 8)) {
		struct ir_term *t = add(m, IR_TERM_CELL);

		t->width = 4 << some(m, 2);
		t->imm = (u64)(unsigned long)terms_memory;
	} else if (some(m, 3)) {
		reg = some(m, 15);
		reg += reg >= IR_RSP;
		add(m, IR_TERM_REG)->arg = reg;
		m->t->reads |= 1u << reg;
	} else {
		add_const(m, some(m, 2) ? values[some(m, 7)] : m->state);
	}
}

static void add_unary(struct making *m, u8 op)
{
	struct ir_term *t;

	if (op == IR_TERM_LOAD && some(m, 8)) {
		add_const(m, 0x7f);
		add(m, IR_TERM_AND);
		add_const(m, (u64)(unsigned long)terms_memory);
		add(m, IR_TERM_ADD);
	}
	t = add(m, op);
	if (op == IR_TERM_LOAD)
		t->imm = some(m, 100);
	m->t->calls |= op == IR_TERM_LOAD;
	if (op == IR_TERM_BITS) {
		t->imm = some(m, 64);
		t->arg = 1 + some(m, 64 - (u32)t->imm);
	}
}

static void add_binary(struct making *m, u8 op)
{
	if (op == IR_TERM_SHL || op == IR_TERM_SHR)
		op = IR_TERM_XOR;
	add(m, op);
}

static void add_expression(struct making *m, u32 depth)
{
	u32 at, kind = depth ? some(m, 8) : 0;

	if (kind < 2) {
		add_leaf(m);
	} else if (kind < 4) {
		add_expression(m, depth - 1);
		add_unary(m, IR_TERM_LOAD + some(m, 6));
	} else if (kind < 6) {
		add_expression(m, depth - 1);
		if (!some(m, 6)) {
			add_const(m, some(m, 70));
			add(m, IR_TERM_SHL + some(m, 2));
			return;
		}
		add_expression(m, depth - 1);
		add_binary(m, some(m, 2) ? IR_TERM_EQ + some(m, 4) : IR_TERM_ADD + some(m, 6));
	} else {
		add_expression(m, depth - 1);
		at = m->t->n;
		add(m, IR_TERM_SKIP_ZERO + some(m, 2));
		add_expression(m, depth - 1);
		if (!m->full)
			m->t->terms[at].arg = m->t->n - at - 1;
	}
}

/* rax || rcx || ... || r15: all registers are read, and none is left for anything else. */
static void add_any_register(struct making *m)
{
	enum { REGISTERS = 15, OPS = 2 * REGISTERS - 1 };
	const u32 from = m->t->n;
	u32 i;

	for (i = 0; i < REGISTERS; i++) {
		const u8 reg = i + (i >= IR_RSP);

		add(m, IR_TERM_REG)->arg = reg;
		m->t->reads |= 1u << reg;
		if (i + 1 < REGISTERS)
			add(m, IR_TERM_SKIP_NONZERO)->arg = from + OPS - m->t->n;
	}
}

/* Ops that no compiler would make. Their skips are checked below. */
static void add_walk(struct making *m)
{
	u32 depth = 0, i, n = 4 + some(m, 24);

	for (i = 0; i < n || depth != 1; i++) {
		if (!depth || (i < n && depth < 6 && !some(m, 3))) {
			add_leaf(m);
			depth++;
		} else if (depth > 1 && (i >= n || some(m, 2))) {
			add_binary(m, IR_TERM_ADD + some(m, IR_TERM_LE - IR_TERM_ADD + 1));
			depth--;
		} else if (depth > 1 && !some(m, 2)) {
			add(m, IR_TERM_SKIP_ZERO + some(m, 2))->arg = some(m, 5);
			depth--;
		} else {
			add_unary(m, IR_TERM_LOAD + some(m, 6));
		}
	}
}

static bool is_whole(const struct ir_terms *t)
{
	s32 wanted[2 * IR_TERMS_MAX], depth = 0;
	u32 i, to;

	memset(wanted, -1, sizeof(wanted));
	for (i = 0; i < t->n; i++) {
		const u8 op = t->terms[i].op;

		if (wanted[i] >= 0 && wanted[i] != depth)
			return false;
		if (op == IR_TERM_SKIP_ZERO || op == IR_TERM_SKIP_NONZERO) {
			to = i + 1 + t->terms[i].arg;
			if (to > t->n || (wanted[to] >= 0 && wanted[to] != depth))
				return false;
			wanted[to] = depth--;
		} else if (op <= IR_TERM_ASK) {
			depth++;
		} else if (op >= IR_TERM_ADD) {
			depth--;
		}
	}
	return depth == 1 && (wanted[t->n] < 0 || wanted[t->n] == 1);
}

void terms_set_loads(struct ir_terms *t)
{
	loads[0] = (u64)(unsigned long)terms_load_1;
	loads[1] = (u64)(unsigned long)terms_load_2;
	loads[2] = (u64)(unsigned long)terms_load_4;
	loads[3] = (u64)(unsigned long)terms_load_8;
	t->load = loads;
}

bool terms_make_numbers(struct ir_terms *t, u64 seed, u32 n)
{
	struct making m = { .state = seed * 0x9e3779b97f4a7c15 | 1, .t = t };
	u32 i;

	t->n = t->reads = 0;
	t->calls = false;
	for (i = 0; i < n; i++)
		add_expression(&m, 2);
	return !m.full;
}

void terms_make(struct ir_terms *t, u64 seed)
{
	struct making m = { .state = seed * 0x9e3779b97f4a7c15 | 1, .t = t };

	do {
		t->n = t->reads = 0;
		t->calls = m.full = false;
		if (!some(&m, 16))
			add_any_register(&m);
		else if (some(&m, 2))
			add_expression(&m, 3);
		else
			add_walk(&m);
	} while (m.full || !is_whole(t) || !jifl_engine_takes(t));
}
