// SPDX-License-Identifier: GPL-2.0
/* Limited contexts: wherever code leaves one, it does what it does natively. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"
#include "../../../engine/cache/cache.h"

#define SEEDS	8

static const struct target *const tables[] = {
	targets_plain, targets_slow, targets_thunk, targets_kernel, targets_asm,
};

/* All calls leave. */
static bool calls_leave(jifl_orig from, jifl_orig to, bool call, void *arg)
{
	(void)from;
	(void)to;
	(void)arg;
	return call;
}

/* Half of all places leave, wherever in a function they are; arg: which half. */
static bool half_leaves(jifl_orig from, jifl_orig to, bool call, void *arg)
{
	(void)from;
	(void)call;
	return ((to.v + *(const u64 *)arg) * 0x9e3779b97f4a7c15) >> 63;
}

static int limited(jifl_instrument_fn fn, void *arg, jifl_leaves_fn leaves)
{
	int context = jifl_engine_context_create(fn, arg);

	REQUIRE(context >= 0, "no context");
	jifl_engine_context_limit(context, leaves);
	return context;
}

UNIT_TEST(anywhere, "run/limits: code may leave its context at any branch")
{
	static u64 seed;
	const struct insert_mode *mode;
	const struct target *t;
	u32 i;

	for (seed = 0; seed < SEEDS; seed++) {
		user_host_init(UNIT_CODE, UNIT_SIDE);
		insert_begin();
		for (mode = insert_modes; mode->name; mode++) {
			/* The callbacks use no argument. */
			const int context = limited(mode->fn, &seed, half_leaves);

			for (i = 0; i < JIFL_ARRAY_LEN(tables); i++)
				for (t = tables[i]; t->name; t++)
					CHECK_EQ_IN(t->name, user_host_call(context, t->fn, t->n),
						    t->fn(t->n));
		}
		check_cache("anywhere");
	}
}

UNIT_TEST(bodies, "run/limits: where calls leave, the bodies of functions are counted alone")
{
	const struct target *t;
	u64 whole, body, fewer = 0;
	int under, only;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	for (i = 0; i < JIFL_ARRAY_LEN(tables); i++)
		for (t = tables[i]; t->name; t++) {
			under = jifl_engine_context_create(insert_block_count, NULL);
			only = limited(insert_block_count, NULL, calls_leave);
			block_count = 0;
			user_host_call(under, t->fn, t->n);
			whole = block_count;
			block_count = 0;
			CHECK_EQ_IN(t->name, user_host_call(only, t->fn, t->n), t->fn(t->n));
			body = block_count;
			CHECK_EQ_IN(t->name, body && body <= whole, 1);
			fewer += body < whole;
		}
	CHECK(fewer > 10, "calls leave");
}

UNIT_TEST(reuse, "run/limits: a context with the number of a limited one has no limits")
{
	const struct target *t = &targets_plain[0];
	static u64 seed;
	int context;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	insert_begin();
	context = limited(NULL, &seed, half_leaves);
	user_host_call(context, t->fn, t->n);
	jifl_engine_context_destroy(context);
	jifl_engine_reset();
	context = jifl_engine_context_create(insert_block_count, NULL);
	block_count = 0;
	CHECK_EQ(user_host_call(context, t->fn, t->n), t->fn(t->n));
	CHECK(block_count > 0, "it runs in the cache");
	CHECK_EQ(user_host_call(jifl_engine_context_create(NULL, NULL), t->fn, t->n), t->fn(t->n));
}
