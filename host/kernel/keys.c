// SPDX-License-Identifier: GPL-2.0
/*
 * Counts by what the tasks are: by command name, process, CPU, or each combination of these
 * (JIFL_FLAG_BY_*).
 *
 * A table of as many keys as there is room for, found by their hash. What has been found once is
 * found without a lock; a new key is added at the head of its bucket's list under one. All
 * processors add to the same cells: it is done once a call. Keys that find no room are
 * counted together.
 *
 * Contexts: add in process context with preemption off, or with a run queue locked; the
 * others sleep.
 */
#include <linux/atomic.h>
#include <linux/jhash.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "kernel.h"
#include "plant.h"

static unsigned int count_keys = 4096;
module_param(count_keys, uint, 0444);
MODULE_PARM_DESC(count_keys,
		 "keys that a session can count by, 16 to 1048576 (default 4096)");

/* Without padding: compared and hashed as bytes. */
struct jifl_keys_name {
	u32 cpu;
	s32 tgid;
	char comm[TASK_COMM_LEN];
};

struct jifl_keys_cell {
	struct jifl_keys_name name;	/* does not change once it is published */
	u32 next;			/* in its bucket: index + 1; likewise */
	atomic64_t calls;
	atomic64_t sum;
};

struct jifl_keys_table {
	u32 flags;			/* JIFL_FLAG_BY_* */
	u32 max, bits;			/* cells; buckets, log 2 */
	raw_spinlock_t lock;		/* adding a key; a leaf */
	u32 n;				/* cells in use */
	u32 *buckets;			/* heads of lists of cells: index + 1 */
	struct jifl_keys_cell *cells;
	struct jifl_keys_cell other;	/* of keys without a cell */
};

int jifl_keys_init(void)
{
	if (count_keys >= 16 && count_keys <= 1 << 20)
		return 0;
	pr_err("count_keys must be 16 to 1048576\n");
	return -EINVAL;
}

void jifl_keys_close(struct jifl_session *s)
{
	if (!s->keys)
		return;
	vfree(s->keys->cells);
	vfree(s->keys->buckets);
	vfree(s->keys);
	s->keys = NULL;
}

int jifl_keys_open(struct jifl_session *s)
{
	struct jifl_keys_table *t = JIFL_ALLOC(vzalloc(sizeof(*t)));

	if (!t)
		return -ENOMEM;
	s->keys = t;
	t->flags = s->flags;
	t->max = count_keys;
	t->bits = ilog2(t->max);
	raw_spin_lock_init(&t->lock);
	t->buckets = JIFL_ALLOC(vcalloc(1u << t->bits, sizeof(*t->buckets)));
	t->cells = JIFL_ALLOC(vcalloc(t->max, sizeof(*t->cells)));
	if (t->buckets && t->cells)
		return 0;
	jifl_keys_close(s);
	return -ENOMEM;
}

/* --- adding ----------------------------------------------------------------------- */

static void jifl_keys_name(const struct jifl_keys_table *t, struct jifl_keys_name *name)
{
	memset(name, 0, sizeof(*name));
	if (t->flags & JIFL_FLAG_BY_CPU)
		name->cpu = raw_smp_processor_id();
	if (t->flags & JIFL_FLAG_BY_PID)
		name->tgid = task_tgid_nr(current);
	/* Not get_task_comm(): it takes a lock. Who is renamed just now may have either name. */
	if (t->flags & JIFL_FLAG_BY_COMM)
		strscpy_pad(name->comm, current->comm, sizeof(name->comm));
}

/* NULL: not in the bucket. */
static struct jifl_keys_cell *jifl_keys_find(struct jifl_keys_table *t, const u32 *bucket,
					     const struct jifl_keys_name *name)
{
	/* Pairs with the release in jifl_keys_insert. */
	u32 at = smp_load_acquire(bucket);

	for (; at; at = t->cells[at - 1].next)
		if (!memcmp(&t->cells[at - 1].name, name, sizeof(*name)))
			return &t->cells[at - 1];
	return NULL;
}

/* Under the lock. */
static struct jifl_keys_cell *jifl_keys_insert(struct jifl_keys_table *t, u32 *bucket,
					       const struct jifl_keys_name *name)
{
	struct jifl_keys_cell *cell = jifl_keys_find(t, bucket, name);

	if (cell)
		return cell;
	if (t->n == t->max)
		return &t->other;
	cell = &t->cells[t->n];
	cell->name = *name;
	cell->next = *bucket;
	/* Pairs with the acquire in jifl_keys_find. */
	smp_store_release(bucket, t->n + 1);
	/* Pairs with the acquire in jifl_keys_read. */
	smp_store_release(&t->n, t->n + 1);
	return cell;
}

void jifl_keys_add(struct jifl_keys_table *t, u64 value)
{
	struct jifl_keys_name name;
	struct jifl_keys_cell *cell;
	unsigned long flags;
	u32 *bucket;

	jifl_keys_name(t, &name);
	bucket = &t->buckets[jhash2((u32 *)&name, sizeof(name) / sizeof(u32), 0) >> (32 - t->bits)];
	cell = jifl_keys_find(t, bucket, &name);
	if (!cell) {
		raw_spin_lock_irqsave(&t->lock, flags);
		cell = jifl_keys_insert(t, bucket, &name);
		raw_spin_unlock_irqrestore(&t->lock, flags);
	}
	atomic64_inc(&cell->calls);
	atomic64_add(value, &cell->sum);
}

/* --- reading ----------------------------------------------------------------------- */

static struct jifl_key jifl_keys_key(const struct jifl_keys_cell *cell)
{
	struct jifl_key key = {
		.cpu = cell->name.cpu,
		.tgid = cell->name.tgid,
		.calls = atomic64_read(&cell->calls),
		.sum = atomic64_read(&cell->sum),
	};

	static_assert(sizeof(key.comm) == sizeof(cell->name.comm));
	memcpy(key.comm, cell->name.comm, sizeof(key.comm));
	return key;
}

int jifl_keys_read(const struct jifl_session *s, struct jifl_keys *req)
{
	const struct jifl_keys_table *t = s->keys;
	struct jifl_key key;
	u32 n, done;

	if (!t)
		return -ENOENT;
	/* Pairs with the release in jifl_keys_insert. */
	n = smp_load_acquire(&t->n);
	n = req->from < n ? min(req->n, n - req->from) : 0;
	for (done = 0; done < n; done++) {
		key = jifl_keys_key(&t->cells[req->from + done]);
		if (copy_to_user(u64_to_user_ptr(req->buf + done * sizeof(key)), &key, sizeof(key)))
			return -EFAULT;
		cond_resched();
	}
	req->n = done;
	req->other_calls = atomic64_read(&t->other.calls);
	req->other_sum = atomic64_read(&t->other.sum);
	return 0;
}
