// SPDX-License-Identifier: GPL-2.0
/* zlib: packs and unpacks text at several levels; see program.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "text.h"

enum { SIZE = 3 << 20 };

static unsigned char in[SIZE], packed[SIZE + SIZE / 8], out[SIZE];

const char *program_version(void)
{
	return "zlib " ZLIB_VERSION;
}

void program_prepare(void)
{
	text_fill(in, SIZE, 1);
}

unsigned long program_work(void)
{
	static const int levels[] = { 1, 6 };
	unsigned long h = PROGRAM_HASH;
	uLongf packed_len, out_len;
	unsigned int i, times;

	for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		packed_len = sizeof(packed);
		if (compress2(packed, &packed_len, in, SIZE, levels[i]) != Z_OK)
			exit(2);
		for (times = 0; times < 4; times++) {
			out_len = SIZE;
			if (uncompress(out, &out_len, packed, packed_len) != Z_OK ||
			    out_len != SIZE)
				exit(2);
		}
		h = program_hash(h, &packed_len, sizeof(packed_len));
		h ^= crc32(0, out, SIZE);
	}
	return h;
}
