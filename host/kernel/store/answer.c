// SPDX-License-Identifier: GPL-2.0
/*
 * Copies entries of a table to user space, each made for the reader on the stack. Context: process;
 * sleeps. No lock: entries do not go while the reader holds its session.
 */
#include <linux/bug.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "../kernel.h"
#include "answer.h"

int jifl_answer_read(const struct jifl_answer *a, const void *table, u32 end, u64 buf, u32 from,
		     u32 *n)
{
	const u32 asked = from < end ? min(*n, end - from) : 0;
	u64 entry[JIFL_ANSWER_MAX / sizeof(u64)];
	u32 done;

	if (WARN_ON_ONCE(a->size > sizeof(entry)))
		return -EFAULT;
	for (done = 0; done < asked; done++) {
		a->fill(table, from + done, entry);
		if (copy_to_user(u64_to_user_ptr(buf + done * a->size), entry, a->size))
			return -EFAULT;
		cond_resched();
	}
	*n = done;
	return 0;
}
