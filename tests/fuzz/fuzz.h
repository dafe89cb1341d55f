/* SPDX-License-Identifier: GPL-2.0 */
/* One case: a program run natively and through the cache in all ways, and compared. */
#ifndef JIFL_FUZZ_FUZZ_H
#define JIFL_FUZZ_FUZZ_H

#include "source.h"

struct fuzz_stats {
	u64 cases, insns, faults, runs, refused, resets;
};
extern struct fuzz_stats fuzz_stats;

/* To be called once, after forms_read: tries each form, sets aside what does not work. */
void fuzz_init(void);

/* A new cache of so many bytes of code; jumping: lookups end in unprotected jumps. */
void fuzz_begin(u32 code_size, bool jumping);

/* One case. Returns NULL, or what differs. */
const char *fuzz_case(struct source *from);

/* What stands in fuzz_text, in all ways of inserting. */
const char *fuzz_text_case(u64 seed);

/* Failed checks of the cache's invariants. */
extern u64 fuzz_failures;

/* What is being done now, and must end in a few seconds of CPU time. */
void fuzz_limit_time(const char *what, u64 number);

/* Writes the last case's program to a file, says what was seen in it. */
void fuzz_dump(const char *path);

#endif
