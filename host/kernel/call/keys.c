// SPDX-License-Identifier: GPL-2.0
/*
 * Counts by what the tasks are, and where they are: by command name, process, CPU, level, or each
 * combination of these (JIFL_FLAG_BY_*). A call in a softirq or an interrupt is no task's.
 *
 * All processors add to the same cells (cells.h), because each call adds only once. Keys that find
 * no room are counted together.
 *
 * Calls that had begun before their session (adopted.c) have keys of their own. Their count is
 * added where it ends, also where another task ends it: with all CPUs stopped, at the end of the
 * session.
 *
 * Contexts: jifl_keys_add: any but NMI, with preemption off; the others sleep.
 */
#include <linux/atomic.h>
#include <linux/moduleparam.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../store/answer.h"
#include "../store/cells.h"
#include "../store/level.h"
#include "keys.h"
#include "whose.h"

static unsigned int count_keys = 4096;
module_param(count_keys, uint, 0444);
MODULE_PARM_DESC(count_keys,
		 "keys that a session can count by, 16 to 1048576 (default 4096)");

struct jifl_keys_name {
	u32 cpu;
	s32 tgid;
	char comm[TASK_COMM_LEN];
	u32 level;
	u32 adopted;		/* 1: of calls that had begun before the session */
};

struct jifl_keys_cell {
	struct jifl_cell cell;
	struct jifl_keys_name name;	/* does not change once it is published */
	atomic64_t calls;
	atomic64_t sum;
};

struct jifl_keys_table {
	struct jifl_cells cells;	/* struct jifl_keys_cell; first, for jifl_cells_end */
	u32 flags;			/* JIFL_FLAG_BY_* */
	struct jifl_keys_cell other;	/* of keys without a cell */
	struct jifl_keys_cell other_adopted;	/* of those that have `adopted` */
};

int jifl_keys_init(void)
{
	return jifl_cells_check("count_keys", count_keys, 1 << 20);
}

void jifl_keys_close(struct jifl_session *s)
{
	if (!s->keys)
		return;
	jifl_cells_close(&s->keys->cells);
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
	if (!jifl_cells_open(&t->cells, count_keys, sizeof(struct jifl_keys_cell)))
		return 0;
	jifl_keys_close(s);
	return -ENOMEM;
}

/* --- adding ----------------------------------------------------------------------- */

/* Not get_task_comm(): it takes a lock. During a rename either name may be read. */
static const char *jifl_keys_comm(enum jifl_level level)
{
	if (level == JIFL_LEVEL_TASK)
		return current->comm;
	return level == JIFL_LEVEL_IRQ ? JIFL_KEY_IRQ : JIFL_KEY_SOFTIRQ;
}

static void jifl_keys_name(const struct jifl_keys_table *t, struct jifl_keys_name *name)
{
	const enum jifl_level level = jifl_level();

	memset(name, 0, sizeof(*name));
	if (t->flags & JIFL_FLAG_BY_CPU)
		name->cpu = raw_smp_processor_id();
	if (t->flags & JIFL_FLAG_BY_LEVEL)
		name->level = level;
	if (t->flags & JIFL_FLAG_BY_PID && level == JIFL_LEVEL_TASK)
		name->tgid = task_tgid_nr(current);
	if (t->flags & JIFL_FLAG_BY_COMM)
		strscpy_pad(name->comm, jifl_keys_comm(level), sizeof(name->comm));
}

static void jifl_keys_name_adopted(const struct jifl_keys_table *t,
				   const struct task_struct *task, struct jifl_keys_name *name)
{
	memset(name, 0, sizeof(*name));
	name->adopted = !JIFL_HOST_PLANTED(adopted_as_keys);
	if (t->flags & JIFL_FLAG_BY_LEVEL)
		name->level = JIFL_LEVEL_TASK;
	if (t->flags & JIFL_FLAG_BY_PID)
		name->tgid = task->tgid;
	if (t->flags & JIFL_FLAG_BY_COMM)
		strscpy_pad(name->comm, task->comm, sizeof(name->comm));
}

/* The cell of that name, or the one for all names without room. */
static struct jifl_keys_cell *jifl_keys_cell(struct jifl_keys_table *t,
					     const struct jifl_keys_name *name)
{
	struct jifl_cell *cell = jifl_cells_find_or_add(&t->cells, sizeof(struct jifl_keys_cell),
						name, sizeof(*name));

	static_assert(offsetof(struct jifl_keys_cell, name) == sizeof(struct jifl_cell));
	if (cell)
		return container_of(cell, struct jifl_keys_cell, cell);
	return name->adopted ? &t->other_adopted : &t->other;
}

void jifl_keys_add(struct jifl_keys_table *t, u64 value)
{
	struct jifl_keys_name name;
	struct jifl_keys_cell *cell;

	jifl_own_begin();
	jifl_keys_name(t, &name);
	cell = jifl_keys_cell(t, &name);
	jifl_own_end();
	atomic64_inc(&cell->calls);
	atomic64_add(value, &cell->sum);
}

void jifl_keys_add_adopted(struct jifl_keys_table *t, const struct task_struct *task, u64 value)
{
	struct jifl_keys_name name;
	struct jifl_keys_cell *cell;

	if (t->flags & JIFL_FLAG_BY_CPU)
		return;
	jifl_own_begin();
	jifl_keys_name_adopted(t, task, &name);
	cell = jifl_keys_cell(t, &name);
	jifl_own_end();
	atomic64_inc(&cell->calls);
	atomic64_add(value, &cell->sum);
}

/* --- reading ----------------------------------------------------------------------- */

static void jifl_keys_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_keys_table *t = table;
	const struct jifl_keys_cell *cell = (void *)jifl_cells_at(&t->cells, sizeof(*cell), i);
	struct jifl_key *key = answer;

	*key = (struct jifl_key){
		.cpu = cell->name.cpu,
		.tgid = cell->name.tgid,
		.level = cell->name.level,
		.adopted = cell->name.adopted,
		.calls = atomic64_read(&cell->calls),
		.sum = atomic64_read(&cell->sum),
	};

	static_assert(sizeof(key->comm) == sizeof(cell->name.comm));
	memcpy(key->comm, cell->name.comm, sizeof(key->comm));
}

static void jifl_keys_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_keys_table *t = table;

	req->rest[JIFL_KEY_OTHER_CALLS] = atomic64_read(&t->other.calls);
	req->rest[JIFL_KEY_OTHER_SUM] = atomic64_read(&t->other.sum);
	req->rest[JIFL_KEY_OTHER_ADOPTED] = atomic64_read(&t->other_adopted.calls);
}

static_assert(sizeof(struct jifl_key) <= JIFL_ANSWER_MAX);
static_assert(!offsetof(struct jifl_keys_table, cells));
const struct jifl_answer jifl_keys_answer = {
	.size = sizeof(struct jifl_key),
	.end = jifl_cells_end,
	.fill = jifl_keys_fill,
	.rest = jifl_keys_rest,
};
