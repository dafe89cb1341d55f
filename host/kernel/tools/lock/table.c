// SPDX-License-Identifier: GPL-2.0
/*
 * The sums of a session: a cell for each combination of lock, caller, function that waits and type.
 * The number of cells (cells.h) is fixed. Waits that find no cell are counted together.
 *
 * Contexts: jifl_lock_cell: any but NMI, any lock may be held; the others sleep.
 */
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/vmalloc.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/ksym.h"
#include "../../store/cells.h"
#include "../../call/whose.h"
#include "lock.h"

static unsigned int lock_cells = 4096;
module_param(lock_cells, uint, 0444);
MODULE_PARM_DESC(lock_cells,
		 "locks and callers that a session can have waits of, 16 to 1048576 (default 4096)");

struct jifl_lock_table {
	struct jifl_cells cells;	/* struct jifl_lock_cell; first, for jifl_cells_end */
	struct jifl_lock_cell other;	/* of all without one */
	struct jifl_lock_waits waits;
};

/* The addresses that kallsyms gives to per-CPU variables of the core kernel: [start, end). */
static unsigned long percpu_start, percpu_end;

int jifl_lock_table_init(void)
{
	percpu_start = jifl_ksym("__per_cpu_start");
	percpu_end = jifl_ksym("__per_cpu_end");
	return jifl_cells_check("lock_cells", lock_cells, 1 << 20);
}

struct jifl_lock_waits *jifl_lock_waits(struct jifl_lock_table *t)
{
	return &t->waits;
}

void jifl_lock_close(struct jifl_session *s)
{
	struct jifl_lock_table *t = s->tool_data;

	if (!t)
		return;
	vfree(t->waits.waits);
	jifl_cells_close(&t->cells);
	vfree(t);
	s->tool_data = NULL;
}

int jifl_lock_open(struct jifl_session *s, u64 *busy_session)
{
	struct jifl_lock_table *t = JIFL_ALLOC(vzalloc(sizeof(*t)));
	int ret;

	if (!t)
		return -ENOMEM;
	s->tool_data = t;
	ret = jifl_cells_open(&t->cells, lock_cells, sizeof(struct jifl_lock_cell));
	t->waits.waits = JIFL_ALLOC(vcalloc(1u << JIFL_LOCK_WAITS_BITS, sizeof(*t->waits.waits)));
	if (!ret && t->waits.waits)
		return 0;
	jifl_lock_close(s);
	return -ENOMEM;
}

/* --- finding and adding -------------------------------------------------------------- */

struct jifl_lock_cell *jifl_lock_cell(struct jifl_lock_table *t, const struct jifl_lock_name *name)
{
	struct jifl_cell *cell = jifl_cells_find_or_add(&t->cells, sizeof(struct jifl_lock_cell),
						name, sizeof(*name));

	static_assert(offsetof(struct jifl_lock_cell, name) == sizeof(struct jifl_cell));
	return cell ? container_of(cell, struct jifl_lock_cell, cell) : &t->other;
}

/* --- reading ------------------------------------------------------------------------- */

/* If the lock is a per-CPU variable of the core kernel: says which, and of which CPU. */
static void jifl_lock_name_percpu(struct jifl_lock *l)
{
	unsigned int cpu;
	u64 at;

	for_each_possible_cpu(cpu) {
		at = l->lock - per_cpu_offset(cpu);
		if (at < percpu_start || at >= percpu_end)
			continue;
		l->percpu = at;
		l->cpu = cpu;
		return;
	}
}

static void jifl_lock_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_lock_table *t = table;
	const struct jifl_lock_cell *cell = (void *)jifl_cells_at(&t->cells, sizeof(*cell), i);
	struct jifl_lock *l = answer;

	*l = (struct jifl_lock){
		.lock = cell->name.lock,
		.caller = cell->name.caller,
		.site = cell->name.site,
		.contended = atomic64_read(&cell->contended),
		.ended = atomic64_read(&cell->ended),
		.wait_ns = atomic64_read(&cell->wait_ns),
		.max_ns = atomic64_read(&cell->max_ns),
		.type = cell->name.type,
	};

	jifl_lock_name_percpu(l);
}

static void jifl_lock_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_lock_table *t = table;

	req->rest[JIFL_LOCK_OTHER_CONTENDED] = atomic64_read(&t->other.contended);
	req->rest[JIFL_LOCK_OTHER_WAIT_NS] = atomic64_read(&t->other.wait_ns);
	req->rest[JIFL_LOCK_UNTIMED] = atomic64_read(&t->waits.untimed);
}

static_assert(sizeof(struct jifl_lock) <= JIFL_ANSWER_MAX);
static_assert(!offsetof(struct jifl_lock_table, cells));
const struct jifl_answer jifl_lock_answer = {
	.size = sizeof(struct jifl_lock),
	.end = jifl_cells_end,
	.fill = jifl_lock_fill,
	.rest = jifl_lock_rest,
};
