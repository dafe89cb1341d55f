// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two processes on one processor write to each other in turns, so that each read waits and is a
 * switch of tasks. Prints the least ticks that one turn took: a write, a read, a switch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ROUNDS = 60, TURNS = 50 };

static void turn(int to, int from)
{
	char byte = 0;

	if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
		exit(0);
}

int main(void)
{
	unsigned long long begin, took, least = ~0ull;
	int there[2], back[2], round, i;

	if (pipe(there) || pipe(back))
		return 1;
	if (!fork()) {
		char byte;

		close(there[1]);
		close(back[0]);
		if (read(there[0], &byte, 1) != 1)
			return 1;
		for (;;)
			turn(back[1], there[0]);
	}
	close(there[0]);
	close(back[1]);
	for (round = 0; round < ROUNDS; round++) {
		begin = __rdtsc();
		for (i = 0; i < TURNS; i++)
			turn(there[1], back[0]);
		took = __rdtsc() - begin;
		if (took < least)
			least = took;
	}
	printf("%llu\n", least / (2 * TURNS));
	return 0;
}
