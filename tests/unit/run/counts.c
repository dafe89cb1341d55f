// SPDX-License-Identifier: GPL-2.0
/*
 * Counted instructions, compared with the processor's count: a child executes the same function
 * natively, one instruction after the other.
 */
#include "../inserts.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "native_count.h"

static const struct {
	const char *name;
	const struct target *table;
} tables[] = {
	{ "plain", targets_plain },
	{ "slow", targets_slow },
	{ "thunk", targets_thunk },
	{ "asm", targets_asm },
};

struct call {
	target_fn fn;
	unsigned long n;
};

static void make_call(void *arg)
{
	const struct call *c = arg;

	c->fn(c->n);
}

static u64 counted(jifl_instrument_fn fn, const u64 *counter, const struct target *t,
		   unsigned long n, bool warm)
{
	int context;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	context = jifl_engine_context_create(fn, NULL);
	if (warm)
		user_host_call(context, t->fn, n);
	insert_begin();
	user_host_call(context, t->fn, n);
	CHECK_EQ_IN(t->name, user_host_exits_total(), 0);
	return *counter;
}

/* Fewer rounds than elsewhere: 25 microseconds or more an instruction. */
static unsigned long rounds(const struct target *t)
{
	return t->n > 9 ? 7 + t->n / 40 : t->n;
}

UNIT_TEST(exact, "run/counts: counted instructions are those the processor executes")
{
	const struct target *t;
	unsigned long n;
	u64 native;
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++) {
		for (t = tables[i].table; t->name; t++) {
			/* Goes on natively by intent: it returns to a pushed address. */
			if (!strcmp(t->name, "returns"))
				continue;
			n = rounds(t);
			native = native_count(make_call, &(struct call){ t->fn, n },
					      (u64)(unsigned long)t->fn);
			CHECK_EQ_IN(t->name, counted(insert_block_count, &block_count, t, n, false),
				    native);
			CHECK_EQ_IN(t->name, counted(insert_block_count, &block_count, t, n, true),
				    native);
			CHECK_EQ_IN(t->name, counted(insert_ins_count, &ins_count, t, n, true),
				    native);
		}
	}
}

UNIT_TEST(branches, "run/counts: branches on a condition go where those of the processor go")
{
	const struct target *t;
	struct edges native;
	u64 all = 0, not_taken = 0;
	unsigned long n;
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++) {
		for (t = tables[i].table; t->name; t++) {
			if (!strcmp(t->name, "returns"))
				continue;
			n = rounds(t);
			counted(insert_edges, &edges.executed, t, n, i % 2);
			native = native_edges(make_call, &(struct call){ t->fn, n },
					      (u64)(unsigned long)t->fn);
			CHECK_EQ_IN(t->name, edges.executed, native.executed);
			CHECK_EQ_IN(t->name, edges.not_taken, native.not_taken);
			CHECK_EQ_IN(t->name, edges.taken, native.taken);
			all += native.executed;
			not_taken += native.not_taken;
		}
	}
	CHECK(all > 1000 && not_taken > 100 && not_taken < all, "%llu of %llu", not_taken, all);
}
