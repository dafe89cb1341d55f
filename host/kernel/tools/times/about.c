// SPDX-License-Identifier: GPL-2.0
/*
 * What is done where a call begins and where it ends, if that is more than account.c inlines: a
 * program runs there (tools/probe/act.c), calls are about objects (object.c), or their times are
 * looked at one by one (distribution.c). account.c, 8 and 9, says why that is right.
 *
 * Context: any, interrupts off.
 */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../probe/act.h"
#include "../probe/probe.h"
#include "account.h"
#include "times.h"

/* --- what a row keeps ------------------------------------------------------------------------ */

/* The first call begins: depth is 1, and the call is not in `calls` yet. */
static void jifl_times_keep(const struct jifl_times *t, const struct jifl_times_record *r,
			    struct jifl_times_row *row, u64 object)
{
	struct jifl_times_call *call = jifl_times_call(row);
	u32 i;

	if (!JIFL_HOST_PLANTED(objects_kept) || !call->calls)
		call->object = object;
	call->is_late = false;
	call->wall = row->wall;
	call->blocked = row->blocked;
	call->runnable = row->runnable;
	call->calls = row->calls;
	for (i = 0; i < t->ncounters; i++)
		call->counted[i] = jifl_times_counted(row)[i];
	jifl_times_count(JIFL_TIMES_SEVERAL, t, r, row, false);
	jifl_times_sub(row->wall, rdtsc());
	jifl_times_sub(row->blocked, r->blocked);
	jifl_times_sub(row->runnable, r->runnable);
}

/* The last one ends: depth is 1, and the call is in *ended. */
static void jifl_times_give(const struct jifl_times *t, const struct jifl_times_record *r,
			    struct jifl_times_row *row)
{
	jifl_times_add(row->wall, rdtsc());
	jifl_times_add(row->blocked, r->blocked);
	jifl_times_add(row->runnable, r->runnable);
	jifl_times_count(JIFL_TIMES_SEVERAL, t, r, row, true);
	jifl_times_distribute_call(t, row);
	if (t->objects)
		jifl_times_end_about(t, row, 0);
}

/* Who reads sees by depth that it has begun, and by `ended` and `calls` that it is done. */
static void jifl_times_finish_about(const struct jifl_times *t, struct jifl_times_record *r,
				    struct jifl_times_row *row, u64 *ended)
{
	if (unlikely(jifl_times_is_0(&row->depth))) {
		jifl_times_inc32(row->strays);
		return;
	}
	jifl_times_inc(*ended);
	if (READ_ONCE(row->depth) == 1)
		jifl_times_give(t, r, row);
	jifl_times_dec(&row->depth);
}

/* --- both ------------------------------------------------------------------------------------ */

bool jifl_times_asks(const struct jifl_probe_place *of, unsigned int count)
{
	const struct jifl_times *t = of->owner->times;
	const struct jifl_times_place *place = &t->places[of - of->owner->places];
	const struct jifl_times_record *r = jifl_times_here(t->cpus, count);
	const struct jifl_times_row *row = (void *)r + place->at;
	const bool is_inside = !jifl_times_is_0(&row->depth);

	if (!r->used)
		return false;
	if (place->action & JIFL_TIMES_ENTER)
		return t->has_values || !is_inside;
	return is_inside;
}

/* While a call of the row goes on. */
static void jifl_times_add_up(const struct jifl_times *t, const struct jifl_times_place *place,
			      struct jifl_times_row *row, const struct jifl_times_values *values)
{
	const u32 known = values ? values->known : 0;
	const u64 cell = known && t->keeps ? jifl_times_call(row)->object : place->row;
	u32 i;

	for (i = 0; known && i < t->ncounters; i++) {
		const bool is_below = values->below & BIT(i);

		if (!(known & BIT(i)) || JIFL_HOST_PLANTED(values_not_added))
			continue;
		if (t->counters[i].is_distribution) {
			jifl_times_inc(jifl_times_counted(row)[i]);
			jifl_times_distribute(t, i, cell, values->value[i], is_below);
		} else if (!is_below) {
			jifl_times_add(jifl_times_counted(row)[i], values->value[i]);
		}
	}
}

static void jifl_times_begin_about(struct jifl_times *t, const struct jifl_times_place *place,
				   struct jifl_times_record *r, struct jifl_group_name *name,
				   u32 used)
{
	struct jifl_times_row *row = (void *)r + place->at;
	u64 object = place->row;
	bool is_first;

	if (!r->used)
		object = JIFL_TIMES_NOTHING;
	else if (t->objects)
		/* A call inside another one is about what that is about. */
		object = jifl_times_object(t, place->row,
					   jifl_times_is_0(&row->depth) ? name : NULL, used);
	/* What that has called may be this very function, so depth is asked afterwards. */
	is_first = jifl_times_is_0(&row->depth);
	jifl_times_inc32(row->depth);
	if (is_first)
		jifl_times_keep(t, r, row, object);
	jifl_times_inc(row->calls);
}

static void jifl_times_call_at(const struct jifl_times_place *place, struct jifl_times_record *r,
			       struct jifl_group_name *name, u32 used,
			       const struct jifl_times_values *values)
{
	struct jifl_times *t = place->times;
	struct jifl_times_row *row = (void *)r + place->at;
	u64 *ended = place->action & JIFL_TIMES_JUMP ? &row->jumped : &row->ended;

	if (place->action & JIFL_TIMES_ENTER && t->keeps)
		jifl_times_begin_about(t, place, r, name, used);
	else if (place->action & JIFL_TIMES_ENTER)
		jifl_times_begin(r, row, JIFL_TIMES_SEVERAL, t);
	jifl_times_add_up(t, place, row, values);
	/* Of one instruction both. */
	if (place->action & JIFL_TIMES_LEAVE && t->keeps)
		jifl_times_finish_about(t, r, row, ended);
	else if (place->action & JIFL_TIMES_LEAVE)
		jifl_times_finish(r, row, ended, JIFL_TIMES_SEVERAL, t);
}

void jifl_times_at_place(const struct jifl_probe_place *of, struct jifl_group_name *name, u32 used,
			 const struct jifl_times_values *values, unsigned int count)
{
	const struct jifl_times *t = of->owner->times;

	jifl_times_call_at(&t->places[of - of->owner->places], jifl_times_here(t->cpus, count),
			   name, used, values);
}

void jifl_times_call_here(const struct jifl_times_place *place, unsigned int count)
{
	jifl_times_call_at(place, jifl_times_here(place->times->cpus, count), NULL, 0, NULL);
}

static void jifl_times_about(const struct jifl_times_place *place)
{
	jifl_times_call_here(place, preempt_count());
}

void jifl_times_fill_about(struct jifl_times_place *place)
{
	struct ir_insert *ins = &place->call.insert;

	ins->fn = (unsigned long)jifl_times_about;
	ins->nargs = 1;
	ins->args[0] = (unsigned long)place;
}
