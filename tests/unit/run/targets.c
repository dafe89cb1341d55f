// SPDX-License-Identifier: GPL-2.0
/* Ordinary functions through the cache: results equal to the native ones. */
#include "../targets/targets.h"
#include "../unit.h"

static const struct target *const tables[] = {
	targets_plain, targets_slow, targets_thunk, targets_asm,
};

/* Runs every target three times: translating, with links made, with caches warm. */
static void run_all(int context)
{
	const struct target *t;
	unsigned long want, have;
	u32 i, round;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++) {
		for (t = tables[i]; t->name; t++) {
			for (round = 0; round < 3; round++) {
				want = t->fn(t->n + round);
				have = user_host_call(context, t->fn, t->n + round);
				CHECK(want == have, "table %u, %s(%lu): %#lx, natively %#lx",
				      i, t->name, t->n + round, have, want);
			}
		}
	}
}

UNIT_TEST(plain, "run/targets: with nothing inserted")
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	run_all(jifl_engine_context_create(NULL, NULL));
}

static u64 executed;

static void count_anywhere(struct ir_block *b, void *arg)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	ins->kind = IR_INSERT_ADD;
	ins->cell = user_host_operand(arg);
	ins->imm = (s32)b->count;
}

UNIT_TEST(counted, "run/targets: with a counter in every block")
{
	user_host_init(UNIT_CODE, UNIT_SIDE);
	run_all(jifl_engine_context_create(count_anywhere, &executed));
	CHECK(executed > 10000, "only %llu instructions", executed);
}
