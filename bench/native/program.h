/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program to be measured. Each of the files sqlite.c, zlib.c, zstd.c, lua.c and virtual.cc
 * defines these functions, and main.c runs its work natively and through the engine. The functions
 * that they call run through the code cache too, the C library included.
 */
#ifndef JIFL_BENCH_PROGRAM_H
#define JIFL_BENCH_PROGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

/* The release of the library, for the output. */
const char *program_version(void);

/* Called once, natively. */
void program_prepare(void);

/*
 * Does the same work at each call, some tenths of a second. Returns a hash of its results, never
 * 0.
 */
unsigned long program_work(void);

/* FNV-1a of n bytes, going on from h. */
#define PROGRAM_HASH 14695981039346656037ul
static inline unsigned long program_hash(unsigned long h, const void *p, unsigned long n)
{
	const unsigned char *b = (const unsigned char *)p;

	while (n--)
		h = (h ^ *b++) * 1099511628211ul;
	return h;
}

/* A generator of numbers (Knuth's MMIX); the upper bits are the good ones. */
static inline unsigned long program_random(unsigned long *seed)
{
	*seed = *seed * 6364136223846793005ul + 1442695040888963407ul;
	return *seed >> 33;
}

#ifdef __cplusplus
}
#endif

#endif
