// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads a byte of /dev/zero again and again, and prints the least ticks that a read took. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <x86intrin.h>

enum { ROUNDS = 40, READS = 100 };

int main(void)
{
	const int zeroes = open("/dev/zero", O_RDONLY);
	unsigned long long begin, took, least = ~0ull;
	int round, i;
	char byte;

	for (round = 0; round < ROUNDS; round++) {
		begin = __rdtsc();
		for (i = 0; i < READS; i++)
			if (read(zeroes, &byte, 1) != 1)
				return 1;
		took = __rdtsc() - begin;
		if (took < least)
			least = took;
	}
	printf("%llu\n", least / READS);
	return 0;
}
