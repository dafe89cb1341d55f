/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The source of a case's decisions: a seed; or bytes that a guided fuzzer gives and changes,
 * followed by numbers for which these bytes are the seed.
 */
#ifndef JIFL_FUZZ_SOURCE_H
#define JIFL_FUZZ_SOURCE_H

#include "../../engine/base/types.h"

struct source {
	const u8 *bytes;
	u64 left;
	u64 state;
};

static inline struct source source_of_seed(u64 seed)
{
	return (struct source){ .state = seed * 0x9e3779b97f4a7c15ull + 1 };
}

static inline struct source source_of_bytes(const u8 *bytes, u64 n)
{
	struct source s = { .bytes = bytes, .left = n, .state = 1 };
	u64 i;

	for (i = 0; i < n; i++)
		s.state = (s.state ^ bytes[i]) * 0x100000001b3ull;
	return s;
}

/* splitmix64 */
static inline u64 source_u64(struct source *s)
{
	u64 z = s->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* A number below n: two of the bytes each while there are some. */
static inline u32 source_below(struct source *s, u32 n)
{
	u32 v;

	if (s->left < 2)
		return (u32)(source_u64(s) % n);
	v = s->bytes[0] | s->bytes[1] << 8;
	s->bytes += 2;
	s->left -= 2;
	return v % n;
}

/* Random, with a liking for values at which something happens. */
static inline u64 source_value(struct source *s)
{
	static const u64 edges[] = { 0, 1, (u64)-1, 1ull << 63, ~(1ull << 63), 0x80000000,
				     0x7fffffff, 0xff, 0x80, 0x8000 };
	u64 v = source_u64(s);

	return v % 4 ? source_u64(s) : edges[(v >> 8) % JIFL_ARRAY_LEN(edges)];
}

#endif
