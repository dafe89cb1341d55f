// SPDX-License-Identifier: GPL-2.0
/* Memory of the tables of cells.h, and the copy of their cells to user space. */
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "cells.h"

int jifl_cells_open(struct jifl_cells *c, u32 max, size_t size)
{
	c->max = max;
	c->bits = ilog2(max);
	raw_spin_lock_init(&c->lock);
	c->buckets = JIFL_ALLOC(vcalloc(1u << c->bits, sizeof(*c->buckets)));
	c->cells = JIFL_ALLOC(vcalloc(max, size));
	return c->buckets && c->cells ? 0 : -ENOMEM;
}

void jifl_cells_close(struct jifl_cells *c)
{
	vfree(c->cells);
	vfree(c->buckets);
}

int jifl_cells_read(const struct jifl_cells *c, const struct jifl_cells_answer *answer, u64 buf,
		    u32 from, u32 *n)
{
	u64 filled[JIFL_CELL_ANSWER_MAX / sizeof(u64)];
	/* The cells that exist, all filled in. Pairs with the release in jifl_cells_insert. */
	const u32 end = smp_load_acquire(&c->n), asked = *n;
	u32 done;

	for (done = 0; done < asked && from < end && done < end - from; done++) {
		answer->fill(jifl_cells_at(c, answer->cell, from + done), filled);
		if (copy_to_user(u64_to_user_ptr(buf + done * answer->size), filled, answer->size))
			return -EFAULT;
		cond_resched();
	}
	*n = done;
	return 0;
}
