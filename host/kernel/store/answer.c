// SPDX-License-Identifier: GPL-2.0
/*
 * Copies entries of a table to user space, each made for the reader on the stack. Context: process;
 * sleeps. No lock: entries do not go while the reader holds its session.
 */
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "answer.h"

static bool jifl_answer_may(const struct jifl_answer *a, const struct jifl_table_read *req)
{
	if (req->entry != a->size)
		return false;
	if (!a->by_cpu)
		return !req->cpu;
	return req->cpu < nr_cpu_ids && cpu_possible(req->cpu);
}

int jifl_answer_read(const struct jifl_answer *a, const void *table, struct jifl_table_read *req)
{
	u64 entry[JIFL_ANSWER_MAX / sizeof(u64)];
	u32 end, asked, done;

	if (!jifl_answer_may(a, req))
		return -EINVAL;
	if (WARN_ON_ONCE(a->size > sizeof(entry)))
		return -EFAULT;
	if (a->begin && !req->from)
		a->begin(table);
	memset(req->rest, 0, sizeof(req->rest));
	a->rest(table, req);
	end = a->end(table);
	asked = req->from < end ? min(req->n, end - req->from) : 0;
	for (done = 0; done < asked; done++) {
		a->fill(table, req->from + done, entry);
		if (copy_to_user(u64_to_user_ptr(req->buf + done * a->size), entry, a->size))
			return -EFAULT;
		cond_resched();
	}
	req->n = done;
	return 0;
}
