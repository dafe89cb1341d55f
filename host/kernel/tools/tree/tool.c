// SPDX-License-Identifier: GPL-2.0
/*
 * The tool tree: instructions, calls and, if the session wants them, times, by call path. A path is
 * the functions that a call of a target is in: path.c.
 *
 * Each function's beginning is told by the block there, each end by the block that returns or jumps
 * to another function. What has been put aside of a function (NAME.cold) is part of it. A target's
 * first block, where its door skips it, is told by the entry piece.
 *
 * Contexts: inserting runs under the engine lock, or under jifl_entry_lock; the others sleep.
 */
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/tsc.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../call/count.h"
#include "../../call/whose.h"
#include "../../enter/target.h"
#include "../../store/answer.h"
#include "../../store/block_name.h"
#include "../../store/moment.h"
#include "../../text/function.h"
#include "../../text/routine.h"
#include "../times/times.h"
#include "../tools.h"
#include "tree.h"

static unsigned int tree_nodes = 1 << 16;
module_param(tree_nodes, uint, 0444);
MODULE_PARM_DESC(tree_nodes,
		 "call paths that a session can count by, 16 to 4194304 (default 65536)");

static int jifl_tree_init(void)
{
	return jifl_cells_check("tree_nodes", tree_nodes, 1 << 22);
}

/* --- opening and closing --------------------------------------------------------------------- */

/* So that tasks have records: one row of each has the marks of path.c. */
static int jifl_tree_open_times(struct jifl_tree *tree, struct jifl_session *s)
{
	struct jifl_times *t;

	if (!jifl_moment_is_steady() || check_tsc_unstable())
		return -ENODEV;
	t = JIFL_ALLOC(kzalloc(sizeof(*t), GFP_KERNEL));
	tree->times = t;
	if (!t)
		return -ENOMEM;
	t->session = s;
	t->nrows = 1;
	t->marks = true;
	return jifl_times_open_records(t) ?: jifl_times_open_tasks(t);
}

static void jifl_tree_close_times(struct jifl_times *t)
{
	jifl_times_close_tasks(t);
	jifl_times_close_records(t);
	kfree(t);
}

static int jifl_tree_open(struct jifl_session *s, u64 *busy_session)
{
	struct jifl_tree *t = JIFL_ALLOC(kzalloc(sizeof(*t), GFP_KERNEL));
	int ret;

	if (!t)
		return -ENOMEM;
	s->tool_data = t;
	t->session = s;
	ret = jifl_cells_open(&t->nodes, tree_nodes, sizeof(struct jifl_tree_node));
	if (!ret && s->flags & JIFL_FLAG_CLOCK)
		ret = jifl_tree_open_times(t, s);
	return ret;
}

static void jifl_tree_close(struct jifl_session *s)
{
	struct jifl_tree *t = s->tool_data;

	if (!t)
		return;
	if (t->times)
		jifl_tree_close_times(t->times);
	jifl_cells_close(&t->nodes);
	kfree(t);
	s->tool_data = NULL;
}

static int jifl_tree_attach(struct jifl_session *s)
{
	const struct jifl_tree *t = s->tool_data;

	if (t->times)
		jifl_times_lead_now(t->times);
	return 0;
}

/* No call of the session is left: until now they had times. */
static void jifl_tree_ended(struct jifl_session *s)
{
	const struct jifl_tree *t = s->tool_data;

	if (t->times)
		jifl_times_freeze(t->times);
}

/* --- inserting ------------------------------------------------------------------------------- */

static void jifl_tree_insert_count(struct ir_block *b, const struct jifl_session *s)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	if (!ins)
		return;
	ins->kind = IR_INSERT_ADD;
	ins->cell = jifl_cpu_operand(lanes[s->lane].count);
	ins->imm = b->count;
}

static void jifl_tree_insert_enter(struct ir_block *b, struct jifl_tree *t)
{
	struct ir_insert *ins = ir_block_insert(b, IR_BEFORE, 0);

	if (ins)
		jifl_tree_fill_enter(t, b->addr.v, ins);
}

static void jifl_tree_insert_leave(struct ir_block *b, enum ir_place place,
				   const struct jifl_function *f, enum jifl_tree_leave how,
				   struct jifl_tree *t)
{
	struct ir_insert *ins;

	/* Without a symbol it was not entered. */
	if (!f->start || (how == JIFL_TREE_JUMPS && JIFL_HOST_PLANTED(tree_jumps_kept)))
		return;
	ins = ir_block_insert(b, place, b->ninsns - 1);
	if (ins)
		jifl_tree_fill_leave(t, f->cold ? 0 : f->start, how, ins);
}

/* What follows the block without a branch: another function, or the same one's beginning. */
static void jifl_tree_insert_behind(struct ir_block *b, const struct jifl_function *f,
				    struct jifl_tree *t)
{
	if (!jifl_routine_goes_on(b))
		return;
	if (b->next.v == f->start)
		jifl_tree_insert_leave(b, IR_AFTER, f, JIFL_TREE_BEGINS_AGAIN, t);
	else if (jifl_routine_is_another(b, b->next.v))
		jifl_tree_insert_leave(b, IR_AFTER, f, JIFL_TREE_JUMPS, t);
}

static void jifl_tree_insert_way_out(struct ir_block *b, const struct jifl_function *f,
				     struct jifl_tree *t)
{
	const struct ir_insn *last = &b->insns[b->ninsns - 1];
	struct jifl_way_out out;

	jifl_routine_way_out(b, &out);
	if (out.kind == JIFL_RETURNS)
		jifl_tree_insert_leave(b, out.place, f, JIFL_TREE_RETURNS, t);
	else if (out.kind == JIFL_JUMPS)
		jifl_tree_insert_leave(b, out.place, f, JIFL_TREE_JUMPS, t);
	else if ((last->kind == IR_JMP || last->kind == IR_JCC) && last->target.v == f->start)
		jifl_tree_insert_leave(b, out.place, f, JIFL_TREE_BEGINS_AGAIN, t);
}

/* The beginning first, and the end last: path.c, step 1. */
static void jifl_tree_instrument(struct ir_block *b, void *arg)
{
	struct jifl_session *s = arg;
	struct jifl_tree *t = s->tool_data;
	const struct jifl_function f = *jifl_function_at(b->addr.v);

	jifl_count_attribute(s);
	if (f.start == b->addr.v && !f.cold)
		jifl_tree_insert_enter(b, t);
	jifl_tree_insert_count(b, s);
	jifl_tree_insert_behind(b, &f, t);
	jifl_tree_insert_way_out(b, &f, t);
}

/* At the exit of a system call; other calls end in jifl_tree_function_ends. */
static void jifl_tree_insert_end(struct jifl_tree *t, struct ir_insert *exit, u32 *nexit)
{
	memmove(exit + 1, exit, *nexit * sizeof(*exit));
	*exit = (struct ir_insert){
		.kind = IR_INSERT_CALL, .fn = (unsigned long)jifl_tree_ends, .nargs = 1,
		.args = { (unsigned long)t },
	};
	++*nexit;
}

/* The block that a target's door skips is the function's beginning. */
static void jifl_tree_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
			    struct ir_insert *exit, u32 *nexit)
{
	struct jifl_tree *t = aim->session->tool_data;

	jifl_count_entry(aim, entry, nentry, exit, nexit);
	jifl_tree_insert_end(t, exit, nexit);
	if (aim->target->kind == JIFL_TARGET_SYSCALL || !jifl_target_skipped(aim->target))
		return;
	entry[*nentry] = (struct ir_insert){ 0 };
	jifl_tree_fill_enter(t, aim->target->id, &entry[(*nentry)++]);
}

static void jifl_tree_function_ends(const struct jifl_aim *aim, u64 result)
{
	jifl_tree_ends(aim->session->tool_data);
}

static void jifl_tree_dies(struct jifl_session *s, u64 call, u64 count)
{
	jifl_tree_ends_dead(s->tool_data, call, count);
}

/* --- reading --------------------------------------------------------------------------------- */

/* The others stand behind all cells. There are some only if the table is full. */
static u32 jifl_tree_end(const void *table)
{
	const struct jifl_tree *t = table;

	return jifl_cells_end(table) + !!atomic64_read(&t->others.calls);
}

static void jifl_tree_fill_answer(const void *table, u32 i, void *answer)
{
	const struct jifl_tree *t = table;
	const struct jifl_tree_node *node =
		i < t->nodes.max ? (void *)jifl_cells_at(&t->nodes, sizeof(*node), i) : &t->others;
	const u32 function = node->name.function;

	*(struct jifl_path *)answer = (struct jifl_path){
		.function = function ? jifl_block_address(function) : 0,
		.parent = node->name.parent,
		.calls = atomic64_read(&node->calls),
		.insns = atomic64_read(&node->insns),
		.wall_ns = jifl_times_ns(atomic64_read(&node->wall)),
		.blocked_ns = jifl_times_ns(atomic64_read(&node->blocked)),
		.runnable_ns = jifl_times_ns(atomic64_read(&node->runnable)),
	};
}

static void jifl_tree_rest(const void *table, struct jifl_table_read *req)
{
	const struct jifl_tree *t = table;

	req->rest[JIFL_PATH_REFUSED] = atomic64_read(&t->refused);
	req->rest[JIFL_PATH_STRAYS] = atomic64_read(&t->strays);
	req->rest[JIFL_PATH_UNTIMED] = atomic64_read(&t->untimed);
}

static_assert(!offsetof(struct jifl_tree, nodes));
static const struct jifl_answer jifl_tree_answer = {
	.size = sizeof(struct jifl_path),
	.end = jifl_tree_end,
	.fill = jifl_tree_fill_answer,
	.rest = jifl_tree_rest,
};

const struct jifl_tool jifl_tool_tree = {
	.name = "tree",
	.kind = JIFL_KIND_TREE,
	.flags = JIFL_FLAG_CLOCK,
	.calls = JIFL_CALLS_FOLLOWED,
	.counts_insns = true,
	.shows_addresses = true,
	.init = jifl_tree_init,
	.table = &jifl_tree_answer,
	.instrument = jifl_tree_instrument,
	.open = jifl_tree_open,
	.close = jifl_tree_close,
	.attach = jifl_tree_attach,
	.ended = jifl_tree_ended,
	.entry = jifl_tree_entry,
	.ends = jifl_tree_function_ends,
	.dies = jifl_tree_dies,
};
