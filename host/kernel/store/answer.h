/* SPDX-License-Identifier: GPL-2.0 */
/* How a table is copied to user space, entry by entry: the answers of tools' read requests. */
#ifndef JIFL_HOST_ANSWER_H
#define JIFL_HOST_ANSWER_H

#include <linux/types.h>

/* The most bytes that user space gets for an entry. */
#define JIFL_ANSWER_MAX	128

struct jifl_answer {
	size_t size;		/* bytes that user space gets for an entry */
	/* Makes the answer of entry i, below the end that is given to jifl_answer_read. */
	void (*fill)(const void *table, u32 i, void *answer);
};

/*
 * Copies at most *n entries of the table, beginning with entry `from` and below `end`, to buf in
 * user space; *n becomes how many. The caller has loaded `end` with acquire. Sleeps. 0 or -EFAULT.
 */
int jifl_answer_read(const struct jifl_answer *a, const void *table, u32 end, u64 buf, u32 from,
		     u32 *n);

#endif
