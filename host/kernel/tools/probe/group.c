// SPDX-License-Identifier: GPL-2.0
/*
 * Hits by groups (JIFL_TABLE_GROUPS), and stacks by number (JIFL_TABLE_STACKS). All processors add
 * to the same cells (store/cells.h).
 *
 * Contexts: jifl_groups_add, jifl_groups_stack: any, NMI too, interrupts off. The lock of a table
 * is taken while a program runs on the CPU, and no other one runs then (act.c). The others sleep.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../store/answer.h"
#include "../../store/cells.h"
#include "act.h"

static unsigned int probe_groups = 4096;
module_param(probe_groups, uint, 0444);
MODULE_PARM_DESC(probe_groups,
		 "groups, and stacks, of a probe session, 16 to 1048576 (default 4096)");

struct jifl_groups_cell {
	struct jifl_cell cell;
	struct jifl_group_name name;	/* does not change once it is published */
	atomic64_t hits, sum, known;
	atomic64_t bucket[JIFL_GROUP_BUCKETS];
};

struct jifl_groups_stack {
	struct jifl_cell cell;
	u64 frames[JIFL_FRAMES_MAX];	/* likewise */
};

struct jifl_groups {
	struct jifl_cells cells;	/* struct jifl_groups_cell; first, for jifl_cells_end */
	struct jifl_cells stacks;	/* struct jifl_groups_stack */
	atomic64_t other;		/* hits of groups without a cell */
};

int jifl_groups_init(void)
{
	return jifl_cells_check("probe_groups", probe_groups, 1 << 20);
}

u32 jifl_groups_room(void)
{
	return probe_groups;
}

int jifl_groups_open(struct jifl_groups **groups, bool stacks)
{
	struct jifl_groups *g = JIFL_ALLOC(kzalloc(sizeof(*g), GFP_KERNEL));
	int ret;

	*groups = g;
	if (!g)
		return -ENOMEM;
	ret = jifl_cells_open(&g->cells, probe_groups, sizeof(struct jifl_groups_cell));
	if (!ret && stacks)
		ret = jifl_cells_open(&g->stacks, probe_groups, sizeof(struct jifl_groups_stack));
	return ret;
}

void jifl_groups_close(struct jifl_groups *g)
{
	if (!g)
		return;
	jifl_cells_close(&g->cells);
	jifl_cells_close(&g->stacks);
	kfree(g);
}

static u32 jifl_groups_bucket(u64 value, bool is_signed)
{
	if (is_signed && (s64)value < 0)
		return JIFL_GROUP_NEGATIVE;
	return fls64(value);
}

/* Words that are 0 add nothing, so the hash does not depend on how many of these are looked at. */
u32 jifl_groups_hash(const struct jifl_group_name *name, u32 used)
{
	const u64 *words = (const u64 *)name->name;
	u64 hash = (u64)name->place << 32 | name->unknown, factor = GOLDEN_RATIO_64;
	u32 i;

	for (i = 0; i < used; i += sizeof(*words)) {
		hash += words[i / sizeof(*words)] * factor;
		factor += 2 * GOLDEN_RATIO_64;
	}
	return (hash ^ hash >> 32) * GOLDEN_RATIO_64 >> 32;
}

static struct jifl_groups_cell *jifl_groups_find(struct jifl_groups *g,
						 const struct jifl_group_name *name, u32 used)
{
	struct jifl_cell *found = jifl_cells_find_or_add_hashed(&g->cells,
					sizeof(struct jifl_groups_cell), name, sizeof(*name),
					jifl_groups_hash(name, used));

	static_assert(offsetof(struct jifl_groups_cell, name) == sizeof(struct jifl_cell));
	return found ? container_of(found, struct jifl_groups_cell, cell) : NULL;
}

void jifl_groups_add(struct jifl_groups *g, const struct jifl_group_name *name, u32 used,
		     struct jifl_groups_cell **known, const u64 *value, bool is_signed)
{
	struct jifl_groups_cell *cell = known ? READ_ONCE(*known) : NULL;

	if (!cell) {
		cell = jifl_groups_find(g, name, used);
		if (known && cell)
			WRITE_ONCE(*known, cell);
	}
	if (!cell) {
		atomic64_inc(&g->other);
		return;
	}
	atomic64_inc(&cell->hits);
	if (!value)
		return;
	atomic64_inc(&cell->known);
	atomic64_add(*value, &cell->sum);
	atomic64_inc(&cell->bucket[jifl_groups_bucket(*value, is_signed)]);
}

u64 jifl_groups_stack(struct jifl_groups *g, const u64 frames[JIFL_FRAMES_MAX])
{
	const size_t size = sizeof(struct jifl_groups_stack);
	const struct jifl_cell *cell = jifl_cells_find_or_add(&g->stacks, size, frames,
						JIFL_FRAMES_MAX * sizeof(*frames));

	static_assert(offsetof(struct jifl_groups_stack, frames) == sizeof(struct jifl_cell));
	return cell ? jifl_cells_index(&g->stacks, size, cell) + 1 : 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void jifl_groups_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_groups *g = table;
	const struct jifl_groups_cell *cell = (void *)jifl_cells_at(&g->cells, sizeof(*cell), i);
	struct jifl_group *group = answer;
	u32 k;

	*group = (struct jifl_group){
		.place = cell->name.place,
		.unknown = cell->name.unknown,
		.hits = atomic64_read(&cell->hits),
		.sum = atomic64_read(&cell->sum),
		.known = atomic64_read(&cell->known),
	};
	static_assert(sizeof(group->name) == sizeof(cell->name.name));
	memcpy(group->name, cell->name.name, sizeof(group->name));
	for (k = 0; k < JIFL_GROUP_BUCKETS; k++)
		group->bucket[k] = atomic64_read(&cell->bucket[k]);
}

static void jifl_groups_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_groups *g = table;

	req->rest[JIFL_GROUP_OTHER] = atomic64_read(&g->other);
}

static_assert(sizeof(struct jifl_group) <= JIFL_ANSWER_MAX);
static_assert(!offsetof(struct jifl_groups, cells));
const struct jifl_answer jifl_groups_answer = {
	.size = sizeof(struct jifl_group),
	.end = jifl_cells_end,
	.fill = jifl_groups_fill,
	.rest = jifl_groups_rest,
};

static u32 jifl_groups_stacks_end(const void *table)
{
	const struct jifl_groups *g = table;

	return jifl_cells_end(&g->stacks);
}

static void jifl_groups_stacks_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_groups *g = table;
	const struct jifl_groups_stack *cell = (void *)jifl_cells_at(&g->stacks, sizeof(*cell), i);
	struct jifl_frames *frames = answer;

	static_assert(sizeof(frames->address) == sizeof(cell->frames));
	memcpy(frames->address, cell->frames, sizeof(frames->address));
}

static void jifl_groups_stacks_rest(const void *table, struct jifl_table_read *req)
{
}

const struct jifl_answer jifl_groups_stacks_answer = {
	.size = sizeof(struct jifl_frames),
	.end = jifl_groups_stacks_end,
	.fill = jifl_groups_stacks_fill,
	.rest = jifl_groups_stacks_rest,
};
