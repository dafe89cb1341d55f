// SPDX-License-Identifier: GPL-2.0
/*
 * The figures of a session. For each target and each CPU there are sums and a histogram. count.c
 * adds a call to them when the call ends. Here they are made, and read for users.
 */
#include <linux/bitmap.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../enter/syscall.h"
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
	{ "jifl_stats_calls", 0 },
	{ "jifl_stats_signed", JIFL_STATS_SIGNED },
	{ "jifl_stats_counts", JIFL_HIST_BUCKETS },
};

/*
 * Cells for calls that are only counted. The static per-CPU data of all modules together has 8 KiB.
 * So there are fewer cells than system calls. A session takes a cell for a target when the target's
 * entry piece is made, and gives it back when the session is freed. Only sessions in lane 0 take
 * cells, so a target with several sessions uses one.
 */
#define JIFL_STATS_CELLS	192

static DEFINE_PER_CPU(u64 [JIFL_STATS_CELLS], jifl_stats_cells);
static DECLARE_BITMAP(jifl_stats_cells_used, JIFL_STATS_CELLS); /* jifl_entry_lock */

/* Returns an index into jifl_stats_sizes. Negative: calls are not counted. */
static int jifl_stats_size(const struct jifl_session *s)
{
	if (s->tool->calls == JIFL_CALLS_UNCOUNTED)
		return -1;
	if (s->flags & (JIFL_FLAG_RETVAL | JIFL_FLAGS_ARG))
		return 1;
	if (s->tool->calls == JIFL_CALLS_COUNTED && !(s->flags & JIFL_FLAG_DURATION))
		return 0;
	return 2;
}

static u32 jifl_stats_buckets(const struct jifl_session *s)
{
	const int size = jifl_stats_size(s);

	return size < 0 ? 0 : jifl_stats_sizes[size].buckets;
}

static int jifl_stats_alloc(struct jifl_aim *aim, struct kmem_cache *cache)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct jifl_stats_cpu *st;

		st = JIFL_ALLOC(kmem_cache_alloc_node(cache, GFP_KERNEL | __GFP_ZERO,
						      cpu_to_node(cpu)));
		if (!st)
			return -ENOMEM;
		st->min = U64_MAX;
		aim->cpu[cpu] = st;
	}
	return 0;
}

/* What was made before an error is freed with the session. */
int jifl_count_prepare(struct jifl_session *s)
{
	const int size = jifl_stats_size(s);
	struct jifl_aim *aim;
	u32 i;

	if (s->flags & JIFL_FLAGS_BY && jifl_keys_open(s))
		return -ENOMEM;
	if (size < 0)
		return 0;
	for_each_aim(aim, s, i) {
		if (jifl_stats_alloc(aim, jifl_stats_sizes[size].cache))
			return -ENOMEM;
		cond_resched();
	}
	return 0;
}

void jifl_stats_collect_cells(struct jifl_session *s)
{
	struct jifl_aim *aim;
	int cpu;
	u32 i;

	for_each_aim(aim, s, i) {
		int cell = aim->cell - 1;

		if (cell < 0)
			continue;
		for_each_possible_cpu(cpu) {
			u64 *n = per_cpu_ptr(&jifl_stats_cells[cell], cpu);

			aim->cpu[cpu]->calls += *n;
			*n = 0;
		}
	}
}

bool jifl_stats_has_cell(const struct jifl_aim *aim, struct ir_operand *cell)
{
	const int n = READ_ONCE(aim->cell);

	if (!n || !jifl_stats_in_cells(aim->session))
		return false;
	*cell = (struct ir_operand){
		.disp = (s32)(unsigned long)&jifl_stats_cells[n - 1],
		.gs = true,
	};
	return true;
}

bool jifl_stats_cell(struct jifl_aim *aim, struct ir_operand *cell)
{
	unsigned long found;

	if (!aim->cell) {
		found = find_first_zero_bit(jifl_stats_cells_used, JIFL_STATS_CELLS);
		if (found == JIFL_STATS_CELLS)
			return false;
		__set_bit(found, jifl_stats_cells_used);
		WRITE_ONCE(aim->cell, found + 1);
	}
	return jifl_stats_has_cell(aim, cell);
}

/* jifl_stats_collect_cells has left a 0 in the cell. */
static void jifl_stats_give_cell(struct jifl_aim *aim)
{
	unsigned long flags;

	if (!aim->cell)
		return;
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

/* What a running session has in shared cells. */
static u64 jifl_stats_read_cells(const struct jifl_aim *aim)
{
	int cell = READ_ONCE(aim->cell) - 1;
	u64 sum = 0;
	int cpu;

	if (!jifl_stats_in_cells(aim->session) || !aim->session->running || cell < 0)
		return 0;
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&jifl_stats_cells[cell], cpu));
	return sum;
}

void jifl_count_read(const struct jifl_aim *aim, struct jifl_stat *st, u64 *hist)
{
	unsigned int miss;
	int cpu;

	st->calls = jifl_stats_read_cells(aim);
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
	if (hist)
		memset(hist, 0, JIFL_HIST_BUCKETS * sizeof(*hist));
	for_each_possible_cpu(cpu)
		if (aim->cpu[cpu])
			jifl_stats_read_cpu(aim->cpu[cpu], st, hist,
					    jifl_stats_buckets(aim->session));
	if (st->min == U64_MAX)
		st->min = 0;
}

u64 jifl_count_calls(const struct jifl_session *s)
{
	struct jifl_stat st;
	struct jifl_aim *aim;
	u64 calls = 0;
	u32 i;

	for_each_aim(aim, s, i) {
		jifl_count_read(aim, &st, NULL);
		calls += st.calls;
	}
	return calls;
}

void jifl_count_free(struct jifl_session *s)
{
	const int size = jifl_stats_size(s);
	struct jifl_aim *aim;
	int cpu;
	u32 i;

	jifl_keys_close(s);
	for_each_aim(aim, s, i) {
		jifl_stats_give_cell(aim);
		for_each_possible_cpu(cpu) {
			if (aim->cpu[cpu])
				kmem_cache_free(jifl_stats_sizes[size].cache, aim->cpu[cpu]);
			aim->cpu[cpu] = NULL;
		}
	}
}

/* --- the file's own life ---------------------------------------------------------- */

int jifl_stats_init(void)
{
	unsigned int i;

	/* Reached by inserted code as a sign-extended 32-bit offset from gs. */
	if (!jifl_fits_s32((unsigned long)&jifl_stats_cells)) {
		pr_err("per-CPU data lies out of reach of inserted code\n");
		return -ENOMEM;
	}
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
