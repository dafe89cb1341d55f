// SPDX-License-Identifier: GPL-2.0
/*
 * The tool mem, what blocks load and store: a session's tables. Inserted records (ring.c)
 * have numbers; here stands what accesses each is about, as plan.c has laid them out.
 *
 * A block of original code has its numbers for as long as the session exists: copies of
 * it that are made anew, or for other contexts, have the same. One whose bytes have changed is
 * another.
 *
 * Contexts: insert under the engine lock, whatever else is held; the others sleep.
 */
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../store/answer.h"
#include "../../store/block_hash.h"
#include "../../store/ring.h"
#include "../../call/count.h"
#include "../../call/whose.h"
#include "../tools.h"
#include "plan.h"

#define JIFL_MEM_BLOCKS		(1u << 17)
#define JIFL_MEM_ALL		(3u << 17)	/* accesses */

/* What does not change once it is published. */
struct jifl_mem_block {
	u32 orig;		/* low half of its address */
	u32 hash;		/* of its bytes */
	u32 next;		/* in its bucket: index + 1 */
	u32 first;		/* number of its first record */
	u16 src_len;		/* bytes */
};

struct jifl_mem_cell {
	u32 block;		/* index */
	struct jifl_mem_access access;
};

struct jifl_mem {
	struct jifl_mem_block *blocks;
	struct jifl_mem_cell *cells;
	u32 *buckets;		/* heads of lists of blocks: index + 1 */
	u32 nblocks, nrecords;	/* written under the engine lock */
	u32 ncells;		/* likewise; what is below may be read */
	u64 refused;		/* likewise */
};

/* The one that is inserted; under the engine lock. */
static struct jifl_mem_plan jifl_mem_planned;

static void jifl_mem_free(struct jifl_mem *m)
{
	if (!m)
		return;
	vfree(m->blocks);
	vfree(m->cells);
	vfree(m->buckets);
	kfree(m);
}

static int jifl_mem_open(struct jifl_session *s, u64 *busy_session)
{
	struct jifl_mem *m = JIFL_ALLOC(kzalloc(sizeof(*m), GFP_KERNEL));

	if (!m)
		return -ENOMEM;
	m->blocks = JIFL_ALLOC(vcalloc(JIFL_MEM_BLOCKS, sizeof(*m->blocks)));
	m->cells = JIFL_ALLOC(vcalloc(JIFL_MEM_ALL, sizeof(*m->cells)));
	m->buckets = JIFL_ALLOC(vcalloc(JIFL_MEM_BLOCKS, sizeof(*m->buckets)));
	if (!m->blocks || !m->cells || !m->buckets) {
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

static struct jifl_mem_block *jifl_mem_find(const struct jifl_mem *m, u32 head,
					    const struct jifl_mem_block *b)
{
	struct jifl_mem_block *found;

	for (; head; head = found->next) {
		found = &m->blocks[head - 1];
		if (found->orig == b->orig && found->hash == b->hash && found->src_len == b->src_len)
			return found;
	}
	return NULL;
}

/* The block's entry, a new one if need be; NULL: there is no room. */
static const struct jifl_mem_block *jifl_mem_enter(struct jifl_mem *m, const struct ir_block *b,
						   const struct jifl_mem_plan *p)
{
	struct jifl_mem_block new = { .orig = (u32)b->addr.v, .hash = jifl_block_hash(b),
				      .src_len = b->src_len, .first = m->nrecords };
	u32 *head = &m->buckets[hash_32(new.orig, ilog2(JIFL_MEM_BLOCKS))];
	const struct jifl_mem_block *found = jifl_mem_find(m, *head, &new);
	u32 i;

	if (found)
		return found;
	if (m->nblocks == JIFL_MEM_BLOCKS || m->ncells + p->naccesses > JIFL_MEM_ALL ||
	    m->nrecords + p->nrecords > JIFL_RECORD_NUMBER(~0u))
		return NULL;
	new.next = *head;
	m->blocks[m->nblocks++] = new;
	*head = m->nblocks;
	m->nrecords += p->nrecords;
	for (i = 0; i < p->naccesses; i++)
		m->cells[m->ncells + i] = (struct jifl_mem_cell){ .block = m->nblocks - 1,
								  .access = p->accesses[i] };
	/* Pairs with the acquire in jifl_mem_end. */
	smp_store_release(&m->ncells, m->ncells + p->naccesses);
	return &m->blocks[m->nblocks - 1];
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
	const struct jifl_mem_block *entry;
	u32 i;

	jifl_count_attribute(s);
	jifl_mem_plan(b, &jifl_mem_planned);
	entry = p->full ? NULL : jifl_mem_enter(m, b, p);
	if (!entry) {
		WRITE_ONCE(m->refused, m->refused + 1);
		return;
	}
	for (i = 0; i < p->nrecords; i++)
		jifl_mem_add(b, &p->records[i], entry->first + i);
}

/* Behind the beginning of a call stands which stack it runs on. */
static void jifl_mem_begin(unsigned long index)
{
	preempt_disable_notrace();
	jifl_ring_mark(JIFL_RECORD_BEGIN | (u32)index, task_pid_nr(current));
	jifl_ring_put(JIFL_RECORD_STACK, (unsigned long)task_stack_page(current) >> 32);
	preempt_enable_notrace();
}

/* --- reading ----------------------------------------------------------------------- */

static void jifl_mem_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_mem *m = table;
	const struct jifl_mem_access *a = &m->cells[i].access;
	const struct jifl_mem_block *b = &m->blocks[m->cells[i].block];

	*(struct jifl_access *)answer = (struct jifl_access){
		.insn = (u64)(s64)(s32)b->orig + a->offset,
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

	/* Pairs with the release in jifl_mem_enter. */
	return smp_load_acquire(&m->ncells);
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
	.begin = jifl_mem_begin,
};

const struct jifl_tool jifl_tool_mem = {
	.name = "mem",
	.kind = JIFL_KIND_MEM,
	.flags = JIFL_FLAG_WAIT,
	.calls = JIFL_CALLS_FOLLOWED,
	.records = &jifl_mem_records,
	.shows_addresses = true,
	.table = &jifl_mem_answer,
	.instrument = jifl_mem_instrument,
	.open = jifl_mem_open,
	.close = jifl_mem_close,
	.entry = jifl_count_entry,
};
