// SPDX-License-Identifier: GPL-2.0
/*
 * Room for many direct calls, in kernels before 6.7.
 *
 * ftrace has all sites with direct calls in one hash table (direct_functions in
 * kernel/trace/ftrace.c). These kernels give it 4,096 lists at most. With more than 8,192 sites in
 * it each further one has the whole table copied into another of the same size, and of the old
 * tables only the last is freed (ftrace_add_rec_direct, register_ftrace_direct_multi). So 38,000
 * sites lost 950 MB of memory, and took more than a minute. ftrace does none of that while the
 * table has enough lists and is not empty. So it gets a table with enough of them before, and one
 * entry that keeps the table from being empty: for address 0, where no site is.
 *
 * Why this is right:
 *
 * 1. Who writes to the table or exchanges it holds direct_mutex. It is held here from before the
 *    table is read until it is exchanged.
 * 2. Who reads the table does so under RCU tasks, as the kernel's own comment says. The old table
 *    and its entries stay as they are, and are freed behind synchronize_rcu_tasks. The new one has
 *    an entry for each of them before it is to be seen. (ftrace itself moves the entries while
 *    others may read them. Linux 6.7 copies them.)
 * 3. Nothing else points to an entry while direct_mutex is free.
 * 4. The kernel frees tables, lists and entries with kfree, so they come from kmalloc.
 * 5. The structures are those of kernel/trace/trace.h, which did not change from 4.15 to 6.6. As
 *    many entries are found as the table says that it has, or it stays as it is.
 *
 * The large table stays for later sessions. When the module goes a small one takes its place.
 */
#include <linux/version.h>

#include "direct.h"

#if defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS) && \
	LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "../kernel.h"
#include "../plant.h"
#include "ksym.h"

/* FTRACE_HASH_MAX_BITS: ftrace makes no larger tables. */
#define FTRACE_BITS	12
/* No kernel has more functions than this has room for. */
#define MOST_BITS	17

/* struct ftrace_hash */
struct table {
	unsigned long bits;
	struct hlist_head *lists;
	unsigned long count;
	unsigned long flags;
	struct rcu_head rcu;
};

/* struct ftrace_func_entry */
struct entry {
	struct hlist_node node;
	unsigned long ip;
	unsigned long direct;
};

/* Beyond so many entries ftrace makes another table. */
static unsigned long room_of(unsigned long bits)
{
	return 2ul << bits;
}

static void free_table(struct table *t)
{
	struct hlist_node *next;
	struct entry *e;
	unsigned long i;

	for (i = 0; i < 1ul << t->bits; i++)
		hlist_for_each_entry_safe(e, next, &t->lists[i], node)
			kfree(e);
	kfree(t->lists);
	kfree(t);
}

static bool add_entry(struct table *t, unsigned long ip, unsigned long direct)
{
	struct entry *e = JIFL_ALLOC(kmalloc(sizeof(*e), GFP_KERNEL));

	if (!e)
		return false;
	e->ip = ip;
	e->direct = direct;
	hlist_add_head(&e->node, &t->lists[hash_long(ip, t->bits)]);
	t->count++;
	return true;
}

/* False: there is no memory, or the table is not understood. */
static bool copy_entries(struct table *to, const struct table *from)
{
	const struct entry *e;
	unsigned long i, found = 0;

	for (i = 0; i < 1ul << from->bits; i++)
		hlist_for_each_entry(e, &from->lists[i], node) {
			found++;
			if (e->ip && !add_entry(to, e->ip, e->direct))
				return false;
		}
	return found == from->count;
}

/* kept: it is never empty. NULL: as above. */
static struct table *copy_table(const struct table *from, unsigned long bits, bool kept)
{
	struct table *to = JIFL_ALLOC(kzalloc(sizeof(*to), GFP_KERNEL));

	if (!to)
		return NULL;
	to->bits = bits;
	to->flags = from->flags;
	to->lists = JIFL_ALLOC(kcalloc(1ul << bits, sizeof(*to->lists),
				      GFP_KERNEL | __GFP_NOWARN));
	if (to->lists && copy_entries(to, from) && (!kept || add_entry(to, 0, 0)))
		return to;
	if (to->lists)
		free_table(to);
	else
		kfree(to);
	return NULL;
}

/*
 * Exchanges the table for one with room for `more` further entries, if it has less; with shrink,
 * for a small one, if it is a large one and a small one has room. Under jifl_session_mutex, or when
 * the module goes.
 */
static int exchange(unsigned long more, bool shrink)
{
	/* Looked up once: each search goes through all symbols. */
	static struct mutex *lock;
	static struct table **at;
	struct table *old = NULL, *new = NULL;
	unsigned long bits = FTRACE_BITS;
	bool wanted;

	if (!lock)
		lock = (struct mutex *)jifl_ksym("direct_mutex");
	if (!at)
		at = (struct table **)jifl_ksym("direct_functions");
	if (!lock || !at)
		return -EOPNOTSUPP;
	mutex_lock(lock);
	while (bits < MOST_BITS && room_of(bits) < (*at)->count + more)
		bits++;
	wanted = shrink ? bits < (*at)->bits :
		 bits > max((*at)->bits, (unsigned long)FTRACE_BITS);
	if (wanted)
		new = copy_table(*at, bits, !shrink);
	if (new) {
		old = *at;
		rcu_assign_pointer(*at, new);
	}
	mutex_unlock(lock);
	/* The table of a kernel without a direct call is none of kmalloc's. It has one list. */
	if (old && old->bits) {
		synchronize_rcu_tasks();
		free_table(old);
	}
	return wanted && !new ? -ENOMEM : 0;
}

int jifl_compat_direct_room(unsigned long more)
{
	return JIFL_HOST_PLANTED(tables_lost) ? 0 : exchange(more, false);
}

void jifl_compat_direct_exit(void)
{
	exchange(0, true);
}
#else
int jifl_compat_direct_room(unsigned long more)
{
	return 0;
}

void jifl_compat_direct_exit(void)
{
}
#endif
