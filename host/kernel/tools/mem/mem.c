// SPDX-License-Identifier: GPL-2.0
/*
 * The tool mem, what blocks load and store: a session's tables. Inserted records (ring.c) have
 * numbers. The tables tell which accesses each record is about, as plan.c has planned them.
 *
 * A block of original code keeps its numbers for as long as the session exists. All copies of the
 * block have the same numbers: those of several contexts, and those that are made anew. A block
 * whose bytes have changed has other numbers.
 *
 * Contexts: jifl_mem_instrument runs under the engine lock, and any lock of the kernel may be held;
 * the others sleep.
 */
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../store/answer.h"
#include "../../store/block_name.h"
#include "../../store/cells.h"
#include "../../store/ring.h"
#include "../../call/count.h"
#include "../../call/whose.h"
#include "../tools.h"
#include "plan.h"

#define JIFL_MEM_BLOCKS		(1u << 17)
#define JIFL_MEM_ALL		(3u << 17)	/* accesses */

/* Does not change once accesses of the block are published. */
struct jifl_mem_block {
	struct jifl_cell cell;
	struct jifl_block_name name;
	u32 first;		/* number of the block's first record */
};

struct jifl_mem_entry {
	u32 block;		/* index */
	struct jifl_mem_access access;
};

/* All numbers here are written under the engine lock. */
struct jifl_mem {
	struct jifl_cells blocks;	/* struct jifl_mem_block */
	struct jifl_mem_entry *entries;
	u32 nentries;		/* entries below may be read, and their blocks */
	u32 nrecords;
	u64 refused;		/* blocks */
};

/* The one that is inserted; under the engine lock. */
static struct jifl_mem_plan jifl_mem_planned;

static void jifl_mem_free(struct jifl_mem *m)
{
	if (!m)
		return;
	jifl_cells_close(&m->blocks);
	vfree(m->entries);
	kfree(m);
}

static int jifl_mem_open(struct jifl_session *s, u64 *busy_session)
{
	struct jifl_mem *m = JIFL_ALLOC(kzalloc(sizeof(*m), GFP_KERNEL));
	int err;

	if (!m)
		return -ENOMEM;
	err = jifl_cells_open(&m->blocks, JIFL_MEM_BLOCKS, sizeof(struct jifl_mem_block));
	m->entries = JIFL_ALLOC(vcalloc(JIFL_MEM_ALL, sizeof(*m->entries)));
	if (err || !m->entries) {
		jifl_mem_free(m);
		return -ENOMEM;
	}
	s->tool_data = m;
	return jifl_tools_take_rings(s, JIFL_RING_WORDS_ORDER, true, busy_session);
}

static void jifl_mem_close(struct jifl_session *s)
{
	jifl_mem_free(s->tool_data);
	s->tool_data = NULL;
}

/* --- inserting -------------------------------------------------------------------- */

/* Numbers the records of a new block, and lists its accesses. */
static void jifl_mem_list(struct jifl_mem *m, struct jifl_mem_block *block,
			  const struct jifl_mem_plan *p)
{
	const u32 index = jifl_cells_index(&m->blocks, sizeof(*block), &block->cell);
	u32 i;

	block->first = m->nrecords;
	m->nrecords += p->nrecords;
	for (i = 0; i < p->naccesses; i++)
		m->entries[m->nentries + i] = (struct jifl_mem_entry){ .block = index,
								       .access = p->accesses[i] };
	/* Pairs with the acquire in jifl_mem_end. */
	smp_store_release(&m->nentries, m->nentries + p->naccesses);
}

/* The block's cell, a new one if need be; NULL: there is no room. */
static const struct jifl_mem_block *jifl_mem_block(struct jifl_mem *m, const struct ir_block *b,
						   const struct jifl_mem_plan *p)
{
	const struct jifl_block_name name = jifl_block_name(b);
	const size_t size = sizeof(struct jifl_mem_block);
	struct jifl_cell *cell = jifl_cells_find(&m->blocks, size, &name, sizeof(name));

	static_assert(offsetof(struct jifl_mem_block, name) == sizeof(struct jifl_cell));
	if (cell)
		return container_of(cell, struct jifl_mem_block, cell);
	if (m->nentries + p->naccesses > JIFL_MEM_ALL ||
	    m->nrecords + p->nrecords > JIFL_RECORD_NUMBER(~0u))
		return NULL;
	cell = jifl_cells_find_or_add(&m->blocks, size, &name, sizeof(name));
	if (!cell)
		return NULL;
	jifl_mem_list(m, container_of(cell, struct jifl_mem_block, cell), p);
	return container_of(cell, struct jifl_mem_block, cell);
}

static void jifl_mem_add(struct ir_block *b, const struct jifl_mem_record *r, u32 number)
{
	const bool behind = r->at == b->ninsns;
	struct ir_insert *ins = jifl_ring_record(b, behind ? IR_AFTER : IR_BETWEEN,
						 behind ? r->at - 1 : r->at,
						 JIFL_RECORD_ACCESS | r->nwords << 25 | number);

	if (!ins)
		return;
	ins->from = r->from;
	ins->nargs = r->nwords;
	ins->fetched = (1u << r->nwords) - 1;
	memcpy(ins->fetches, r->words, sizeof(ins->fetches));
}

static void jifl_mem_instrument(struct ir_block *b, void *arg)
{
	struct jifl_session *s = arg;
	struct jifl_mem *m = s->tool_data;
	const struct jifl_mem_plan *p = &jifl_mem_planned;
	const struct jifl_mem_block *block;
	u32 i;

	jifl_count_attribute(s);
	jifl_mem_plan(b, &jifl_mem_planned);
	block = p->full ? NULL : jifl_mem_block(m, b, p);
	if (!block) {
		WRITE_ONCE(m->refused, m->refused + 1);
		return;
	}
	for (i = 0; i < p->nrecords; i++)
		jifl_mem_add(b, &p->records[i], block->first + i);
}

/* --- reading ----------------------------------------------------------------------- */

static void jifl_mem_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_mem *m = table;
	const struct jifl_mem_access *a = &m->entries[i].access;
	const struct jifl_mem_block *b = (void *)jifl_cells_at(&m->blocks, sizeof(*b),
							       m->entries[i].block);

	*(struct jifl_access *)answer = (struct jifl_access){
		.insn = jifl_block_address(b->name.orig) + a->offset,
		.disp = a->disp,
		.block = b->first,
		.record = b->first + a->base.record,
		.repeats_record = b->first + a->repeats.record,
		.left_record = b->first + a->left.record,
		.size = a->size,
		.base = a->base.word,
		.flags = a->flags,
		.repeats = a->repeats.word,
		.left = a->left.word,
		.insn_len = a->insn_len,
	};
}

static u32 jifl_mem_end(const void *table)
{
	const struct jifl_mem *m = table;

	/* Pairs with the release in jifl_mem_list. */
	return smp_load_acquire(&m->nentries);
}

static void jifl_mem_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_mem *m = table;

	req->rest[JIFL_ACCESS_PERCPU_BASE] = per_cpu_offset(req->cpu);
	req->rest[JIFL_ACCESS_REFUSED] = READ_ONCE(m->refused);
}

static_assert(sizeof(struct jifl_access) <= JIFL_ANSWER_MAX);
static const struct jifl_answer jifl_mem_answer = {
	.size = sizeof(struct jifl_access),
	.by_cpu = true,
	.end = jifl_mem_end,
	.fill = jifl_mem_fill,
	.rest = jifl_mem_rest,
};

static const struct jifl_tool_records jifl_mem_records = {
	.stacks = true,
};

const struct jifl_tool jifl_tool_mem = {
	.name = "mem",
	.kind = JIFL_KIND_MEM,
	.flags = JIFL_FLAG_WAIT | JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_FOLLOWED,
	.records = &jifl_mem_records,
	.shows_addresses = true,
	.table = &jifl_mem_answer,
	.instrument = jifl_mem_instrument,
	.open = jifl_mem_open,
	.close = jifl_mem_close,
	.entry = jifl_count_entry,
};
