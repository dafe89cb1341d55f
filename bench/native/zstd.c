// SPDX-License-Identifier: GPL-2.0
/* zstd: packs and unpacks text at several levels; see program.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "text.h"

enum { SIZE = 4 << 20 };

static unsigned char in[SIZE], packed[SIZE + SIZE / 8], out[SIZE];

const char *program_version(void)
{
	return "zstd " ZSTD_VERSION_STRING;
}

void program_prepare(void)
{
	text_fill(in, SIZE, 1);
}

unsigned long program_work(void)
{
	static const int levels[] = { 1, 3, 7 };
	unsigned long h = PROGRAM_HASH;
	unsigned int i, times;
	size_t len;

	for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		len = ZSTD_compress(packed, sizeof(packed), in, SIZE, levels[i]);
		if (ZSTD_isError(len))
			exit(2);
		for (times = 0; times < 6; times++)
			if (ZSTD_decompress(out, SIZE, packed, len) != SIZE)
				exit(2);
		h = program_hash(h, &len, sizeof(len));
		h ^= program_hash(PROGRAM_HASH, out, SIZE / 16);
	}
	return h;
}
