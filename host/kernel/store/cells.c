// SPDX-License-Identifier: GPL-2.0
/* Of tables of cells (cells.h): the limits of their size, their memory, the number of cells. */
#include <linux/log2.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "cells.h"

int jifl_cells_check(const char *param, u32 n, u32 max)
{
	if (n >= JIFL_CELLS_MIN && n <= max)
		return 0;
	pr_err("%s must be %u to %u\n", param, JIFL_CELLS_MIN, max);
	return -EINVAL;
}

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

u32 jifl_cells_end(const void *table)
{
	const struct jifl_cells *c = table;

	/* Pairs with the release in jifl_cells_insert. */
	return smp_load_acquire(&c->n);
}
