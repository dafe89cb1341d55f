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
 * Contexts: open and close sleep; the others run in any context. In an NMI, or in an int3
 * exception, only where it is known that the code beneath is not in here (tools/probe/act.c).
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

#define JIFL_CELLS_MIN	16

/* 0, or -EINVAL after a line in the log: the module's parameter is not JIFL_CELLS_MIN to max. */
int jifl_cells_check(const char *param, u32 n, u32 max);

/*
 * Makes room for max cells, JIFL_CELLS_MIN or more, of `size` bytes. 0 or -ENOMEM; after -ENOMEM
 * the caller has to close the table, too.
 */
int jifl_cells_open(struct jifl_cells *c, u32 max, size_t size);
void jifl_cells_close(struct jifl_cells *c);

/*
 * How many cells exist: the names of those below may be read. For struct jifl_answer: the table is
 * a structure that begins with its struct jifl_cells. Any context.
 */
u32 jifl_cells_end(const void *table);

static __always_inline struct jifl_cell *jifl_cells_at(const struct jifl_cells *c, size_t size,
						       u32 i)
{
	return c->cells + i * size;
}

/* The number of a cell, as of jifl_cells_at. Any context. */
static __always_inline u32 jifl_cells_index(const struct jifl_cells *c, size_t size,
					    const struct jifl_cell *cell)
{
	return ((const void *)cell - c->cells) / size;
}

/* NULL: not in the bucket. */
static __always_inline struct jifl_cell *jifl_cells_in_bucket(const struct jifl_cells *c,
							      const u32 *bucket, size_t size,
							      const void *name, size_t len)
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
static __always_inline struct jifl_cell *jifl_cells_insert(struct jifl_cells *c, u32 *bucket,
							   size_t size,
							   const void *name, size_t len)
{
	struct jifl_cell *cell = jifl_cells_in_bucket(c, bucket, size, name, len);

	if (cell || c->n == c->max)
		return cell;
	cell = jifl_cells_at(c, size, c->n);
	memcpy(cell + 1, name, len);
	cell->next = *bucket;
	/* Pairs with the acquire in jifl_cells_in_bucket. */
	smp_store_release(bucket, c->n + 1);
	/* Pairs with the acquire in jifl_cells_end. */
	smp_store_release(&c->n, c->n + 1);
	return cell;
}

static __always_inline u32 *jifl_cells_bucket(const struct jifl_cells *c, const void *name,
					      size_t len)
{
	return &c->buckets[jhash2(name, len / sizeof(u32), 0) >> (32 - c->bits)];
}

/* The cell of that name, or NULL. len: as below. */
static __always_inline struct jifl_cell *jifl_cells_find(const struct jifl_cells *c, size_t size,
							 const void *name, size_t len)
{
	return jifl_cells_in_bucket(c, jifl_cells_bucket(c, name, len), size, name, len);
}

/*
 * The cell of that name, a new one if need be; NULL: there is no room. len: the bytes of the name,
 * a multiple of a word. hash: of 32 bits, the highest of which tell most; the same for all that
 * look for the name. A table is used with one hash of its names.
 */
static __always_inline struct jifl_cell *
jifl_cells_find_or_add_hashed(struct jifl_cells *c, size_t size, const void *name, size_t len,
			      u32 hash)
{
	u32 *bucket = &c->buckets[hash >> (32 - c->bits)];
	struct jifl_cell *cell = jifl_cells_in_bucket(c, bucket, size, name, len);
	unsigned long flags;

	if (cell)
		return cell;
	local_irq_save(flags);
	/* Lockdep takes it for a mistake to wait for a lock in an NMI. A caller may know better. */
	while (!raw_spin_trylock(&c->lock))
		cpu_relax();
	cell = jifl_cells_insert(c, bucket, size, name, len);
	raw_spin_unlock(&c->lock);
	local_irq_restore(flags);
	return cell;
}

/* The same with the hash that jifl_cells_find looks for. */
static __always_inline struct jifl_cell *jifl_cells_find_or_add(struct jifl_cells *c, size_t size,
							const void *name, size_t len)
{
	return jifl_cells_find_or_add_hashed(c, size, name, len,
					     jhash2(name, len / sizeof(u32), 0));
}

#endif
