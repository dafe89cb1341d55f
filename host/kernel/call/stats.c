// SPDX-License-Identifier: GPL-2.0
/*
 * The figures of a session: for each of its system calls and each CPU, sums and a
 * histogram, which calls go into at their end (count.c), and reading them.
 */
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../kernel.h"
#include "../plant.h"
#include "../enter/syscall.h"
#include "../session/session.h"
#include "count.h"
#include "stats.h"

static struct kmem_cache *jifl_stats_cache;

/*
 * Cells for JIFL_KIND_CALL: the space for static per-CPU data of all modules
 * together is 8 KiB, so there are fewer than system calls. A cell stays with
 * the system call that took it first, and serves sessions in lane 0: one at a
 * time.
 */
#define JIFL_STATS_CELLS	192

static DEFINE_PER_CPU(u64 [JIFL_STATS_CELLS], jifl_stats_cells);
static s16 jifl_stats_cell_of[JIFL_NR_MAX];	/* 0: none yet, else index + 1 */
static s16 jifl_stats_cells_used;		/* both: jifl_entry_lock */

static void jifl_stats_free(struct jifl_stats *st)
{
	int cpu;

	if (!st)
		return;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (st->cpu[cpu])
			kmem_cache_free(jifl_stats_cache, st->cpu[cpu]);
	kfree(st);
}

/* Process context, but inside jifl_entry_slow: must not sleep. */
static struct jifl_stats *jifl_stats_alloc(void)
{
	const gfp_t gfp = GFP_NOWAIT | __GFP_NOWARN | __GFP_ZERO;
	struct jifl_stats *st;
	int cpu;

	st = JIFL_ALLOC(kmalloc(array_size(nr_cpu_ids, sizeof(st->cpu[0])), gfp));
	if (!st)
		return NULL;
	for_each_possible_cpu(cpu) {
		st->cpu[cpu] = JIFL_ALLOC(kmem_cache_alloc_node(jifl_stats_cache, gfp,
								cpu_to_node(cpu)));
		if (!st->cpu[cpu]) {
			jifl_stats_free(st);
			return NULL;
		}
		st->cpu[cpu]->min = U64_MAX;
	}
	return st;
}

int jifl_count_prepare(struct jifl_session *s, unsigned int nr)
{
	struct jifl_stats *st;
	unsigned long flags;

	if (s->kind == JIFL_KIND_NONE || s->kind == JIFL_KIND_PLUGIN ||
	    READ_ONCE(s->stats[nr]))
		return 0;
	st = jifl_stats_alloc();
	if (!st)
		return -ENOMEM;
	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	if (!s->stats[nr]) {
		/* Pairs with the READ_ONCE of readers: filled before seen. */
		smp_store_release(&s->stats[nr], st);
		st = NULL;
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
	jifl_stats_free(st);
	return 0;
}

void jifl_stats_settle(struct jifl_session *s)
{
	unsigned int nr;

	for (nr = 0; nr < JIFL_NR_MAX; nr++) {
		int cell = jifl_stats_cell_of[nr] - 1;
		int cpu;

		if (!s->stats[nr] || cell < 0)
			continue;
		for_each_possible_cpu(cpu) {
			u64 *n = per_cpu_ptr(&jifl_stats_cells[cell], cpu);

			s->stats[nr]->cpu[cpu]->calls += *n;
			*n = 0;
		}
	}
}

bool jifl_stats_cell(unsigned int nr, struct ir_operand *cell)
{
	if (!jifl_stats_cell_of[nr] && jifl_stats_cells_used < JIFL_STATS_CELLS)
		jifl_stats_cell_of[nr] = ++jifl_stats_cells_used;
	if (!jifl_stats_cell_of[nr])
		return false;
	*cell = (struct ir_operand){
		.disp = (s32)(unsigned long)&jifl_stats_cells[jifl_stats_cell_of[nr] - 1],
		.gs = true,
	};
	return true;
}

/* --- reading --------------------------------------------------------------------- */

static void jifl_stats_read_cpu(const struct jifl_stats_cpu *c, struct jifl_stat *st,
				u64 *hist)
{
	unsigned int i;

	st->calls += READ_ONCE(c->calls);
	st->no_return += READ_ONCE(c->no_return);
	st->sum += READ_ONCE(c->sum);
	st->min = min(st->min, READ_ONCE(c->min));
	st->max = max(st->max, READ_ONCE(c->max));
	for (i = 0; hist && i < JIFL_HIST_BUCKETS; i++)
		hist[i] += READ_ONCE(c->hist[i]);
}

/* What a running KIND_CALL session has in shared cells. */
static u64 jifl_stats_read_cells(const struct jifl_session *s, unsigned int nr)
{
	int cell = READ_ONCE(jifl_stats_cell_of[nr]) - 1;
	u64 sum = 0;
	int cpu;

	if (!jifl_stats_in_cells(s) || !s->running || cell < 0)
		return 0;
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&jifl_stats_cells[cell], cpu));
	return sum;
}

int jifl_count_read(struct jifl_session *s, struct jifl_stat *st, u64 *hist)
{
	struct jifl_stats *stats;
	int cpu;

	if (st->nr >= JIFL_NR_MAX || !test_bit(st->nr, s->nrs))
		return -ENOENT;
	st->calls = 0;
	st->no_return = 0;
	st->sum = 0;
	st->min = U64_MAX;
	st->max = 0;
	st->missed = atomic64_read(&s->missed[st->nr]);
	st->blocks = READ_ONCE(s->blocks[st->nr]);
	if (hist)
		memset(hist, 0, JIFL_HIST_BUCKETS * sizeof(*hist));
	stats = READ_ONCE(s->stats[st->nr]);
	if (stats) {
		for_each_possible_cpu(cpu)
			jifl_stats_read_cpu(stats->cpu[cpu], st, hist);
		st->calls += jifl_stats_read_cells(s, st->nr);
	}
	if (st->min == U64_MAX)
		st->min = 0;
	return 0;
}

u64 jifl_count_calls(struct jifl_session *s)
{
	u64 calls = 0;
	unsigned int nr;

	for_each_set_bit(nr, s->nrs, JIFL_NR_MAX) {
		struct jifl_stat st = { .nr = nr };

		if (!jifl_count_read(s, &st, NULL))
			calls += st.calls;
	}
	return calls;
}

void jifl_count_free(struct jifl_session *s)
{
	unsigned int nr;

	for (nr = 0; nr < JIFL_NR_MAX; nr++) {
		jifl_stats_free(s->stats[nr]);
		s->stats[nr] = NULL;
	}
}

/* --- the file's own life ---------------------------------------------------------- */

int jifl_stats_init(void)
{
	/* Reached by inserted code as a sign-extended 32-bit offset from gs. */
	if (!jifl_fits_s32((unsigned long)&jifl_stats_cells)) {
		pr_err("per-CPU data lies out of reach of inserted code\n");
		return -ENOMEM;
	}
	jifl_stats_cache = JIFL_ALLOC(KMEM_CACHE(jifl_stats_cpu, 0));
	return jifl_stats_cache ? 0 : -ENOMEM;
}

void jifl_stats_exit(void)
{
	kmem_cache_destroy(jifl_stats_cache);
	jifl_stats_cache = NULL;
}
