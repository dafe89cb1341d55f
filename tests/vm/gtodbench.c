// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The program of djprobe's paper: calls gettimeofday, as a system call, again and again. It prints
 * the least ticks that a call took.
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ROUNDS = 40, CALLS = 100 };

int main(void)
{
	unsigned long long begin, took, least = ~0ull;
	struct timeval now;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		begin = __rdtsc();
		for (i = 0; i < CALLS; i++)
			if (syscall(SYS_gettimeofday, &now, NULL))
				return 1;
		took = __rdtsc() - begin;
		if (took < least)
			least = took;
	}
	printf("%llu\n", least / CALLS);
	return 0;
}
