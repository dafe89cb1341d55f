/* SPDX-License-Identifier: GPL-2.0 */
/* How a table is copied to user space, entry by entry: the answer of JIFL_IOC_TABLE. */
#ifndef JIFL_HOST_ANSWER_H
#define JIFL_HOST_ANSWER_H

#include <linux/types.h>

struct jifl_table_read;

/* The most bytes that user space gets for an entry. */
#define JIFL_ANSWER_MAX	640

/* One table's way. `table` is what jifl_answer_read was given. */
struct jifl_answer {
	size_t size;		/* bytes that user space gets for an entry */
	bool by_cpu;		/* a CPU is asked for */
	/* Somebody reads the entries, from the first one on. NULL: no matter. Sleeps. */
	void (*begin)(const void *table);
	/* How many entries exist: all below are complete, with what is read of them after this. */
	u32 (*end)(const void *table);
	/* Makes the answer of entry i, below the end. */
	void (*fill)(const void *table, u32 i, void *answer);
	/* Sets req->rest, which is 0. */
	void (*rest)(const void *table, struct jifl_table_read *req);
};

/* Answers a request about the table. Sleeps. 0, -EINVAL or -EFAULT. */
int jifl_answer_read(const struct jifl_answer *a, const void *table, struct jifl_table_read *req);

#endif
