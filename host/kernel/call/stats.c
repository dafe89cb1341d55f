// SPDX-License-Identifier: GPL-2.0
/*
 * The figures of a session. For each target and each CPU there are sums and a histogram. count.c
 * adds a call to them when the call ends. Here they are made, and read for users.
 *
 * Where calls are counted and nothing else is known of them, a target has a counter instead: one
 * word for each CPU, to which inserted code adds 1 where the call begins (IR_INSERT_COUNT). Each
 * execution of that code is counted once:
 *
 * 1. The addition is exact on its CPU, whatever interrupts the code, and wherever the thread is
 *    moved to (engine/emit/count.c).
 * 2. The figure is the sum over all CPUs that are possible, not over those that are online. The
 *    kernel keeps the per-CPU memory of a CPU that goes offline.
 * 3. Nothing but the module's code at a call's beginning writes a counter, and nothing sets it to 0
 *    while its session runs. So nothing has to be read and written back when the session ends, or
 *    when the cache is flushed.
 * 4. A counter is made before its session is armed (jifl_stats_prepare), and freed with its session
 *    (jifl_stats_free). Code that refers to it is in the contexts of mixes with that session: in
 *    entry pieces, and in blocks where its functions begin. At the session's end jifl_mix_doom
 *    destroys these contexts. When jifl_evict has returned, none of their code runs any more. No
 *    thread stands between the two instructions of the counter either: for jifl_evict that place is
 *    inside inserted code. Such code in contexts of others is dropped before, and jifl_evict waits
 *    for who is in it (session/nested.c).
 * 5. A reader reads each word as a whole. It finds at least the calls that were counted when it
 *    began, and no call that is counted after it has ended.
 *
 * An aim may have a cell, too, which one instruction reaches from gs. Code that is made from then
 * on counts in the cell. Code that was made before counts in the counter. The figure is the sum of
 * both. A cell is the aim's alone until its session is freed, so steps 1 to 5 hold of a cell, too.
 * It is 0 when it is taken, because it is set to 0 before it is given back.
 */
#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../enter/entry.h"
#include "../store/counters.h"
#include "count.h"
#include "keys.h"
#include "stats.h"
#include "whose.h"

/*
 * Figures are allocated when the session starts. A session gets only the buckets that it can fill,
 * so that sessions with many targets stay small.
 */
#define JIFL_STATS_SIGNED	(JIFL_HIST_NEGATIVE + 1)	/* of values that may be negative */

static struct {
	const char *name;
	u32 buckets;
	struct kmem_cache *cache;
} jifl_stats_sizes[] = {
	{ "jifl_stats_signed", JIFL_STATS_SIGNED },
	{ "jifl_stats_counts", JIFL_HIST_BUCKETS },
};

/*
 * The static per-CPU data of all modules together has 8 KiB. So there are fewer cells than system
 * calls. A session takes a cell for a target when the target's entry piece is made. Only sessions
 * in lane 0 take cells, so a target with several sessions uses one.
 */
#define JIFL_STATS_CELLS	192

static DEFINE_PER_CPU(u64 [JIFL_STATS_CELLS], jifl_stats_cells);
static DECLARE_BITMAP(jifl_stats_cells_used, JIFL_STATS_CELLS); /* jifl_entry_lock */

/* Has the session counters, because nothing else is known of its calls? */
static bool jifl_stats_has_counters(const struct jifl_session *s)
{
	return s->tool->calls == JIFL_CALLS_COUNTED && !(s->flags & JIFL_FLAGS_VALUE);
}

/* Returns an index into jifl_stats_sizes. Negative: the session has no figures of each CPU. */
static int jifl_stats_size(const struct jifl_session *s)
{
	if (s->tool->calls == JIFL_CALLS_UNCOUNTED || jifl_stats_has_counters(s))
		return -1;
	return s->flags & (JIFL_FLAG_RETVAL | JIFL_FLAGS_ARG) ? 0 : 1;
}

static u32 jifl_stats_buckets(const struct jifl_session *s)
{
	const int size = jifl_stats_size(s);

	return size < 0 ? 0 : jifl_stats_sizes[size].buckets;
}

static int jifl_stats_alloc(struct jifl_aim *aim, int size)
{
	int cpu;

	/* Beside figures: of calls inside others. */
	if (aim->session->counters)
		aim->counter = jifl_counters_at(aim->session->counters, aim->index);
	if (size < 0)
		return 0;
	for_each_possible_cpu(cpu) {
		struct jifl_stats_cpu *st;

		st = JIFL_ALLOC(kmem_cache_alloc_node(jifl_stats_sizes[size].cache,
						      GFP_KERNEL | __GFP_ZERO,
						      cpu_to_node(cpu)));
		if (!st)
			return -ENOMEM;
		st->min = U64_MAX;
		aim->cpu[cpu] = st;
	}
	return 0;
}

/* What was made before an error is freed with the session. */
int jifl_stats_prepare(struct jifl_session *s)
{
	const int size = jifl_stats_size(s);
	struct jifl_aim *aim;
	u32 i;

	if (s->flags & JIFL_FLAGS_BY && jifl_keys_open(s))
		return -ENOMEM;
	if (s->tool->calls == JIFL_CALLS_UNCOUNTED)
		return 0;
	if (size < 0 || jifl_count_is_apart(s)) {
		s->counters = jifl_counters_open(s->ntargets);
		if (!s->counters)
			return -ENOMEM;
	}
	for_each_aim(aim, s, i) {
		if (jifl_stats_alloc(aim, size))
			return -ENOMEM;
		cond_resched();
	}
	return 0;
}

u64 __percpu *jifl_stats_counter(const struct jifl_aim *aim)
{
	const int n = READ_ONCE(aim->cell);

	return n ? &jifl_stats_cells[n - 1] : aim->counter;
}

void jifl_stats_take_cell(struct jifl_aim *aim)
{
	const struct jifl_session *s = aim->session;
	unsigned long found;

	if (aim->cell || s->lane || s->keys || !jifl_stats_has_counters(s))
		return;
	found = find_first_zero_bit(jifl_stats_cells_used, JIFL_STATS_CELLS);
	if (found == JIFL_STATS_CELLS)
		return;
	__set_bit(found, jifl_stats_cells_used);
	WRITE_ONCE(aim->cell, found + 1);
}

static void jifl_stats_give_cell(struct jifl_aim *aim)
{
	unsigned long flags;
	int cpu;

	if (!aim->cell)
		return;
	for_each_possible_cpu(cpu)
		*per_cpu_ptr(&jifl_stats_cells[aim->cell - 1], cpu) = 0;
	flags = jifl_entry_lock();
	__clear_bit(aim->cell - 1, jifl_stats_cells_used);
	jifl_entry_unlock(flags);
	aim->cell = 0;
}

/* --- reading --------------------------------------------------------------------- */

static void jifl_stats_read_cpu(const struct jifl_stats_cpu *c, struct jifl_stat *st,
				u64 *hist, u32 buckets)
{
	unsigned int i;

	st->calls += READ_ONCE(c->calls);
	st->no_return += READ_ONCE(c->no_return);
	st->sum += READ_ONCE(c->sum);
	st->min = min(st->min, READ_ONCE(c->min));
	st->max = max(st->max, READ_ONCE(c->max));
	for (i = 0; hist && i < buckets; i++)
		hist[i] += READ_ONCE(c->hist[i]);
}

static u64 jifl_stats_read_counter(const struct jifl_aim *aim)
{
	const int cell = READ_ONCE(aim->cell) - 1;
	u64 sum = 0;
	int cpu;

	if (!aim->counter)
		return 0;
	for_each_possible_cpu(cpu) {
		if (!cpu_online(cpu) && JIFL_HOST_PLANTED(offline_forgotten))
			continue;
		sum += READ_ONCE(*per_cpu_ptr(aim->counter, cpu));
		if (cell >= 0)
			sum += READ_ONCE(*per_cpu_ptr(&jifl_stats_cells[cell], cpu));
	}
	return sum;
}

void jifl_stats_read(const struct jifl_aim *aim, struct jifl_stat *st, u64 *hist)
{
	unsigned int miss;
	int cpu;

	st->calls = jifl_stats_read_counter(aim);
	st->no_return = 0;
	st->sum = 0;
	st->min = U64_MAX;
	st->max = 0;
	st->missed = 0;
	memset(st->missed_by, 0, sizeof(st->missed_by));
	for (miss = 0; miss < JIFL_NR_MISSES; miss++) {
		st->missed_by[miss] = atomic64_read(&aim->missed[miss]);
		st->missed += st->missed_by[miss];
	}
	st->blocks = READ_ONCE(aim->blocks);
	st->adopted = READ_ONCE(aim->adopted);
	st->adopted_sum = atomic64_read(&aim->adopted_sum);
	if (hist)
		memset(hist, 0, JIFL_HIST_BUCKETS * sizeof(*hist));
	for_each_possible_cpu(cpu)
		if (aim->cpu[cpu])
			jifl_stats_read_cpu(aim->cpu[cpu], st, hist,
					    jifl_stats_buckets(aim->session));
	if (st->min == U64_MAX)
		st->min = 0;
}

u64 jifl_stats_calls(const struct jifl_session *s)
{
	struct jifl_stat st;
	struct jifl_aim *aim;
	u64 calls = 0;
	u32 i;

	for_each_aim(aim, s, i) {
		jifl_stats_read(aim, &st, NULL);
		calls += st.calls;
	}
	return calls;
}

void jifl_stats_free(struct jifl_session *s)
{
	const int size = jifl_stats_size(s);
	struct jifl_aim *aim;
	int cpu;
	u32 i;

	jifl_keys_close(s);
	for_each_aim(aim, s, i) {
		jifl_stats_give_cell(aim);
		aim->counter = NULL;
		for_each_possible_cpu(cpu) {
			if (aim->cpu[cpu])
				kmem_cache_free(jifl_stats_sizes[size].cache, aim->cpu[cpu]);
			aim->cpu[cpu] = NULL;
		}
	}
	jifl_counters_close(s->counters);
	s->counters = NULL;
}

/* --- the file's own life ---------------------------------------------------------- */

int jifl_stats_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(jifl_stats_sizes); i++) {
		jifl_stats_sizes[i].cache = JIFL_ALLOC(kmem_cache_create(
			jifl_stats_sizes[i].name,
			sizeof(struct jifl_stats_cpu) + jifl_stats_sizes[i].buckets * sizeof(u32),
			0, 0, NULL));
		if (!jifl_stats_sizes[i].cache)
			return -ENOMEM;
	}
	return 0;
}

void jifl_stats_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(jifl_stats_sizes); i++) {
		kmem_cache_destroy(jifl_stats_sizes[i].cache);
		jifl_stats_sizes[i].cache = NULL;
	}
}
