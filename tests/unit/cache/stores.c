// SPDX-License-Identifier: GPL-2.0
/* The host's promise to links: a reader sees the old value or the new one. */
#include <pthread.h>
#include <time.h>

#include "../unit.h"

/* As a branch's field may stand: not aligned, but within 8 bytes. */
enum { FIELD = 3, SECONDS_LOOKED = 1 };

static bool done;
static u64 torn, seen[2];

static void *look(void *arg)
{
	const struct __attribute__((packed)) { volatile u32 v; } *p = (const void *)
		(user_host_code() + FIELD);
	u32 v;

	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		v = p->v;
		if (v == 0 || v == 0xffffffff)
			seen[v != 0]++;
		else
			torn++;
	}
	return NULL;
}

UNIT_TEST(whole, "cache/stores: a field is changed by one store")
{
	time_t end = time(NULL) + SECONDS_LOOKED + 1;
	pthread_t thread;
	u32 i;

	user_host_init(UNIT_CODE, UNIT_SIDE);
	jifl_host_code_store32(jifl_pos_at(FIELD), 0);
	REQUIRE(!pthread_create(&thread, NULL, look, NULL));
	do {
		for (i = 0; i < 100; i++)
			jifl_host_code_store32(jifl_pos_at(FIELD), i % 2 ? 0xffffffff : 0);
	} while (time(NULL) < end || !__atomic_load_n(&seen[1], __ATOMIC_RELAXED));
	__atomic_store_n(&done, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	CHECK_EQ(torn, 0);
	CHECK(seen[0] && seen[1], "%llu, %llu", seen[0], seen[1]);
}
