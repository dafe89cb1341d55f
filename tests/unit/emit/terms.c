// SPDX-License-Identifier: GPL-2.0
/* Which conditions get code; what the code computes: ../terms.c. */
#include "../../../engine/engine.h"
#include "../../../engine/ir/terms.h"
#include "../unit.h"

static const u64 loads[4];

static bool is_taken(const struct ir_term *terms, u16 n)
{
	struct ir_terms all = { .n = n, .load = loads };
	u16 i;

	for (i = 0; i < n; i++) {
		all.terms[i] = terms[i];
		if (terms[i].op == IR_TERM_REG)
			all.reads |= 1u << terms[i].arg;
	}
	return jifl_engine_takes(&all);
}

#define IS_TAKEN(...) \
	({ \
		static const struct ir_term terms_[] = { __VA_ARGS__ }; \
		is_taken(terms_, JIFL_ARRAY_LEN(terms_)); \
	})
#define REG(r)		{ .op = IR_TERM_REG, .arg = (r) }
#define SKIP_ZERO(n)	{ .op = IR_TERM_SKIP_ZERO, .arg = (n) }
#define OP(o)		{ .op = IR_TERM_##o }

/*
 * Where the first skip ends, its number is put into a temporary. That number lies below the second
 * skip's, whose temporary may be the same one.
 */
UNIT_TEST(crossing, "emit/terms: skips that cross have no code")
{
	CHECK(!IS_TAKEN(REG(IR_R12), SKIP_ZERO(3), REG(IR_RSI), REG(IR_R8), SKIP_ZERO(1),
			REG(IR_R9), OP(EQ)));
}

UNIT_TEST(nested, "emit/terms: skips within each other, and one behind the other, have code")
{
	CHECK(IS_TAKEN(REG(IR_R13), REG(IR_R12), SKIP_ZERO(5), REG(IR_RSI), SKIP_ZERO(1),
		       REG(IR_R8), REG(IR_R9), OP(ADD), OP(EQ)));
	CHECK(IS_TAKEN(REG(IR_R12), SKIP_ZERO(1), REG(IR_RSI), REG(IR_R8), SKIP_ZERO(1),
		       REG(IR_R9), OP(EQ)));
}
