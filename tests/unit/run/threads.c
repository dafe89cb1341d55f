// SPDX-License-Identifier: GPL-2.0
/*
 * Threads in one cache: blocks are made, linked, dropped and linked again while other threads run
 * them.
 */
#include <pthread.h>
#include <time.h>

#include "../inserts.h"
#include "../invariants.h"
#include "../targets/targets.h"
#include "../unit.h"

enum { NTHREADS = 3, ROUNDS = UNIT_SANITIZED ? 40 : 150 };
/* Rounds go on until so many blocks were dropped, on a machine however busy; but not for ever. */
enum { DROPPED = 20, CHANGES_MAX = 20000 };

static const char *const has_state[] = { "globals" };
static int contexts[NTHREADS + 1];
static u32 running, enough;
static u64 wrong;

static bool is_pure(const struct target *t)
{
	u32 i;

	for (i = 0; i < JIFL_ARRAY_LEN(has_state); i++)
		if (!strcmp(t->name, has_state[i]))
			return false;
	return true;
}

static void *work(void *arg)
{
	const struct target *const tables[] = { targets_plain, targets_thunk, targets_slow };
	long number = (long)arg;
	const struct target *t;
	u32 round, i;

	for (round = 0; round < ROUNDS || !__atomic_load_n(&enough, __ATOMIC_RELAXED); round++) {
		for (i = 0; i < JIFL_ARRAY_LEN(tables); i++) {
			for (t = tables[i]; t->name; t++) {
				if (!is_pure(t))
					continue;
				/* Threads share contexts and go their own ways. */
				if (user_host_call(contexts[(number + round) % 2], t->fn,
						   t->n / 4 + 3) != t->fn(t->n / 4 + 3))
					__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
			}
		}
	}
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void change_under_threads(bool jumping)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	struct jifl_engine_stats st;
	pthread_t threads[NTHREADS];
	u64 seed = 1, at, changes = 0;
	long i;

	if (jumping)
		user_host_init_jumping(64 << 20, 64 << 20, true);
	else
		user_host_init(64 << 20, 64 << 20);
	contexts[0] = jifl_engine_context_create(NULL, NULL);
	contexts[1] = jifl_engine_context_create(insert_block_count, NULL);
	running = NTHREADS;
	enough = false;
	for (i = 0; i < NTHREADS; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, work, (void *)i));
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		at = (u64)(unsigned long)targets_plain[seed % 16].fn + (seed >> 40) % 8192 - 4096;
		jifl_engine_invalidate(jifl_orig_at(at), (seed >> 32) % 64 + 1);
		nanosleep(&pause, NULL);
		jifl_engine_stats(&st);
		if (st.invalidated > DROPPED || ++changes == CHANGES_MAX)
			__atomic_store_n(&enough, true, __ATOMIC_RELAXED);
	}
	for (i = 0; i < NTHREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(wrong, 0);
	jifl_engine_stats(&st);
	CHECK(st.invalidated > DROPPED, "only %llu blocks were dropped", st.invalidated);
	check_cache("threads");
}

UNIT_TEST(threads, "run/threads: threads run what others change")
{
	change_under_threads(false);
}

UNIT_TEST(threads_jumping, "run/threads: the same where lookups jump")
{
	change_under_threads(true);
}
