// SPDX-License-Identifier: GPL-2.0
/*
 * The tool profile: how often each basic block was executed.
 *
 * A block of original code has its cell for as long as the session exists,
 * found again by its address. So the copies of it that are in several contexts, or
 * that are made anew behind a flush of the cache or a change of its text, count into
 * the same one, and nothing has to be carried over when a copy goes. A block whose bytes
 * have changed, though, is another, at the same address. With JIFL_FLAG_BRANCHES a second
 * cell counts how often the branch at its end was not taken.
 *
 * Inserted code reaches a cell by its absolute 32-bit address. The kernel has 8 KiB for
 * the per-CPU data of all modules, the only ones in reach of one gs-relative
 * instruction, so cells are shared by all processors, and added to by a locked
 * instruction where there are several.
 *
 * Contexts: insert under the engine lock, whatever else is held; the others sleep.
 */
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../store/answer.h"
#include "../store/block_hash.h"
#include "../call/count.h"
#include "../call/whose.h"
#include "tools.h"

static unsigned int profile_blocks = 1 << 17;
module_param(profile_blocks, uint, 0444);
MODULE_PARM_DESC(profile_blocks,
		 "blocks that a session can count the executions of, 16 to 4194304 (default 131072)");

#define JIFL_PROFILE_NO_BRANCH	0xffff	/* of jifl_profile_block.branch */

/* What does not change once it is published. */
struct jifl_profile_block {
	u32 orig;		/* low half of its address */
	u32 target;		/* of the branch, likewise */
	u32 next;		/* in its bucket: index + 1 */
	u32 insns;
	u32 hash;		/* of its bytes */
	u16 src_len;		/* bytes */
	u16 branch;		/* offset of the branch on a condition at its end */
};

struct jifl_profile {
	u64 *cells;		/* one or two for each block */
	struct jifl_profile_block *blocks;
	u32 *buckets;		/* heads of lists of blocks: index + 1 */
	u32 max, bits;		/* blocks; buckets, log 2 */
	u32 per_block;		/* cells */
	u32 n;			/* blocks; written under the engine lock */
	u64 refused;		/* likewise */
};

static int jifl_profile_init(void)
{
	if (profile_blocks >= 16 && profile_blocks <= 1 << 22)
		return 0;
	pr_err("profile_blocks must be 16 to 4194304\n");
	return -EINVAL;
}

static void jifl_profile_free(struct jifl_profile *p)
{
	if (!p)
		return;
	vfree(p->cells);
	vfree(p->blocks);
	vfree(p->buckets);
	kfree(p);
}

static struct jifl_profile *jifl_profile_alloc(bool branches)
{
	struct jifl_profile *p = JIFL_ALLOC(kzalloc(sizeof(*p), GFP_KERNEL));
	size_t size;

	if (!p)
		return NULL;
	p->max = profile_blocks;
	p->bits = ilog2(p->max);
	p->per_block = branches ? 2 : 1;
	size = PAGE_ALIGN(array3_size(p->max, p->per_block, sizeof(*p->cells)));
	p->cells = JIFL_ALLOC(jifl_compat_exec_alloc(size));
	p->blocks = JIFL_ALLOC(vcalloc(p->max, sizeof(*p->blocks)));
	p->buckets = JIFL_ALLOC(vcalloc(1u << p->bits, sizeof(*p->buckets)));
	if (!p->cells || !p->blocks || !p->buckets ||
	    !jifl_fits_s32((s64)(unsigned long)p->cells) ||
	    !jifl_fits_s32((s64)((unsigned long)p->cells + size))) {
		jifl_profile_free(p);
		return NULL;
	}
	memset(p->cells, 0, size);
	return p;
}

static int jifl_profile_open(struct jifl_session *s, u64 *busy_session)
{
	s->tool_data = jifl_profile_alloc(s->flags & JIFL_FLAG_BRANCHES);
	return s->tool_data ? 0 : -ENOMEM;
}

static void jifl_profile_close(struct jifl_session *s)
{
	jifl_profile_free(s->tool_data);
	s->tool_data = NULL;
}

/* --- inserting -------------------------------------------------------------------- */

static void jifl_profile_describe(const struct jifl_profile *p, const struct ir_block *b,
				  struct jifl_profile_block *d)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];

	*d = (struct jifl_profile_block){
		.orig = (u32)b->addr.v,
		.insns = b->count,
		.hash = jifl_block_hash(b),
		.src_len = b->src_len,
		.branch = JIFL_PROFILE_NO_BRANCH,
	};
	if (p->per_block > 1 && ir_kind_is_conditional(last->kind)) {
		d->branch = last->addr.v - b->addr.v;
		d->target = (u32)last->target.v;
	}
}

static bool jifl_profile_is(const struct jifl_profile_block *a, const struct jifl_profile_block *b)
{
	return a->orig == b->orig && a->src_len == b->src_len && a->insns == b->insns &&
	       a->hash == b->hash && a->branch == b->branch && a->target == b->target;
}

/* Index of the block, a new one if need be; p->max: there is no room for it. */
static u32 jifl_profile_index(struct jifl_profile *p, struct jifl_profile_block *d)
{
	u32 *head = &p->buckets[hash_32(d->orig, p->bits)];
	u32 at;

	for (at = *head; at; at = p->blocks[at - 1].next)
		if (jifl_profile_is(&p->blocks[at - 1], d))
			return at - 1;
	if (p->n == p->max)
		return p->max;
	d->next = *head;
	p->blocks[p->n] = *d;
	*head = p->n + 1;
	/* Pairs with the acquire in jifl_profile_end. */
	smp_store_release(&p->n, p->n + 1);
	return *head - 1;
}

static void jifl_profile_add(struct ir_block *b, enum ir_place place, const u64 *cell)
{
	struct ir_insert *ins = ir_block_insert(b, place, b->ninsns - 1);

	if (!ins)
		return;
	ins->kind = IR_INSERT_ADD;
	ins->imm = 1;
	ins->cell.disp = (s32)(unsigned long)cell;
	ins->cell.locked = num_possible_cpus() > 1 && !JIFL_HOST_PLANTED(cells_not_locked);
}

static void jifl_profile_instrument(struct ir_block *b, void *arg)
{
	struct jifl_session *s = arg;
	struct jifl_profile *p = s->tool_data;
	struct jifl_profile_block d;
	u64 *cells;
	u32 i;

	jifl_count_attribute(s);
	jifl_profile_describe(p, b, &d);
	i = jifl_profile_index(p, &d);
	if (i == p->max) {
		WRITE_ONCE(p->refused, p->refused + 1);
		return;
	}
	cells = &p->cells[(size_t)i * p->per_block];
	jifl_profile_add(b, IR_ANYWHERE, cells);
	if (d.branch != JIFL_PROFILE_NO_BRANCH)
		jifl_profile_add(b, IR_AFTER, cells + 1);
}

/* --- reading ----------------------------------------------------------------------- */

static u64 jifl_profile_address(u32 low)
{
	return (u64)(s64)(s32)low;
}

static void jifl_profile_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_profile *p = table;
	const struct jifl_profile_block *b = &p->blocks[i];
	const u64 *cells = &p->cells[(size_t)i * p->per_block];
	struct jifl_count *c = answer;
	u64 not_taken = 0;

	*c = (struct jifl_count){
		.orig = jifl_profile_address(b->orig),
		.src_len = b->src_len,
		.insns = b->insns,
		.hash = b->hash,
		.branch = JIFL_COUNT_NO_BRANCH,
	};
	if (b->branch != JIFL_PROFILE_NO_BRANCH) {
		c->branch = b->branch;
		c->target = jifl_profile_address(b->target);
		not_taken = READ_ONCE(cells[1]);
		/* Who was not taken there was executed before. */
		smp_rmb();
	}
	c->executed = READ_ONCE(cells[0]);
	if (c->branch != JIFL_COUNT_NO_BRANCH)
		c->taken = c->executed - not_taken;
}

static u32 jifl_profile_end(const void *table)
{
	const struct jifl_profile *p = table;

	/* Pairs with the release in jifl_profile_index. */
	return smp_load_acquire(&p->n);
}

static void jifl_profile_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_profile *p = table;

	req->rest[JIFL_COUNT_REFUSED] = READ_ONCE(p->refused);
}

static_assert(sizeof(struct jifl_count) <= JIFL_ANSWER_MAX);
static const struct jifl_answer jifl_profile_answer = {
	.size = sizeof(struct jifl_count),
	.end = jifl_profile_end,
	.fill = jifl_profile_fill,
	.rest = jifl_profile_rest,
};

const struct jifl_tool jifl_tool_profile = {
	.name = "profile",
	.kind = JIFL_KIND_PROFILE,
	.flags = JIFL_FLAG_BRANCHES,
	.calls = JIFL_CALLS_FOLLOWED,
	.shows_addresses = true,
	.init = jifl_profile_init,
	.table = &jifl_profile_answer,
	.instrument = jifl_profile_instrument,
	.open = jifl_profile_open,
	.close = jifl_profile_close,
	.entry = jifl_count_entry,
};
