// SPDX-License-Identifier: GPL-2.0
/*
 * What calls are about: the same sums for each object, in cells that all CPUs add to.
 *
 * 1. When the first of calls inside each other begins, its row's struct jifl_times_call keeps what
 *    the row had before, and the object's cell. When the last one ends the row has more, by what
 *    the calls were. That is added to the cell, once. So the cells of a row have what the row has,
 *    but for calls that have not ended. Where a beginning has no end (account.c, 5) the row stays
 *    with its object until the session ends.
 * 2. Who reads adds these: for a row with such a call, what it has until now, less what it had. The
 *    cell is written between the first and the last store of an end. So a row that is whole
 *    (sum.c) has its last call either in the cell or in struct jifl_times_call.
 * 3. Cells are read before rows. So a call that ends in between is in neither, this time, or in
 *    part of the cell; none is in both. Who reads again and again keeps the larger figure. So no
 *    figure may be too large: cells get their blocked and runnable time before their wall time, and
 *    are read in the other order. Then cpu time, which is the difference, is too small for once, if
 *    it is wrong. When the session has ended nothing changes any more.
 * 4. The records of the dead come before those of tasks. A task that dies while records are read is
 *    met as it was, or in neither.
 *
 * Contexts: beginnings and ends: any, interrupts off; the others sleep. One task reads at a time:
 * it has the lock of the session's file.
 */
#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../call/program.h"
#include "../../session/session.h"
#include "../../store/answer.h"
#include "../../store/cells.h"
#include "../probe/act.h"
#include "../probe/probe.h"
#include "times.h"

/* Sums over calls that have ended. */
struct jifl_times_cell {
	struct jifl_cell cell;
	struct jifl_group_name name;	/* place: the row; does not change once it is published */
	atomic64_t wall, blocked, runnable, calls, died;
	atomic64_t counted[JIFL_COUNTERS_MAX];
};

/* An object, while it is read. The times are in ticks. */
struct jifl_times_told {
	u64 wall, blocked, runnable, calls, died, inside, adopted, strays;
	u64 counted[JIFL_COUNTERS_MAX];
};

struct jifl_times_objects {
	struct jifl_cells cells;	/* struct jifl_times_cell; at first, each row's others */
	struct jifl_times_told *told;	/* by cell */
	u32 ntold;
	u64 at;				/* ticks: when it was read */
	bool ended;			/* the session was, then */
	atomic64_t refused;		/* calls whose object found no room */
};

static struct jifl_times_cell *jifl_times_cell_at(const struct jifl_times_objects *o, u32 i)
{
	return container_of(jifl_cells_at(&o->cells, sizeof(struct jifl_times_cell), i),
			    struct jifl_times_cell, cell);
}

/* --- beginnings and ends -------------------------------------------------------------------- */

/* Its index, U32_MAX: there is no room. */
static u32 jifl_times_find_object(struct jifl_times_objects *o, const struct jifl_group_name *name,
				  u32 used)
{
	const size_t size = sizeof(struct jifl_times_cell);
	const struct jifl_cell *cell =
		jifl_cells_find_or_add_hashed(&o->cells, size, name, sizeof(*name),
					      jifl_groups_hash(name, used));

	static_assert(offsetof(struct jifl_times_cell, name) == sizeof(struct jifl_cell));
	return cell ? jifl_cells_index(&o->cells, size, cell) : U32_MAX;
}

u32 jifl_times_object(struct jifl_times *t, u32 row, struct jifl_group_name *name, u32 used)
{
	u32 found;

	if (!name)
		return row;
	name->place = row;
	found = jifl_times_find_object(t->objects, name, used);
	if (found != U32_MAX)
		return found;
	atomic64_inc(&t->objects->refused);
	/* The first cells are the rows' others. */
	return row;
}

void jifl_times_end_about(const struct jifl_times *t, struct jifl_times_row *row, u32 died)
{
	const struct jifl_times_call *call = jifl_times_call(row);
	struct jifl_times_cell *cell;
	u32 i;

	if (call->object == JIFL_TIMES_NOTHING)
		return;
	cell = jifl_times_cell_at(t->objects, call->object);
	atomic64_add(row->blocked - call->blocked, &cell->blocked);
	atomic64_add(row->runnable - call->runnable, &cell->runnable);
	/* On x86 they are seen in this order. */
	atomic64_add(row->wall - call->wall, &cell->wall);
	atomic64_add(row->calls - call->calls, &cell->calls);
	if (died)
		atomic64_add(died, &cell->died);
	for (i = 0; i < t->ncounters; i++)
		atomic64_add(jifl_times_counted(row)[i] - call->counted[i], &cell->counted[i]);
}

bool jifl_times_is_about(const struct jifl_times *t, const struct jifl_program *program,
			 bool objects)
{
	const struct jifl_op *op, *end = program->ops + program->n - objects;

	for (op = program->ops; op < end; op++) {
		const bool is_part = op->code == JIFL_OP_GROUP || op->code == JIFL_OP_GROUP_STR ||
				     op->code == JIFL_OP_GROUP_STACK;

		if (op->code < JIFL_OP_IF || (is_part && objects))
			continue;
		if (op->code != JIFL_OP_ADD_UP || op->arg >= t->ncounters ||
		    !t->counters[op->arg].is_value)
			return false;
	}
	return !objects || op->code == JIFL_OP_OBJECT;
}

/* --- reading -------------------------------------------------------------------------------- */

static void jifl_times_tell_cells(const struct jifl_times *t, struct jifl_times_objects *o)
{
	u32 i, k;

	o->ntold = jifl_cells_end(&o->cells);
	for (i = 0; i < o->ntold; i++) {
		const struct jifl_times_cell *cell = jifl_times_cell_at(o, i);
		struct jifl_times_told *told = &o->told[i];

		*told = (struct jifl_times_told){ .wall = atomic64_read(&cell->wall) };
		smp_rmb();
		told->blocked = atomic64_read(&cell->blocked);
		told->runnable = atomic64_read(&cell->runnable);
		told->calls = atomic64_read(&cell->calls);
		told->died = atomic64_read(&cell->died);
		for (k = 0; k < t->ncounters; k++)
			told->counted[k] = atomic64_read(&cell->counted[k]);
	}
}

/* Adds what has not ended. */
static void jifl_times_tell_row(const struct jifl_times *t, struct jifl_times_objects *o,
				struct jifl_times_record *r, u32 i)
{
	u64 counted[JIFL_COUNTERS_MAX];
	struct jifl_times_call call;
	struct jifl_times_row row;
	struct jifl_times_told *told;
	u32 k;

	if (!jifl_times_read(t, r, i, o->at, o->ended, &row, counted, &call))
		return;
	o->told[i].adopted += row.adopted;
	o->told[i].strays += row.strays;
	/* A cell that has come since is told the next time. */
	if (!row.depth || call.object >= o->ntold || JIFL_HOST_PLANTED(objects_late))
		return;
	told = &o->told[call.object];
	told->inside += row.depth;
	told->calls += row.calls - call.calls;
	told->wall += row.wall - call.wall;
	told->blocked += row.blocked - call.blocked;
	told->runnable += row.runnable - call.runnable;
	for (k = 0; k < t->ncounters; k++)
		told->counted[k] += counted[k] - call.counted[k];
}

/* Reads all. */
static void jifl_times_tell(const void *table)
{
	const struct jifl_probe *p = table;
	const struct jifl_times *t = p->times;
	const u64 end = READ_ONCE(t->end);
	u32 n, i;

	t->objects->ended = end;
	t->objects->at = end ?: rdtsc();
	jifl_times_tell_cells(t, t->objects);
	smp_rmb();
	for (n = 0; n < (u32)atomic_read(&t->high); n++) {
		struct jifl_times_record *r = jifl_times_at(t, n);

		if (!smp_load_acquire(&r->used))
			continue;
		for (i = 0; i < t->nrows; i++)
			jifl_times_tell_row(t, t->objects, r, i);
		cond_resched();
	}
}

static u32 jifl_times_objects_end(const void *table)
{
	const struct jifl_probe *p = table;

	return p->times->objects->ntold;
}

u32 jifl_times_objects_told(const struct jifl_times *t)
{
	return t->objects->ntold;
}

u32 jifl_times_objects_room(const struct jifl_times *t)
{
	return t->nrows + jifl_groups_room();
}

static void jifl_times_objects_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_probe *p = table;
	const struct jifl_times *t = p->times;
	const struct jifl_times_cell *cell = jifl_times_cell_at(t->objects, i);
	const struct jifl_times_told *told = &t->objects->told[i];
	struct jifl_object *object = answer;
	u32 k;

	*object = (struct jifl_object){
		.target = cell->name.place,
		.unknown = cell->name.unknown,
		.time = {
			.calls = told->calls,
			.adopted = told->adopted,
			.inside = told->inside,
			.died = told->died,
			.strays = told->strays,
			.blocked_ns = jifl_times_ns(told->blocked),
			.runnable_ns = jifl_times_ns(told->runnable),
			.cpu_ns = jifl_times_ns(told->wall - told->blocked - told->runnable),
			.elapsed_ns = jifl_times_ns(t->objects->at - t->begin),
		},
	};
	static_assert(sizeof(object->name) == sizeof(cell->name.name));
	memcpy(object->name, cell->name.name, sizeof(object->name));
	for (k = 0; k < t->ncounters; k++)
		object->time.counted[k] = jifl_times_counted_as(t, k, told->counted[k]);
}

static void jifl_times_objects_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_probe *p = table;

	req->rest[JIFL_OBJECT_REFUSED] = atomic64_read(&p->times->objects->refused);
}

static_assert(sizeof(struct jifl_object) <= JIFL_ANSWER_MAX);
const struct jifl_answer jifl_times_objects_answer = {
	.size = sizeof(struct jifl_object),
	.begin = jifl_times_tell,
	.end = jifl_times_objects_end,
	.fill = jifl_times_objects_fill,
	.rest = jifl_times_objects_rest,
};

/* --- opening and closing --------------------------------------------------------------------- */

int jifl_times_open_objects(struct jifl_times *t)
{
	struct jifl_times_objects *o;
	const u32 n = jifl_times_objects_room(t);
	u32 i;
	int ret;

	if (!t->session->programs || !t->session->programs->objects)
		return 0;
	o = JIFL_ALLOC(kzalloc(sizeof(*o), GFP_KERNEL));
	t->objects = o;
	if (!o)
		return -ENOMEM;
	ret = jifl_cells_open(&o->cells, n, sizeof(struct jifl_times_cell));
	if (ret)
		return ret;
	o->told = JIFL_ALLOC(kvmalloc_array(n, sizeof(*o->told), GFP_KERNEL));
	if (!o->told)
		return -ENOMEM;
	for (i = 0; i < t->nrows; i++) {
		const struct jifl_group_name others = { .place = i,
							.unknown = JIFL_OBJECT_OTHERS };

		if (jifl_times_find_object(o, &others, 0) != i)
			return -ENOMEM;
	}
	return 0;
}

void jifl_times_close_objects(struct jifl_times *t)
{
	if (!t->objects)
		return;
	kvfree(t->objects->told);
	jifl_cells_close(&t->objects->cells);
	kfree(t->objects);
}
