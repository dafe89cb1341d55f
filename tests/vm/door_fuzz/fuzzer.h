/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of door_fuzz share: main.c (threads and processes), fill.c (what a request
 * holds), ask.c (requests made, and their answers judged).
 */
#ifndef JIFL_DOOR_FUZZER_H
#define JIFL_DOOR_FUZZER_H

#include <stdatomic.h>
#include <stdint.h>

#include "../../../include/uapi/jifl.h"

enum { FILES = 4, THREADS = 2, PROCESSES = 2, PAGE = 4096 };

/* What both processes see. */
struct shared {
	atomic_ulong made, granted, wrong, started;
};
extern struct shared *shared;

extern int files[FILES];	/* each thread reopens them under the others */

struct request {
	unsigned int cmd, size;
};
/* All of the ABI, by number. */
extern const struct request requests[];
extern const unsigned int nrequests;

struct fuzzer {
	uint64_t state;
	unsigned long operations;
	char *arena;		/* ARENA_* below */
};

/* Pages of an arena: a hole, two to write, one to read only, a hole. */
enum { ARENA_DATA = 1, ARENA_READ_ONLY = 3, ARENA_PAGES = 5 };
/* Bytes at the end of the first page for what a request points to; a histogram takes more. */
enum { ARENA_ASIDE = 128 };

/* --- chance (main.c seeds it) ------------------------------------------------------- */

static inline uint64_t next(struct fuzzer *f)
{
	/* splitmix64 */
	uint64_t z = f->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static inline unsigned int below(struct fuzzer *f, unsigned int n)
{
	return next(f) % n;
}

static inline int file_of(struct fuzzer *f)
{
	return files[below(f, FILES)];
}

static inline int one_in(struct fuzzer *f, unsigned int n)
{
	return !below(f, n);
}

/* None of them is an address of this program. */
static inline uint64_t edge_value(struct fuzzer *f)
{
	static const uint64_t values[] = {
		0, 1, -1, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, INT64_MIN, 511, 512, 64,
		0xffff888000000000, 0xffffffff81000000, 0x7ffffffff000, 0x800000000000,
	};

	return values[below(f, sizeof(values) / sizeof(values[0]))];
}

static inline uint64_t odd_value(struct fuzzer *f)
{
	return one_in(f, 2) ? edge_value(f) : next(f) >> below(f, 64);
}

/* --- fill.c -------------------------------------------------------------------------- */

/* Makes buf a request as it should be, or nearly so; aside: ARENA_ASIDE bytes to point to. */
void fill(struct fuzzer *f, unsigned int which, void *buf, void *aside);

/*
 * Changes some bytes or words of a request, but for places of what is to be written and its
 * room: they could become this program's own memory. True when the size field is among them.
 */
int mutate(struct fuzzer *f, unsigned int which, char *buf);

/* --- ask.c --------------------------------------------------------------------------- */

/* Makes one random request, or another call on one of the files, and judges the answer. */
void ask_something(struct fuzzer *f);

#endif
