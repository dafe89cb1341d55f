// SPDX-License-Identifier: GPL-2.0
/*
 * Where a call is in the tree, and what is counted there: instructions, and times if the session
 * wants them.
 *
 * The path is the node of the function that runs. Its number stands in the lane's identity of the
 * call, above the bits of its own. So it follows the task as the identity does (call/switch.c), and
 * an interrupt that is counted has its own (call/levels.c). Functions are entered and left in code
 * that is inserted where they begin, return, and jump to others. There what the lane has counted
 * since the last such moment is the node's.
 *
 * Why the sum of all nodes is what a session of the tool insn counts:
 *
 * 1. The same is added to the lane for each block. It is added in the block, behind the function's
 *    beginning and before its end, because inserts at one instruction run in their order.
 * 2. The lane's count goes to the node of the function that runs, and is 0 from then on. Between
 *    the two nothing is added to it: preemption is off, and what interrupts has other lanes, or
 *    counts nothing into these.
 * 3. What is counted before a target's first function begins is that function's: it stands at the
 *    door, before the piece enters the function.
 * 4. What is counted behind the last such moment is added at the call's end: a target may end
 *    natively. Of a task that dies in a call it is added when the task is switched away for the
 *    last time, but for its time. Of a call that is given up, which is a missed one, it is in no
 *    node.
 * 5. A call that finds no node stays in that of its caller, and is told (refused). A target's goes
 *    to the node of all others, which no function leaves. From then on no path goes up but by the
 *    return of its own function.
 *
 * A function that jumps to another one is left there. So the other one is called by the caller, as
 * the stack has it. The target itself stays: it is what was called. A return is that of the
 * function that runs. Two things make it one of another function: what has run natively until its
 * own return, as do_softirq() does where the stack is switched; and assembly that jumps into the
 * middle of another function. Then the path goes up to the nearest node of the function that
 * returns. If there is none it stays, and the return is told (strays). Until that return what its
 * function does itself is the node's that was left unseen. So a path may be one function too long
 * for a moment, and the sum is right.
 *
 * Times are those that the tool times has, by the same records (tools/times/account.c): at each of
 * these moments the differences to the last one are added to the node. The marks of the last moment
 * are in the record of the task, or of the lanes' level on this CPU. They are the call's if they
 * have its identity. What a call does above that level, as in softirqs that it runs, is its own.
 *
 * Context: any, with preemption off; inserted code turns it off.
 */
#include <linux/preempt.h>
#include <linux/sched.h>
#include <asm/msr.h>

#include "../../kernel.h"
#include "../../plant.h"
#include "../../compat/preempt.h"
#include "../../store/level.h"
#include "../../store/percpu.h"
#include "../../call/count.h"
#include "../../call/whose.h"
#include "../times/times.h"
#include "tree.h"

/* The bits of jifl_lane.call from here on are a node's number. */
#define JIFL_TREE_SHIFT	33
#define JIFL_TREE_CALL	((1ull << JIFL_TREE_SHIFT) - 1)
static_assert(JIFL_TREE_CALL >= JIFL_COUNT_ADOPTED);

/* The last moment of a call: the first row of a record. */
struct jifl_tree_mark {
	u64 wall, blocked, runnable;
	u64 call;			/* its identity; 0: none */
};
static_assert(sizeof(struct jifl_tree_mark) <= sizeof(struct jifl_times_row));

/* --- times ----------------------------------------------------------------------------------- */

/* Of the task, or of the level. NULL: it has none. */
static struct jifl_times_record *jifl_tree_record(const struct jifl_tree *t)
{
	const struct jifl_times_cpu *cpu = this_cpu_ptr(t->times->cpus);
	const u64 level = this_cpu_read(jifl_cpu.level);
	struct jifl_times_record *r = cpu->task;

	if (level != JIFL_LEVEL_TASK)
		r = cpu->above[level - JIFL_LEVEL_SOFTIRQ];
	return r == cpu->sink ? NULL : r;
}

static struct jifl_tree_mark jifl_tree_now(const struct jifl_times_record *r, u64 call)
{
	return (struct jifl_tree_mark){
		.wall = rdtsc(), .blocked = r->blocked, .runnable = r->runnable, .call = call,
	};
}

/* A call begins. */
static void jifl_tree_mark_begin(struct jifl_tree *t, u64 call)
{
	struct jifl_times_record *r = t->times ? jifl_tree_record(t) : NULL;

	if (r)
		*(struct jifl_tree_mark *)r->rows = jifl_tree_now(r, call & JIFL_TREE_CALL);
	else if (t->times)
		atomic64_inc(&t->untimed);
}

/* The time since the last moment is the node's. */
static void jifl_tree_mark_next(struct jifl_tree *t, struct jifl_tree_node *node, u64 call)
{
	struct jifl_times_record *r = t->times ? jifl_tree_record(t) : NULL;
	struct jifl_tree_mark *mark = r ? (struct jifl_tree_mark *)r->rows : NULL;
	struct jifl_tree_mark now;

	if (!r || mark->call != (call & JIFL_TREE_CALL))
		return;
	now = jifl_tree_now(r, mark->call);
	atomic64_add(now.wall - mark->wall, &node->wall);
	if (now.blocked != mark->blocked)
		atomic64_add(now.blocked - mark->blocked, &node->blocked);
	if (now.runnable != mark->runnable)
		atomic64_add(now.runnable - mark->runnable, &node->runnable);
	*mark = now;
}

/* --- nodes ----------------------------------------------------------------------------------- */

/* Fibonacci hashing: the highest bits tell most. */
static u32 jifl_tree_hash(const struct jifl_tree_name *name)
{
	return name->parent * 0x9e3779b1u + (name->function >> 4) * 0x85ebca6bu;
}

/* 0: there is no room. */
static u32 jifl_tree_find(struct jifl_tree *t, u32 parent, unsigned long function)
{
	const size_t size = sizeof(struct jifl_tree_node);
	const struct jifl_tree_name name = { .parent = parent, .function = (u32)function };
	const u32 hash = jifl_tree_hash(&name);
	const u32 *bucket = &t->nodes.buckets[hash >> (32 - t->nodes.bits)];
	struct jifl_cell *cell = jifl_cells_in_bucket(&t->nodes, bucket, size, &name, sizeof(name));

	static_assert(offsetof(struct jifl_tree_node, name) == sizeof(struct jifl_cell));
	if (unlikely(!cell && READ_ONCE(t->nodes.n) < t->nodes.max)) {
		/* The kernel's functions that it calls may be targets. */
		jifl_own_begin();
		cell = jifl_cells_find_or_add_hashed(&t->nodes, size, &name, sizeof(name), hash);
		jifl_own_end();
	}
	return cell ? jifl_cells_index(&t->nodes, size, cell) + 1 : 0;
}

/* The node of the function that returns: this one, or one above. 0: none. */
static u32 jifl_tree_returning(struct jifl_tree *t, u32 number, u32 function)
{
	if (number == JIFL_TREE_OTHERS)
		return 0;
	while (number && function && jifl_tree_at(t, number)->name.function != function)
		number = atomic64_read(&t->refused) ? 0 : jifl_tree_at(t, number)->name.parent;
	return number;
}

/* What the call has counted since the last moment is the node's. */
static void jifl_tree_add(struct jifl_tree *t, u32 number, u64 call)
{
	const u32 lane = t->session->lane;
	struct jifl_tree_node *node = jifl_tree_at(t, number);

	atomic64_add(this_cpu_read(jifl_cpu.lanes[lane].count), &node->insns);
	if (!JIFL_HOST_PLANTED(tree_counted_twice))
		this_cpu_write(jifl_cpu.lanes[lane].count, 0);
	jifl_tree_mark_next(t, node, call);
}

/* --- where functions begin and end ------------------------------------------------------------ */

/* The running call's identity, if it is the session's; else 0. */
static u64 jifl_tree_call(const struct jifl_tree *t)
{
	const u64 call = this_cpu_read(jifl_cpu.lanes[t->session->lane].call);

	return call && jifl_count_session(call) == t->session ? call : 0;
}

static void jifl_tree_go_to(const struct jifl_tree *t, u64 call, u32 number)
{
	this_cpu_write(jifl_cpu.lanes[t->session->lane].call,
		       (call & JIFL_TREE_CALL) | (u64)number << JIFL_TREE_SHIFT);
}

static void jifl_tree_go_down(struct jifl_tree *t, unsigned long function)
{
	const u64 call = jifl_tree_call(t);
	const u32 from = call >> JIFL_TREE_SHIFT;
	u32 to;

	if (!call)
		return;
	if (from)
		jifl_tree_add(t, from, call);
	else
		jifl_tree_mark_begin(t, call);
	to = jifl_tree_find(t, from, function);
	if (!to)
		atomic64_inc(&t->refused);
	if (!to && !from)
		to = JIFL_TREE_OTHERS;
	if (!to)
		return;
	atomic64_inc(&jifl_tree_at(t, to)->calls);
	jifl_tree_go_to(t, call, to);
}

/* Returns the node that is left; 0: none. */
static u32 jifl_tree_go_up(struct jifl_tree *t, u32 function, bool stays_in_target)
{
	const u64 call = jifl_tree_call(t);
	const u32 from = call >> JIFL_TREE_SHIFT;
	u32 number, parent;

	if (!from)
		return 0;
	jifl_tree_add(t, from, call);
	number = jifl_tree_returning(t, from, function);
	if (!number && !atomic64_read(&t->refused))
		atomic64_inc(&t->strays);
	if (!number)
		return 0;
	parent = jifl_tree_at(t, number)->name.parent;
	jifl_tree_go_to(t, call, parent || !stays_in_target ? parent : number);
	return number;
}

static void jifl_tree_enter(struct jifl_tree *t, unsigned long function)
{
	preempt_disable_notrace();
	jifl_tree_go_down(t, function);
	jifl_preempt_enable();
}

/* Of this and the next two, function: 0: whichever it is. */
static void jifl_tree_return(struct jifl_tree *t, unsigned long function)
{
	preempt_disable_notrace();
	jifl_tree_go_up(t, function, false);
	jifl_preempt_enable();
}

static void jifl_tree_jump(struct jifl_tree *t, unsigned long function)
{
	preempt_disable_notrace();
	jifl_tree_go_up(t, function, true);
	jifl_preempt_enable();
}

/* It jumps to its own beginning, where it is entered again. That is no call. */
static void jifl_tree_begin_again(struct jifl_tree *t, unsigned long function)
{
	u32 left;

	preempt_disable_notrace();
	left = jifl_tree_go_up(t, function, false);
	if (left)
		atomic64_dec(&jifl_tree_at(t, left)->calls);
	jifl_preempt_enable();
}

static void jifl_tree_fill(struct jifl_tree *t, unsigned long function,
			   void (*fn)(struct jifl_tree *, unsigned long), struct ir_insert *ins)
{
	ins->kind = IR_INSERT_CALL;
	ins->fn = (unsigned long)fn;
	ins->nargs = 2;
	ins->args[0] = (unsigned long)t;
	ins->args[1] = function;
}

void jifl_tree_fill_enter(struct jifl_tree *t, unsigned long function, struct ir_insert *ins)
{
	jifl_tree_fill(t, function, jifl_tree_enter, ins);
}

void jifl_tree_fill_leave(struct jifl_tree *t, unsigned long function, enum jifl_tree_leave how,
			  struct ir_insert *ins)
{
	static void (*const leave[])(struct jifl_tree *, unsigned long) = {
		[JIFL_TREE_RETURNS] = jifl_tree_return,
		[JIFL_TREE_JUMPS] = jifl_tree_jump,
		[JIFL_TREE_BEGINS_AGAIN] = jifl_tree_begin_again,
	};

	jifl_tree_fill(t, function, leave[how], ins);
}

void jifl_tree_ends(struct jifl_tree *t)
{
	u64 call;

	preempt_disable_notrace();
	call = jifl_tree_call(t);
	if (call >> JIFL_TREE_SHIFT)
		jifl_tree_add(t, call >> JIFL_TREE_SHIFT, call);
	jifl_preempt_enable();
}

void jifl_tree_ends_dead(struct jifl_tree *t, u64 call, u64 count)
{
	const u32 number = call >> JIFL_TREE_SHIFT;

	if (number)
		atomic64_add(count, &jifl_tree_at(t, number)->insns);
}
