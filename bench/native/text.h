/* SPDX-License-Identifier: GPL-2.0 */
/* Text to be compressed: words that recur, some more often than others, and noise. */
#ifndef JIFL_BENCH_TEXT_H
#define JIFL_BENCH_TEXT_H

#include "program.h"

static inline void text_fill(unsigned char *p, unsigned long n, unsigned long seed)
{
	unsigned char words[256][12];
	unsigned long i = 0, k, at, r;

	for (k = 0; k < 256; k++) {
		for (at = 0; at < 2 + k % 9; at++)
			words[k][at] = (unsigned char)('a' + program_random(&seed) % 26);
		words[k][at++] = ' ';
		words[k][at] = 0;
	}
	while (i < n) {
		r = program_random(&seed);
		if (r % 16 == 0) {
			p[i++] = (unsigned char)(r >> 8);
			continue;
		}
		/* The product of two: small numbers are frequent. */
		k = (r >> 8 & 255) * (r >> 16 & 255) / 256;
		for (at = 0; words[k][at] && i < n; at++)
			p[i++] = words[k][at];
	}
}

#endif
