// SPDX-License-Identifier: GPL-2.0
/* Real libraries through the cache, with the C library beneath where it is static. */
#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"

enum { SLOWDOWN = UNIT_SANITIZED ? 8 : 1 };

static void compare(const char *name, target_fn fn, unsigned long n)
{
	static const struct insert_mode modes[] = {
		{ "nothing", NULL },
		{ "block counters", insert_block_count },
		{ "calls at every instruction", insert_poison },
	};
	unsigned long want = fn(n);
	u32 i, round;
	int context;

	CHECK(want > 1000, "%s fails natively: %lu", name, want);
	for (i = 0; i < JIFL_ARRAY_LEN(modes); i++) {
		/* With each form of lookups. */
		if (i % 2)
			user_host_init(64 << 20, 32 << 20);
		else
			user_host_init_jumping(64 << 20, 32 << 20, true);
		insert_begin();
		context = jifl_engine_context_create(modes[i].fn, NULL);
		for (round = 0; round < 2; round++)
			CHECK_EQ_IN(modes[i].name, user_host_call(context, fn, n), want);
		CHECK(!jifl_engine_is_full(), "%s, %s", name, modes[i].name);
		CHECK_EQ(poison_misaligned + poison_backwards, 0);
		check_cache(name);
	}
}

UNIT_TEST(zlib, "run/libraries: zlib packs and unpacks")
{
	compare("zlib", library_zlib, 40000 / SLOWDOWN);
}

UNIT_TEST(sqlite, "run/libraries: SQLite answers queries")
{
	compare("sqlite", library_sqlite, 1000 / SLOWDOWN);
}
