// SPDX-License-Identifier: GPL-2.0
/* Ordinary functions through the cache: results equal to the native ones. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"

static const struct target *const tables[] = {
	targets_plain, targets_slow, targets_thunk, targets_asm,
};

/* Runs every target three times: translating, with links made, with caches warm. */
static void run_all(int context, const char *mode)
{
	const struct target *t;
	unsigned long want, have;
	u32 i, round;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++) {
		for (t = tables[i]; t->name; t++) {
			for (round = 0; round < 3; round++) {
				want = t->fn(t->n + round);
				have = user_host_call(context, t->fn, t->n + round);
				CHECK(want == have, "%s, table %u, %s(%lu): %#lx, natively %#lx",
				      mode, i, t->name, t->n + round, have, want);
			}
		}
	}
}

static u64 hist_total(void)
{
	u64 n = 0;
	u32 i;

	for (i = 0; i < IR_HIST_BUCKETS; i++)
		n += hist_cells[i];
	return n;
}

UNIT_TEST(all_modes, "run/targets: functions give their native results, whatever is inserted")
{
	const struct insert_mode *mode;

	for (mode = insert_modes; mode->name; mode++) {
		/* With each form of lookups. */
		if ((mode - insert_modes) % 2)
			user_host_init_jumping(UNIT_CODE, UNIT_SIDE, true);
		else
			user_host_init(UNIT_CODE, UNIT_SIDE);
		insert_begin();
		run_all(jifl_engine_context_create(mode->fn, NULL), mode->name);
		check_cache(mode->name);
		CHECK_EQ_IN(mode->name, poison_misaligned, 0);
		CHECK_EQ_IN(mode->name, poison_backwards, 0);
		CHECK_EQ_IN(mode->name, args_wrong, 0);
		CHECK_EQ_IN(mode->name, terms_wrong, 0);
		CHECK_EQ_IN(mode->name, hits_wrong, 0);
		CHECK(!mode->fn || block_count + ins_count + last_block + poison_calls +
				   args_calls + records_cell + hist_total() + edges.executed +
				   near_count + terms_held + hits_recorded + hits_left,
		      "%s: nothing was inserted", mode->name);
	}
}

/* One cache for all of them: contexts do not get into each other's way. */
UNIT_TEST(together, "run/targets: contexts side by side in one cache")
{
	int contexts[INSERT_MODES];
	u32 i, n = 0;

	user_host_init(16 << 20, 16 << 20);
	insert_begin();
	for (n = 0; insert_modes[n].name; n++)
		contexts[n] = jifl_engine_context_create(insert_modes[n].fn, NULL);
	for (i = 0; i < 2 * n; i++)
		run_all(contexts[i % n], insert_modes[i % n].name);
	check_cache("all contexts");
}
