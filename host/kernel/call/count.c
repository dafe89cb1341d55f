// SPDX-License-Identifier: GPL-2.0
/*
 * Counts of single calls.
 *
 * While an instrumented call runs, its identity and its count are in this CPU's struct jifl_cpu, in
 * the lane of its session. Inserted code reaches them by one gs-relative instruction. They belong
 * to the task: when it is switched away, switch.c saves them, and restores them when it is back. So
 * no count is lost by preemption or migration between two instructions.
 *
 *	entry piece	call = (session, target); count = 0
 *	every block	count += its instructions, or 1
 *	exit piece	jifl_count_end: into the statistics (stats.c); call = 0
 *
 * If a session measures a value of each call instead (JIFL_FLAG_DURATION, JIFL_FLAG_RETVAL;
 * value.c), count is the time at which the call began, or what the call returned.
 *
 * Contexts: a system call ends in its task, a function wherever it is called; inserting is done
 * under the engine lock. Nothing here allocates.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/pid.h>		/* with sched.h, by kernel version: task_pid_nr */
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/preempt.h"
#include "../store/percpu.h"
#include "../store/ring.h"
#include "../enter/function.h"
#include "adopted.h"
#include "condition.h"
#include "count.h"
#include "filter.h"
#include "keys.h"
#include "stats.h"
#include "tool.h"
#include "value.h"

bool jifl_count_follows(const struct jifl_session *s)
{
	if (s->flags & (JIFL_FLAG_DURATION | JIFL_FLAG_RETVAL))
		return true;
	return s->tool->calls == JIFL_CALLS_FOLLOWED;
}

bool jifl_count_is_apart(const struct jifl_session *s)
{
	return s->only && s->tool->counts_apart && !JIFL_HOST_PLANTED(apart_left_out);
}

/* Whether more is done at the end of the session's calls than to add their counts up. */
static bool jifl_count_is_special(const struct jifl_session *s)
{
	return s->keys || s->flags & (JIFL_FLAG_DURATION | JIFL_FLAG_RETVAL);
}

/* --- a call's end ------------------------------------------------------------------ */

/* Returns this CPU's figures of the call's target. NULL: the call counts as missed. */
static __always_inline struct jifl_stats_cpu *jifl_count_into(struct jifl_aim *aim)
{
	/* A full cache means that parts of calls run natively, uncounted. */
	if (!jifl_engine_is_full() || JIFL_HOST_PLANTED(full_unnoticed))
		return aim->cpu[raw_smp_processor_id()];
	jifl_count_miss(aim, JIFL_MISS_FULL);
	return NULL;
}

/* Adds an ended call to its figures. Preemption is off. Inlined, because each call pays it. */
static __always_inline void jifl_count_finish(u64 call, u64 count, bool no_return)
{
	struct jifl_session *s = jifl_count_session(call);
	struct jifl_stats_cpu *st = s ? jifl_count_into(jifl_count_aim(s, call)) : NULL;

	if (st)
		jifl_stats_add(st, count, no_return);
}

/* As jifl_count_finish, for sessions of which jifl_count_is_special. Preemption is off. */
static __always_inline void jifl_count_finish_special(u64 call, u64 count, bool no_return)
{
	struct jifl_session *s = jifl_count_session(call);
	struct jifl_stats_cpu *st = s ? jifl_count_into(jifl_count_aim(s, call)) : NULL;

	if (!st)
		return;
	/* That clock may stand still for a moment where others' adjust it. */
	if (s->flags & JIFL_FLAG_DURATION) {
		jifl_own_begin();
		count = max_t(s64, ktime_get_mono_fast_ns() - count, 0);
		jifl_own_end();
	}
	if (!(s->flags & JIFL_FLAG_RETVAL))
		jifl_stats_add(st, count, no_return);
	else if (no_return)
		jifl_stats_call(st, true);
	else
		jifl_stats_add_signed(st, count);
	if (s->keys)
		jifl_keys_add(s->keys, count);
}

void jifl_count_finish_dead(u64 call, u64 count)
{
	struct jifl_session *s = jifl_count_session(call);

	if (!s)
		return;
	if (s->tool->dies)
		s->tool->dies(s, call, count);
	if (s->tool->records)
		jifl_ring_end(JIFL_RECORD_END | jifl_count_index(call), task_pid_nr(current), NULL);
	if (jifl_adopted_end(current, call, count))
		return;
	if (jifl_count_is_special(s))
		jifl_count_finish_special(call, count, true);
	else
		jifl_count_finish(call, count, true);
}

/* Takes the running call off the CPU. 0: it was counted as missed before, for want of room. */
static __always_inline u64 jifl_count_take(unsigned long lane)
{
	u64 call = this_cpu_read(jifl_cpu.lanes[lane].call);

	if (call)
		this_cpu_write(jifl_cpu.lanes[lane].call, 0);
	return call;
}

static __always_inline void jifl_count_end_by(unsigned long lane,
					      void (*finish)(u64 call, u64 count, bool no_return))
{
	u64 call;

	/* Both cells are the task's own: a switch restores them. Until both are used none comes. */
	preempt_disable_notrace();
	call = jifl_count_take(lane);
	if (call)
		finish(call, this_cpu_read(jifl_cpu.lanes[lane].count), false);
	jifl_preempt_enable();
}

/* Inserted in the exit piece, which keeps the call's result. */
static void jifl_count_end(unsigned long lane)
{
	jifl_count_end_by(lane, jifl_count_finish);
}

static void jifl_count_end_special(unsigned long lane)
{
	jifl_count_end_by(lane, jifl_count_finish_special);
}

/* The first word of a call's mark, but for what it is about. */
static __always_inline u32 jifl_count_mark(u32 type, enum jifl_level level, u32 index)
{
	static_assert(JIFL_TARGETS_MAX < 1u << JIFL_RECORD_LEVEL_SHIFT);
	return type | level << JIFL_RECORD_LEVEL_SHIFT | index;
}

/* At task level. */
static noinline void jifl_count_wait(bool of_function)
{
	jifl_own_begin_at(JIFL_LEVEL_TASK);
	jifl_ring_end_wait(of_function);
	jifl_own_end_at(JIFL_LEVEL_TASK);
}

/* But for the wait, no function of the kernel is called: a target would be called again by it. */
static __always_inline void jifl_count_end_by_record(unsigned long lane, const u64 *result,
						     bool of_function, enum jifl_level level)
{
	u64 call, count;
	u32 mark;

	preempt_disable_notrace();
	call = jifl_count_take(lane);
	if (call) {
		count = this_cpu_read(jifl_cpu.lanes[lane].count);
		if (likely(!(call & JIFL_COUNT_ADOPTED)) || !jifl_adopted_end(current, call, count))
			jifl_count_finish(call, count, false);
		mark = jifl_count_mark(JIFL_RECORD_END, level, jifl_count_index(call));
		if (unlikely(jifl_ring_end(mark, task_pid_nr(current), result)) &&
		    level == JIFL_LEVEL_TASK)
			jifl_count_wait(of_function);
	}
	jifl_preempt_enable();
}

/* Tools that record, but not what calls return. */
static void jifl_count_end_bare(unsigned long lane)
{
	jifl_count_end_by_record(lane, NULL, false, JIFL_LEVEL_TASK);
}

/* Tools that record what calls return. */
static void jifl_count_end_recorded(unsigned long lane, u64 result)
{
	jifl_count_end_by_record(lane, &result, false, JIFL_LEVEL_TASK);
}

/* A call returns that is not in its lane any more. */
static void jifl_count_end_cut(unsigned long lane, enum jifl_level level)
{
	if (lane == READ_ONCE(jifl_count_recorded) && level != JIFL_LEVEL_TASK &&
	    !JIFL_HOST_PLANTED(cuts_untold))
		jifl_ring_put(JIFL_RECORD_CUT, 0);
}

void jifl_count_end_outside(unsigned long lane, u64 result, enum jifl_level level)
{
	const u64 call = this_cpu_read(jifl_cpu.lanes[lane].call);
	const struct jifl_session *s = call ? jifl_count_session(call) : NULL;
	bool has_result;
	u32 type;

	if (!call)
		jifl_count_end_cut(lane, level);
	if (!s || (unlikely(call & JIFL_COUNT_ADOPTED) && !s->tool->records &&
		   jifl_adopted_end(current, call, this_cpu_read(jifl_cpu.lanes[lane].count)))) {
		jifl_count_take(lane);
		return;
	}
	if (s->tool->ends)
		s->tool->ends(jifl_count_aim(s, call), result);
	type = jifl_count_aim(s, call)->value;
	result = jifl_value_of(type, result);
	if (jifl_count_is_special(s)) {
		if (s->flags & JIFL_FLAG_RETVAL)
			this_cpu_write(jifl_cpu.lanes[lane].count, result);
		jifl_count_end_special(lane);
	} else if (s->tool->records) {
		has_result = s->tool->records->results && !(type & JIFL_TARGET_VOID);
		jifl_count_end_by_record(lane, has_result ? &result : NULL, true, level);
	} else {
		jifl_count_end(lane);
	}
}

static __always_inline void jifl_count_record_begin(unsigned long index, enum jifl_level level)
{
	preempt_disable_notrace();
	jifl_ring_mark(jifl_count_mark(JIFL_RECORD_BEGIN, level, index), task_pid_nr(current));
	jifl_preempt_enable();
}

/* Inserted at the entry of a system call that is recorded. */
static void jifl_count_begin_recorded(unsigned long index)
{
	jifl_count_record_begin(index, JIFL_LEVEL_TASK);
}

/* The same of a function. */
static void jifl_count_begin_recorded_anywhere(unsigned long index)
{
	jifl_count_record_begin(index, jifl_level());
}

/* Behind the beginning of a call stands which stack it runs on. */
static void jifl_count_record_stack(unsigned long unused)
{
	preempt_disable_notrace();
	jifl_ring_put(JIFL_RECORD_STACK, (unsigned long)__builtin_frame_address(0) >> 32);
	jifl_preempt_enable();
}

/* JIFL_CALLS_COUNTED with JIFL_FLAG_BY_*. */
static void jifl_count_begin_key(struct jifl_aim *aim, struct jifl_keys_table *keys)
{
	preempt_disable_notrace();
	this_cpu_inc(*aim->counter);
	jifl_keys_add(keys, 0);
	jifl_preempt_enable();
}

void jifl_count_begin(struct jifl_aim *aim)
{
	if (aim->session->keys)
		jifl_count_begin_key(aim, aim->session->keys);
	else
		this_cpu_inc(*jifl_stats_counter(aim));
}

/* --- what is inserted ------------------------------------------------------------ */

static struct ir_insert jifl_count_call_of(void (*fn)(unsigned long), unsigned long arg)
{
	return (struct ir_insert){
		.kind = IR_INSERT_CALL,
		.fn = (unsigned long)fn,
		.nargs = 1,
		.args = { arg },
	};
}

/*
 * JIFL_CALLS_COUNTED: inserted where a call begins. That is the entry of a system call's handler,
 * or of a function. r11 and the flags have no value there: jifl_ring_at_edge (store/ring_write.c)
 * has the reasons. Of a function without a site they may: nested.c, and the engine in entry pieces
 * that have instructions of the function, say so.
 */
static struct ir_insert jifl_count_begin_insert(struct jifl_aim *aim)
{
	const struct jifl_session *s = aim->session;

	if (s->flags & JIFL_FLAGS_ARG)
		return jifl_value_begin_arg(aim);
	if (s->keys)
		return (struct ir_insert){
			.kind = IR_INSERT_CALL,
			.fn = (unsigned long)jifl_count_begin_key,
			.nargs = 2,
			.args = { (unsigned long)aim, (unsigned long)s->keys },
		};
	return (struct ir_insert){
		.kind = IR_INSERT_COUNT,
		.counter = (unsigned long)jifl_stats_counter(aim),
		.convention = true,
	};
}

/* What is inserted at the exit of the session's calls. */
static struct ir_insert jifl_count_exit_insert(const struct jifl_session *s)
{
	struct ir_insert ins;

	if (jifl_count_is_special(s))
		return jifl_count_call_of(jifl_count_end_special, s->lane);
	if (!s->tool->records)
		return jifl_count_call_of(jifl_count_end, s->lane);
	if (!s->tool->records->results)
		return jifl_count_call_of(jifl_count_end_bare, s->lane);
	ins = jifl_count_call_of(NULL, s->lane);
	ins.fn = (unsigned long)jifl_count_end_recorded;
	ins.nargs = 2;
	ins.fetched = 1 << 1;
	ins.fetches[1] = (struct ir_fetch){
		.how = IR_FETCH_REG, .base = IR_RAX, .index = IR_REG_NONE,
	};
	return ins;
}

/* Inserted at the exit of a call whose count is still 0: count becomes the result. */
static struct ir_insert jifl_count_add_result(const struct jifl_session *s)
{
	return (struct ir_insert){
		.kind = IR_INSERT_ADD_REG,
		.cell = jifl_cpu_operand(lanes[s->lane].count),
		.reg = IR_RAX,
		.imm = 1,
	};
}

u32 jifl_count_skipped(const struct jifl_target *t)
{
	const u32 skipped = jifl_target_skipped(t);
	const u32 site = jifl_target_site_bytes(t);

	return (skipped > site ? 1 : 0) + (site ? 1 : 0);
}

void jifl_count_entry(struct jifl_aim *aim, struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit)
{
	const struct jifl_session *s = aim->session;

	*nentry = 0;
	*nexit = 0;
	if (!jifl_count_follows(s)) {
		if (s->tool->calls == JIFL_CALLS_COUNTED) {
			jifl_stats_take_cell(aim);
			entry[(*nentry)++] = jifl_count_begin_insert(aim);
		}
		return;
	}
	/*
	 * The identity first. If the task is switched away between the two, an old count is saved
	 * with it, which the second insert then overwrites.
	 */
	entry[(*nentry)++] = (struct ir_insert){
		.kind = IR_INSERT_STORE,
		.cell = jifl_cpu_operand(lanes[s->lane].call),
		.imm = jifl_count_id(aim),
	};
	entry[(*nentry)++] = (struct ir_insert){
		.kind = IR_INSERT_STORE,
		.cell = jifl_cpu_operand(lanes[s->lane].count),
		.imm = s->tool->counts_insns ? jifl_count_skipped(aim->target) : 0,
	};
	if (s->tool->records)
		entry[(*nentry)++] = jifl_count_call_of(
			aim->target->kind != JIFL_TARGET_SYSCALL ?
				jifl_count_begin_recorded_anywhere : jifl_count_begin_recorded,
			aim->index);
	if (s->tool->records && s->tool->records->stacks)
		entry[(*nentry)++] = jifl_count_call_of(jifl_count_record_stack, 0);
	if (s->flags & JIFL_FLAG_DURATION)
		entry[(*nentry)++] = jifl_value_begin_time(s);
	if (s->flags & JIFL_FLAG_RETVAL)
		exit[(*nexit)++] = jifl_count_add_result(s);
	exit[(*nexit)++] = jifl_count_exit_insert(s);
}

u32 jifl_count_entry_inner(struct jifl_aim *aim, struct ir_insert *entry)
{
	const struct jifl_session *s = aim->session;

	entry[0] = jifl_count_begin_insert(aim);
	return 1 + (s->tool->skips ? s->tool->skips(s, aim->target, entry + 1) : 0);
}

/* Inserted where a function begins whose call is inside a call, and is not counted. */
static void jifl_count_miss_nested(struct jifl_aim *aim)
{
	if (jifl_filter_match_inserted(&aim->session->filter))
		jifl_count_miss(aim, JIFL_MISS_NESTED);
}

bool jifl_count_nested(struct jifl_aim *aim, bool member, struct ir_insert *ins)
{
	const struct jifl_session *s = aim->session;

	if (s->tool->calls == JIFL_CALLS_UNCOUNTED)
		return false;
	if (jifl_condition_has(aim)) {
		/* An argument's value is not known where the condition is looked at. */
		jifl_condition_nested(aim, member && !jifl_count_follows(s) &&
				      !(s->flags & JIFL_FLAGS_ARG), ins);
		return true;
	}
	if (!member || (jifl_count_follows(s) && !jifl_count_is_apart(s))) {
		*ins = jifl_count_call_of(NULL, (unsigned long)aim);
		ins->fn = (unsigned long)jifl_count_miss_nested;
		return true;
	}
	*ins = jifl_count_begin_insert(aim);
	return true;
}
