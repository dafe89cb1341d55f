// SPDX-License-Identifier: GPL-2.0
/* The way a kernel is configured: no red zone, a return thunk, endbr64. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"

extern const char __x86_return_thunk[];

static const struct target *const tables[] = { targets_kernel, targets_asm };

static u64 entered, left;

__attribute__((target("general-regs-only"), noinline)) static void count(u64 *cell)
{
	++*cell;
}

static struct ir_insert call_count(u64 *cell)
{
	return (struct ir_insert){ .kind = IR_INSERT_CALL, .fn = (u64)(unsigned long)count,
				   .nargs = 1, .args = { (u64)(unsigned long)cell } };
}

static void run_all(int context, const char *mode)
{
	struct ir_insert before = call_count(&entered), after = call_count(&left);
	enum jifl_cause cause;
	const struct target *t;
	u32 i, round;
	u64 piece;

	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++) {
		for (t = tables[i]; t->name; t++) {
			piece = jifl_engine_entry_create(context,
							 jifl_orig_at((u64)(unsigned long)t->fn),
							 &before, 1, &after, 1, &cause);
			REQUIRE(piece);
			CHECK(!memcmp((const void *)(unsigned long)piece, "\xf3\x0f\x1e\xfa", 4));
			entered = left = 0;
			for (round = 0; round < 3; round++)
				CHECK(((target_fn)(unsigned long)piece)(t->n + round) ==
				      t->fn(t->n + round), "%s, %s", mode, t->name);
			CHECK_EQ(entered, 3);
			CHECK_EQ(left, 3);
		}
	}
}

static void run_modes(const void *return_thunk, const char *name)
{
	const struct insert_mode *mode;
	struct jifl_config config;
	char when[80];

	for (mode = insert_modes; mode->name; mode++) {
		snprintf(when, sizeof(when), "%s, %s", name, mode->name);
		config = user_host_kernel_config(UNIT_CODE, UNIT_SIDE, return_thunk);
		REQUIRE(!jifl_engine_init(&config));
		insert_begin();
		run_all(jifl_engine_context_create(mode->fn, NULL), when);
		check_cache(when);
		CHECK_EQ_IN(when, args_wrong, 0);
		CHECK_EQ_IN(when, terms_wrong, 0);
		CHECK_EQ_IN(when, hits_wrong, 0);
	}
}

UNIT_TEST(returns, "run/kernel: configured like a kernel, returns by ret")
{
	run_modes(NULL, "ret");
}

UNIT_TEST(thunk, "run/kernel: configured like a kernel, returns by thunk")
{
	run_modes(__x86_return_thunk, "return thunk");
}
