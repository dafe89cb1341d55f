// SPDX-License-Identifier: GPL-2.0
/*
 * Differential fuzzing with seeds.
 *
 * usage: fuzz [-p] [-s SEED] [-n CASES | -t SECONDS] [-d DUMP] FORMS...
 *
 * An epoch is EPOCH cases in one cache, whose size the epoch chooses. All cases of an epoch leave
 * code in the cache, so a case is replayed from the beginning of its epoch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

#include "../../host/user/user.h"
#include "forms.h"
#include "fuzz.h"
#include "shapes.h"

enum { EPOCH = 100 };

/* From one page, in which hardly a block fits, to plenty. */
static const u32 sizes[] = { 4 << 20, 4096, 64 << 10, 12 << 10, 1 << 20 };

static u64 seed = 1, cases = ~0ull, seconds = ~0ull;
static const char *dump = "/dev/null";

static double cpu(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "s:n:t:d:p")) != -1) {
		switch (c) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			cases = strtoull(optarg, NULL, 0);
			break;
		case 't':
			seconds = strtoull(optarg, NULL, 0);
			break;
		case 'd':
			dump = optarg;
			break;
		case 'p':
			user_host_poison = true;
			break;
		default:
			exit(2);
		}
	}
	if (optind == argc) {
		fprintf(stderr,
			"usage: fuzz [-p] [-s SEED] [-n CASES | -t SECONDS] [-d DUMP] FORMS...\n");
		exit(2);
	}
	while (optind < argc)
		forms_read(argv[optind++]);
}

static void report(void)
{
	u32 i, generated = 0, executed = 0;

	for (i = 0; i < fuzz_nforms; i++) {
		generated += fuzz_forms[i].generated != 0;
		executed += fuzz_forms[i].executed != 0;
	}
	printf("%llu cases, %llu runs, %llu faults, %llu entries refused, %llu times emptied\n",
	       fuzz_stats.cases, fuzz_stats.runs, fuzz_stats.faults, fuzz_stats.refused,
	       fuzz_stats.resets);
	printf("forms: %u generated, %u executed;", generated, executed);
	for (i = 0; i < FORM_USES; i++)
		printf(" %s %u", form_use_names[i], form_uses[i]);
	printf("\n");
}

static int failed(u64 at, const char *what)
{
	u64 epoch = at - at % EPOCH;

	printf("FAILED seed %llu: %s\n", at, what);
	fuzz_dump(dump);
	printf("  to replay: make -C tests/fuzz replay SEED=%llu CASES=%llu%s\n", epoch,
	       at - epoch + 1, user_host_poison ? " POISON=-p" : "");
	return 1;
}

/* Where the kernel puts the cache is part of a case. */
static void stop_randomizing(char **argv)
{
	int now = personality(0xffffffff);

	if (now & ADDR_NO_RANDOMIZE)
		return;
	/* Once: where it is not allowed, cases are replayed less exactly. */
	if (personality((unsigned long)now | ADDR_NO_RANDOMIZE) >= 0 &&
	    (personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	double end;
	u64 at;

	stop_randomizing(argv);
	options(argc, argv);
	fuzz_limit_time("set-up", 0);
	fuzz_init();
	if (shapes_run())
		return 1;
	end = cpu() + (double)seconds;
	for (at = seed; at - seed < cases; at++) {
		struct source from = source_of_seed(at);
		const char *what;

		if (at == seed || at % EPOCH == 0) {
			if (cpu() > end)
				break;
			fuzz_begin(sizes[at / EPOCH % JIFL_ARRAY_LEN(sizes)],
				   at / EPOCH / JIFL_ARRAY_LEN(sizes) % 2);
		}
		fuzz_limit_time("seed", at);
		what = fuzz_case(&from);
		if (what)
			return failed(at, what);
	}
	report();
	return fuzz_failures != 0;
}
