/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A table of cells with a fixed maximum, found by their names. A cell that exists is found without
 * a lock. A new cell goes to the head of its bucket's list under a lock, a leaf. Cells stay until
 * the table is closed.
 *
 * A cell begins with a struct jifl_cell and, right behind it, its name. The name has no padding,
 * because it is compared and hashed as words. The callers' sizes are constants: inline functions
 * are compiled for them.
 *
 * Contexts: open and close sleep; the others run in any context but NMI.
 */
#ifndef JIFL_HOST_CELLS_H
#define JIFL_HOST_CELLS_H

#include <linux/jhash.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>

#include "../plant.h"

struct jifl_cell {
	u32 next;		/* the next in its bucket: index + 1; constant once published */
	u32 reserved;
};

struct jifl_cells {
	u32 max, bits;		/* cells; buckets, log 2 */
	raw_spinlock_t lock;	/* adding a cell */
	u32 n;			/* cells in use */
	u32 *buckets;		/* heads of lists of cells: index + 1 */
	void *cells;
};

/*
 * Makes room for max cells, 16 or more, of `size` bytes. 0 or -ENOMEM; after -ENOMEM the caller
 * has to close the table, too.
 */
int jifl_cells_open(struct jifl_cells *c, u32 max, size_t size);
void jifl_cells_close(struct jifl_cells *c);

/* How many cells exist, all filled in: those below may be read. Any context. */
u32 jifl_cells_end(const struct jifl_cells *c);

static __always_inline struct jifl_cell *jifl_cells_at(const struct jifl_cells *c, size_t size, u32 i)
{
	return c->cells + i * size;
}

/* NULL: not in the bucket. */
static __always_inline struct jifl_cell *jifl_cells_find(const struct jifl_cells *c, const u32 *bucket,
							 size_t size, const void *name, size_t len)
{
	struct jifl_cell *cell;
	/* Pairs with the release in jifl_cells_insert. */
	u32 at = smp_load_acquire(bucket);

	for (; at; at = cell->next) {
		cell = jifl_cells_at(c, size, at - 1);
		if (!memcmp(cell + 1, name, JIFL_HOST_PLANTED(names_cut) ? sizeof(u32) : len))
			return cell;
	}
	return NULL;
}

/* Under the table's lock. NULL: there is no room. */
static __always_inline struct jifl_cell *jifl_cells_insert(struct jifl_cells *c, u32 *bucket, size_t size,
							   const void *name, size_t len)
{
	struct jifl_cell *cell = jifl_cells_find(c, bucket, size, name, len);

	if (cell || c->n == c->max)
		return cell;
	cell = jifl_cells_at(c, size, c->n);
	memcpy(cell + 1, name, len);
	cell->next = *bucket;
	/* Pairs with the acquire in jifl_cells_find. */
	smp_store_release(bucket, c->n + 1);
	/* Pairs with the acquire in jifl_cells_end. */
	smp_store_release(&c->n, c->n + 1);
	return cell;
}

/*
 * The cell of that name, a new one if need be; NULL: there is no room. len: the bytes of the name,
 * a multiple of a word.
 */
static __always_inline struct jifl_cell *jifl_cells_find_or_add(struct jifl_cells *c, size_t size,
							const void *name, size_t len)
{
	u32 *bucket = &c->buckets[jhash2(name, len / sizeof(u32), 0) >> (32 - c->bits)];
	struct jifl_cell *cell = jifl_cells_find(c, bucket, size, name, len);
	unsigned long flags;

	if (cell)
		return cell;
	raw_spin_lock_irqsave(&c->lock, flags);
	cell = jifl_cells_insert(c, bucket, size, name, len);
	raw_spin_unlock_irqrestore(&c->lock, flags);
	return cell;
}

#endif
