// SPDX-License-Identifier: GPL-2.0
/*
 * The tool profile: how often each basic block was executed.
 *
 * A block of original code has a counter for as long as the session exists. All copies of the block
 * count into it: those of several contexts, and those that are made anew after a flush of the cache
 * or a change of the text. So nothing is carried over when a copy goes. A block whose bytes have
 * changed has a counter of its own. With JIFL_FLAG_BRANCHES a second counter tells how often the
 * branch at the block's end was not taken.
 *
 * Inserted code reaches a counter by an absolute 32-bit address. One gs-relative instruction could
 * reach static per-CPU data alone, of which the kernel has 8 KiB for all modules. So all processors
 * share the counters, and if there are several, the instruction that adds is locked.
 *
 * A function is entered behind its beginning: the tracer's site, with an endbr64 before it. What is
 * skipped counts as a block, which the entry piece counts. So the profile is that of a function
 * that is called without JIFL.
 *
 * Where functions are profiled without what they call, a call inside another one is profiled, too,
 * and counted at its own function (jifl_tool.counts_apart). Where what they call is profiled, such
 * a call is a part of the other, and its blocks are counted there.
 *
 * Calls in softirqs and hard interrupts are profiled, too. call/levels.c proves that they may enter
 * the cache, and that a call is not taken for part of one that it interrupts. Why what this tool
 * adds to that is right there:
 *
 * 1. A counter belongs to a block, not to a call or a level. So an interrupt may add to the counter
 *    to which the code that it interrupts is about to add. Each addition is one instruction, and
 *    interrupts come between instructions. It is locked where another CPU may add.
 * 2. Beside these additions only what call/count.c inserts is inserted, as by the tools insn and
 *    block. Nothing is called but that, and inserted code takes no lock.
 * 3. An interrupt may translate a block, or make an entry piece (levels.c, 7.). Then
 *    jifl_profile_instrument and jifl_profile_entry are called in it. All that they need was
 *    allocated when the session was opened. They look the block up without a lock. To add it they
 *    take the lock of the table, which is a leaf: its holder waits for nothing, and has interrupts
 *    off. So the code that was interrupted does not hold it. A table that is full refuses the
 *    block, and says so.
 * 4. NMIs never come here: they do not enter the cache, and nothing is translated in them
 *    (enter/guard.c).
 * 5. A reader takes no lock. A name is complete when its number is published. An execution adds to
 *    the block's counter and then to its branch's, at each level. So whatever interrupts it, no
 *    branch has been taken less than zero times.
 * 6. Memory is freed by jifl_profile_close, when no inserted code is left. By 5. of levels.c that
 *    holds for code in interrupts, too.
 *
 * Contexts: jifl_profile_instrument runs under the engine lock, jifl_profile_entry under
 * jifl_entry_lock, and any lock of the kernel may be held; the others sleep.
 */
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../store/answer.h"
#include "../store/block_name.h"
#include "../store/cells.h"
#include "../call/count.h"
#include "../call/whose.h"
#include "../enter/function.h"
#include "../enter/target.h"
#include "tools.h"

static unsigned int profile_blocks = 1 << 17;
module_param(profile_blocks, uint, 0444);
MODULE_PARM_DESC(profile_blocks,
		 "blocks that a session can count the executions of, 16 to 4194304 (default 131072)");

#define JIFL_PROFILE_NO_BRANCH	0xffff	/* of jifl_profile_name.branch */

struct jifl_profile_name {
	struct jifl_block_name block;
	u32 target;		/* of the branch: low half of the address */
	u16 insns;
	u16 branch;		/* offset of the conditional branch at the block's end */
};

struct jifl_profile_block {
	struct jifl_cell cell;
	struct jifl_profile_name name;	/* does not change once it is published */
};

struct jifl_profile {
	struct jifl_cells blocks;	/* struct jifl_profile_block; first, for jifl_cells_end */
	u64 *counters;		/* one or two for each block */
	u32 per_block;		/* counters */
	atomic64_t refused;	/* blocks */
};

static int jifl_profile_init(void)
{
	return jifl_cells_check("profile_blocks", profile_blocks, 1 << 22);
}

static void jifl_profile_free(struct jifl_profile *p)
{
	if (!p)
		return;
	vfree(p->counters);
	jifl_cells_close(&p->blocks);
	kfree(p);
}

static struct jifl_profile *jifl_profile_alloc(bool branches)
{
	struct jifl_profile *p = JIFL_ALLOC(kzalloc(sizeof(*p), GFP_KERNEL));
	size_t size;
	int err;

	if (!p)
		return NULL;
	p->per_block = branches ? 2 : 1;
	size = PAGE_ALIGN(array3_size(profile_blocks, p->per_block, sizeof(*p->counters)));
	p->counters = JIFL_ALLOC(jifl_compat_exec_alloc(size));
	err = jifl_cells_open(&p->blocks, profile_blocks, sizeof(struct jifl_profile_block));
	if (err || !p->counters || !jifl_fits_s32((s64)(unsigned long)p->counters) ||
	    !jifl_fits_s32((s64)((unsigned long)p->counters + size))) {
		jifl_profile_free(p);
		return NULL;
	}
	memset(p->counters, 0, size);
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

static void jifl_profile_name(const struct jifl_profile *p, const struct ir_block *b,
			      struct jifl_profile_name *name)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];

	*name = (struct jifl_profile_name){
		.block = jifl_block_name(b),
		.insns = b->count,
		.branch = JIFL_PROFILE_NO_BRANCH,
	};
	if (p->per_block > 1 && ir_kind_is_conditional(last->kind)) {
		name->branch = last->addr.v - b->addr.v;
		name->target = (u32)last->target.v;
	}
}

/* The counters of the block; NULL: there is no room for them. */
static u64 *jifl_profile_counters(struct jifl_profile *p, const struct jifl_profile_name *name)
{
	const size_t size = sizeof(struct jifl_profile_block);
	const struct jifl_cell *cell = jifl_cells_find_or_add(&p->blocks, size, name,
							      sizeof(*name));

	static_assert(offsetof(struct jifl_profile_block, name) == sizeof(struct jifl_cell));
	return cell ? p->counters + jifl_cells_index(&p->blocks, size, cell) * p->per_block : NULL;
}

static void jifl_profile_fill_add(struct ir_insert *ins, const u64 *counter)
{
	ins->kind = IR_INSERT_ADD;
	ins->imm = 1;
	ins->cell.disp = (s32)(unsigned long)counter;
	ins->cell.locked = num_possible_cpus() > 1 && !JIFL_HOST_PLANTED(cells_not_locked);
}

static void jifl_profile_add(struct ir_block *b, enum ir_place place, const u64 *counter)
{
	struct ir_insert *ins = ir_block_insert(b, place, b->ninsns - 1);

	if (ins)
		jifl_profile_fill_add(ins, counter);
}

static void jifl_profile_instrument(struct ir_block *b, void *arg)
{
	struct jifl_session *s = arg;
	struct jifl_profile *p = s->tool_data;
	struct jifl_profile_name name;
	u64 *counters;

	jifl_count_attribute(s);
	jifl_profile_name(p, b, &name);
	counters = jifl_profile_counters(p, &name);
	if (!counters) {
		atomic64_inc(&p->refused);
		return;
	}
	jifl_profile_add(b, IR_ANYWHERE, counters);
	if (name.branch != JIFL_PROFILE_NO_BRANCH)
		jifl_profile_add(b, IR_AFTER, counters + 1);
}

/* The block that the door of a function skips; its bytes are those that stand there without it. */
static struct jifl_profile_name jifl_profile_skipped(const struct jifl_target *t)
{
	static const u8 site[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };	/* ftrace's nop */
	const u32 skipped = jifl_target_skipped(t);
	const u32 nsite = jifl_target_site_bytes(t);
	const u32 before = skipped - nsite;
	u32 hash = JIFL_BLOCK_HASH_START;

	hash = jifl_block_hash_bytes(hash, (const u8 *)(unsigned long)t->id, before);
	return (struct jifl_profile_name){
		.block = {
			.orig = (u32)t->id,
			.hash = jifl_block_hash_bytes(hash, site, nsite),
			.src_len = skipped,
		},
		.insns = jifl_count_skipped(t),
		.branch = JIFL_PROFILE_NO_BRANCH,
	};
}

static u32 jifl_profile_skips(const struct jifl_session *s, const struct jifl_target *t,
			      struct ir_insert *entry)
{
	const struct jifl_profile_name name = jifl_profile_skipped(t);
	struct jifl_profile *p = s->tool_data;
	u64 *counters;

	if (!jifl_target_skipped(t))
		return 0;
	counters = jifl_profile_counters(p, &name);
	if (!counters) {
		atomic64_inc(&p->refused);
		return 0;
	}
	*entry = (struct ir_insert){ 0 };
	jifl_profile_fill_add(entry, counters);
	return 1;
}

static void jifl_profile_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
			       struct ir_insert *exit, u32 *nexit)
{
	jifl_count_entry(aim, entry, nentry, exit, nexit);
	if (aim->target->kind != JIFL_TARGET_SYSCALL)
		*nentry += jifl_profile_skips(aim->session, aim->target, entry + *nentry);
}

/* --- reading ----------------------------------------------------------------------- */

static void jifl_profile_fill(const void *table, u32 i, void *answer)
{
	const struct jifl_profile *p = table;
	const struct jifl_profile_block *b = (void *)jifl_cells_at(&p->blocks, sizeof(*b), i);
	const u64 *counters = &p->counters[(size_t)i * p->per_block];
	struct jifl_count *c = answer;
	u64 not_taken = 0;

	*c = (struct jifl_count){
		.orig = jifl_block_address(b->name.block.orig),
		.src_len = b->name.block.src_len,
		.insns = b->name.insns,
		.hash = b->name.block.hash,
		.branch = JIFL_COUNT_NO_BRANCH,
	};
	if (b->name.branch != JIFL_PROFILE_NO_BRANCH) {
		c->branch = b->name.branch;
		c->target = jifl_block_address(b->name.target);
		not_taken = READ_ONCE(counters[1]);
		/* The block is counted before its branch is: never more not taken than executed. */
		smp_rmb();
	}
	c->executed = READ_ONCE(counters[0]);
	if (c->branch != JIFL_COUNT_NO_BRANCH)
		c->taken = c->executed - not_taken;
}

static void jifl_profile_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_profile *p = table;

	req->rest[JIFL_COUNT_REFUSED] = atomic64_read(&p->refused);
}

static_assert(sizeof(struct jifl_count) <= JIFL_ANSWER_MAX);
static_assert(!offsetof(struct jifl_profile, blocks));
static const struct jifl_answer jifl_profile_answer = {
	.size = sizeof(struct jifl_count),
	.end = jifl_cells_end,
	.fill = jifl_profile_fill,
	.rest = jifl_profile_rest,
};

const struct jifl_tool jifl_tool_profile = {
	.name = "profile",
	.kind = JIFL_KIND_PROFILE,
	.flags = JIFL_FLAG_BRANCHES | JIFL_FLAG_ADOPT,
	.calls = JIFL_CALLS_FOLLOWED,
	.counts_apart = true,
	.shows_addresses = true,
	.alone = true,
	.holds = true,
	.skips = jifl_profile_skips,
	.init = jifl_profile_init,
	.table = &jifl_profile_answer,
	.instrument = jifl_profile_instrument,
	.open = jifl_profile_open,
	.close = jifl_profile_close,
	.entry = jifl_profile_entry,
};
