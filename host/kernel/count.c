// SPDX-License-Identifier: GPL-2.0
/*
 * Counts of single calls, and the statistics made of them.
 *
 * While an instrumented call runs, its count and its identity live in this
 * CPU's struct jifl_cpu, in its session's lane, where inserted code reaches them
 * by one gs-relative instruction. They belong to the task: a hook in sched_switch saves them when
 * it leaves the CPU and restores them when it comes back, here or elsewhere. So
 * neither preemption nor migration between two instructions loses anything.
 *
 *	entry piece	call = (session, nr); count = 0
 *	every block	count += its instructions, or 1
 *	exit piece	jifl_count_end: into the statistics; call = 0
 *
 * Where it is not the execution of blocks that is counted but a value of each call
 * (JIFL_FLAG_DURATION and so on), count is the time of the call's beginning, or what it returned.
 *
 * A call that the task dies in is accounted when the task is switched away for
 * the last time. A call whose way back no longer leads through its exit piece
 * (jifl_evict) is cut: forgotten and counted as missed.
 *
 * Contexts: the hook runs with a run queue locked; jifl_count_end in process
 * context; the block callbacks under the engine lock. None of them allocates.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <asm/unistd.h>

#include "kernel.h"
#include "plant.h"
#include "histogram.h"

/* --- the identity of a call -------------------------------------------------- */

/*
 * struct jifl_lane.call is (slot << 16 | nr + 1): small enough for the 32-bit
 * immediate that the entry piece stores, and never 0.
 */
#define JIFL_COUNT_SLOTS	4096	/* counting sessions at a time, one less */

/*
 * Set and cleared under jifl_session_mutex. A call of a slot's session can be
 * in flight only between the two, so readers need no lock.
 */
static struct jifl_session *jifl_count_slots[JIFL_COUNT_SLOTS];
static unsigned int jifl_count_users;	/* jifl_session_mutex */
static bool jifl_count_traces;		/* is there a KIND_TRACE? written under it, too */
static bool jifl_count_draining;	/* written under jifl_session_mutex */
static atomic64_t jifl_count_missed_ever;

static u32 jifl_count_id(const struct jifl_session *s, unsigned int nr)
{
	return s->slot << 16 | (nr + 1);
}

static struct jifl_session *jifl_count_session(u64 call)
{
	return jifl_count_slots[(call >> 16) % JIFL_COUNT_SLOTS];
}

static unsigned int jifl_count_nr(u64 call)
{
	return ((call & 0xffff) - 1) % JIFL_NR_MAX;
}

/* Is something known of a call at its end, and so the call has to be known by its identity? */
static bool jifl_count_kind(const struct jifl_session *s)
{
	if (s->flags & (JIFL_FLAG_DURATION | JIFL_FLAG_RETVAL))
		return true;
	return s->kind == JIFL_KIND_INSN || s->kind == JIFL_KIND_BLOCK ||
	       s->kind == JIFL_KIND_TRACE || s->kind == JIFL_KIND_PROFILE;
}

/* Is there more to do at the end of its calls than to add up counts? */
static bool jifl_count_is_special(const struct jifl_session *s)
{
	return s->keys || s->flags & (JIFL_FLAG_DURATION | JIFL_FLAG_RETVAL);
}

/* Does it count calls in shared cells? */
static bool jifl_count_in_cells(const struct jifl_session *s)
{
	return s->kind == JIFL_KIND_CALL && !s->lane &&
	       !(s->flags & (JIFL_FLAGS_BY | JIFL_FLAGS_VALUE));
}

/* --- statistics ---------------------------------------------------------------- */

/* One CPU's part. Written on this CPU with preemption off, read from any. */
struct jifl_stats_cpu {
	u64 calls;
	u64 no_return;
	u64 sum;
	u64 min;
	u64 max;
	u32 hist[JIFL_HIST_BUCKETS];	/* a full bucket stays full */
};

struct jifl_stats {
	DECLARE_FLEX_ARRAY(struct jifl_stats_cpu *, cpu);	/* nr_cpu_ids */
};

static struct kmem_cache *jifl_stats_cache;

/*
 * Cells for JIFL_KIND_CALL: the space for static per-CPU data of all modules
 * together is 8 KiB, so there are fewer than system calls. A cell stays with
 * the system call that took it first, and serves sessions in lane 0: one at a
 * time.
 */
#define JIFL_COUNT_CELLS	192

static DEFINE_PER_CPU(u64 [JIFL_COUNT_CELLS], jifl_count_cells);
static s16 jifl_count_cell_of[JIFL_NR_MAX];	/* 0: none yet, else index + 1 */
static s16 jifl_count_cells_used;		/* both: jifl_entry_lock */

static void jifl_stats_free(struct jifl_stats *st)
{
	int cpu;

	if (!st)
		return;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (st->cpu[cpu])
			kmem_cache_free(jifl_stats_cache, st->cpu[cpu]);
	kfree(st);
}

/* Process context, but inside jifl_entry_slow: must not sleep. */
static struct jifl_stats *jifl_stats_alloc(void)
{
	const gfp_t gfp = GFP_NOWAIT | __GFP_NOWARN | __GFP_ZERO;
	struct jifl_stats *st;
	int cpu;

	st = JIFL_ALLOC(kmalloc(array_size(nr_cpu_ids, sizeof(st->cpu[0])), gfp));
	if (!st)
		return NULL;
	for_each_possible_cpu(cpu) {
		st->cpu[cpu] = JIFL_ALLOC(kmem_cache_alloc_node(jifl_stats_cache, gfp,
								cpu_to_node(cpu)));
		if (!st->cpu[cpu]) {
			jifl_stats_free(st);
			return NULL;
		}
		st->cpu[cpu]->min = U64_MAX;
	}
	return st;
}

int jifl_count_prepare(struct jifl_session *s, unsigned int nr)
{
	struct jifl_stats *st;
	unsigned long flags;

	if (s->kind == JIFL_KIND_NONE || s->kind == JIFL_KIND_PLUGIN ||
	    READ_ONCE(s->stats[nr]))
		return 0;
	st = jifl_stats_alloc();
	if (!st)
		return -ENOMEM;
	raw_spin_lock_irqsave(&jifl_entry_lock, flags);
	if (!s->stats[nr]) {
		/* Pairs with the READ_ONCE of readers: filled before seen. */
		smp_store_release(&s->stats[nr], st);
		st = NULL;
	}
	raw_spin_unlock_irqrestore(&jifl_entry_lock, flags);
	jifl_stats_free(st);
	return 0;
}

/* Preemption is off, here and below. Inlined: it is what the end of each call costs. */
static __always_inline void jifl_stats_call(struct jifl_stats_cpu *st, bool no_return)
{
	WRITE_ONCE(st->calls, st->calls + 1);
	if (no_return)
		WRITE_ONCE(st->no_return, st->no_return + 1);
}

static __always_inline void jifl_stats_sum(struct jifl_stats_cpu *st, u64 value)
{
	WRITE_ONCE(st->sum, st->sum + value);
	if (value < st->min)
		WRITE_ONCE(st->min, value);
	if (value > st->max)
		WRITE_ONCE(st->max, value);
}

static __always_inline void jifl_stats_bucket(struct jifl_stats_cpu *st, u32 bucket)
{
	if (st->hist[bucket] != U32_MAX)
		WRITE_ONCE(st->hist[bucket], st->hist[bucket] + 1);
}

static __always_inline void jifl_stats_add(struct jifl_stats_cpu *st, u64 value, bool no_return)
{
	jifl_stats_call(st, no_return);
	jifl_stats_sum(st, value);
	jifl_stats_bucket(st, jifl_hist_bucket(value));
}

/* An argument, or what a call returned. */
static void jifl_stats_add_signed(struct jifl_stats_cpu *st, u64 value)
{
	jifl_stats_call(st, false);
	if ((s64)value >= 0)
		jifl_stats_sum(st, value);
	jifl_stats_bucket(st, jifl_hist_power(value));
}

void jifl_count_miss(struct jifl_session *s, unsigned int nr)
{
	atomic64_inc(&s->missed[nr]);
	atomic64_inc(&jifl_count_missed_ever);
}

u64 jifl_count_missed(void)
{
	return atomic64_read(&jifl_count_missed_ever);
}

/* call may be 0. */
static void jifl_count_miss_call(u64 call)
{
	struct jifl_session *s = call ? jifl_count_session(call) : NULL;

	if (s)
		jifl_count_miss(s, jifl_count_nr(call));
}

/* This CPU's part of what the call's statistics go into; NULL: the call is missed. */
static __always_inline struct jifl_stats_cpu *jifl_count_into(struct jifl_session *s,
							      unsigned int nr)
{
	struct jifl_stats *st = READ_ONCE(s->stats[nr]);

	/* A full cache means that parts of calls run natively, uncounted. */
	if (st && (!jifl_engine_is_full() || JIFL_HOST_PLANTED(full_unnoticed)))
		return st->cpu[raw_smp_processor_id()];
	jifl_count_miss(s, nr);
	return NULL;
}

/* A call came to its end. Preemption is off. */
static void jifl_count_finish(u64 call, u64 count, bool no_return)
{
	struct jifl_session *s = jifl_count_session(call);
	unsigned int nr = jifl_count_nr(call);
	struct jifl_stats_cpu *st;

	if (!s)
		return;
	if (s->kind == JIFL_KIND_TRACE)
		jifl_ring_mark(JIFL_RECORD_END | nr, task_pid_nr(current));
	st = jifl_count_into(s, nr);
	if (st)
		jifl_stats_add(st, count, no_return);
}

/* Likewise, of a session of which jifl_count_is_special. */
static void jifl_count_finish_special(u64 call, u64 count, bool no_return)
{
	struct jifl_session *s = jifl_count_session(call);
	struct jifl_stats_cpu *st = s ? jifl_count_into(s, jifl_count_nr(call)) : NULL;

	if (!st)
		return;
	if (s->flags & JIFL_FLAG_DURATION)
		count = ktime_get_ns() - count;
	if (!(s->flags & JIFL_FLAG_RETVAL))
		jifl_stats_add(st, count, no_return);
	else if (no_return)
		jifl_stats_call(st, true);
	else
		jifl_stats_add_signed(st, count);
	if (s->keys)
		jifl_keys_add(s->keys, count);
}

static __always_inline void jifl_count_end_by(unsigned long lane,
					      void (*finish)(u64 call, u64 count, bool no_return))
{
	u64 call;

	/*
	 * Whatever switches came before this line, both cells are this task's
	 * own. From here on there is none until they have been used.
	 */
	preempt_disable_notrace();
	call = this_cpu_read(jifl_cpu.lanes[lane].call);
	/* 0: the table had no room for it once, and it was counted as missed. */
	if (call) {
		this_cpu_write(jifl_cpu.lanes[lane].call, 0);
		finish(call, this_cpu_read(jifl_cpu.lanes[lane].count), false);
	}
	preempt_enable_notrace();
}

/* The exit piece's insert. The call's result is safe in the piece's care. */
static void jifl_count_end(unsigned long lane)
{
	jifl_count_end_by(lane, jifl_count_finish);
}

static void jifl_count_end_special(unsigned long lane)
{
	jifl_count_end_by(lane, jifl_count_finish_special);
}

/* JIFL_FLAG_DURATION: an insert of the entry piece, where the call has its identity. */
static void jifl_count_begin_time(unsigned long lane)
{
	preempt_disable_notrace();
	this_cpu_write(jifl_cpu.lanes[lane].count, ktime_get_ns());
	preempt_enable_notrace();
}

/* KIND_TRACE: an insert of the entry piece, where the call has its identity. */
static void jifl_count_begin_trace(unsigned long nr)
{
	preempt_disable_notrace();
	jifl_ring_mark(JIFL_RECORD_BEGIN | (u32)nr, task_pid_nr(current));
	preempt_enable_notrace();
}

/* KIND_CALL without a cell: counts the call where it begins. */
static void jifl_count_begin_slow(struct jifl_stats *st)
{
	preempt_disable_notrace();
	st->cpu[raw_smp_processor_id()]->calls++;
	preempt_enable_notrace();
}

/* KIND_CALL with JIFL_FLAG_BY_*: likewise. */
static void jifl_count_begin_key(struct jifl_stats *st, struct jifl_keys_table *keys)
{
	preempt_disable_notrace();
	jifl_stats_call(st->cpu[raw_smp_processor_id()], false);
	jifl_keys_add(keys, 0);
	preempt_enable_notrace();
}

/* An argument of the system call that the current task is in. */
static u64 jifl_count_arg(unsigned long n)
{
	const struct pt_regs *regs = task_pt_regs(current);
	const u64 args[] = { regs->di, regs->si, regs->dx, regs->r10, regs->r8, regs->r9 };

	return args[n % ARRAY_SIZE(args)];
}

/* JIFL_FLAG_ARG: likewise. */
static void jifl_count_begin_arg(struct jifl_stats *st, unsigned long n)
{
	preempt_disable_notrace();
	jifl_stats_add_signed(st->cpu[raw_smp_processor_id()], jifl_count_arg(n));
	preempt_enable_notrace();
}

/* --- the calls of tasks that are not running ----------------------------------- */

/*
 * An open-addressed table: a task's record is in one of the JIFL_SAVED_WINDOW
 * places from its hash on. Only the CPU that switches a task away writes its
 * record and only the CPU that switches it in again removes it; the scheduler
 * orders the two, so finding needs no lock and taking a place one cmpxchg.
 */
#define JIFL_SAVED_BITS		14
#define JIFL_SAVED_WINDOW	16
#define JIFL_SAVED_PLACES	((1u << JIFL_SAVED_BITS) + JIFL_SAVED_WINDOW)

struct jifl_saved {
	struct jifl_lane lanes[JIFL_LANES];
};

/* Apart from the values, so that a search reads two cache lines. */
static struct task_struct **jifl_saved_task;
static struct jifl_saved *jifl_saved_value;

static void jifl_saved_put(struct task_struct *t, const struct jifl_saved *v)
{
	u32 at = hash_ptr(t, JIFL_SAVED_BITS);
	u32 end = at + JIFL_SAVED_WINDOW;
	unsigned int lane;

	for (; at < end; at++) {
		if (READ_ONCE(jifl_saved_task[at]) ||
		    cmpxchg(&jifl_saved_task[at], NULL, t))
			continue;
		jifl_saved_value[at] = *v;
		return;
	}
	for (lane = 0; lane < JIFL_LANES; lane++)
		jifl_count_miss_call(v->lanes[lane].call);
}

/* All lanes are 0 when the task has no record. */
static struct jifl_saved jifl_saved_take(struct task_struct *t)
{
	u32 at = hash_ptr(t, JIFL_SAVED_BITS);
	u32 end = at + JIFL_SAVED_WINDOW;

	for (; at < end; at++) {
		struct jifl_saved v;

		if (READ_ONCE(jifl_saved_task[at]) != t)
			continue;
		v = jifl_saved_value[at];
		/* The next owner of the place writes only after we have read. */
		smp_store_release(&jifl_saved_task[at], NULL);
		return v;
	}
	return (struct jifl_saved){};
}

/* The task dies: what its calls have counted is final. */
static void jifl_count_die(const struct jifl_saved *v)
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		u64 call = v->lanes[lane].call, count = v->lanes[lane].count;
		const struct jifl_session *s = call ? jifl_count_session(call) : NULL;

		if (!s)
			continue;
		if (READ_ONCE(jifl_count_draining))
			jifl_count_miss_call(call);	/* it may have died natively */
		else if (jifl_count_is_special(s))
			jifl_count_finish_special(call, count, true);
		else
			jifl_count_finish(call, count, true);
	}
}

static bool jifl_saved_is_empty(const struct jifl_saved *v)
{
	u64 any = 0;
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		any |= v->lanes[lane].call;
	return !any;
}

/* What a CPU records next is of the thread that comes to run there. */
static void jifl_count_mark_resumed(const struct jifl_saved *v, struct task_struct *next)
{
	unsigned int lane;

	if (!READ_ONCE(jifl_count_traces))
		return;
	for (lane = 0; lane < JIFL_LANES; lane++) {
		u64 call = v->lanes[lane].call;
		const struct jifl_session *s = call ? jifl_count_session(call) : NULL;

		if (s && s->kind == JIFL_KIND_TRACE)
			jifl_ring_mark(JIFL_RECORD_RESUME, task_pid_nr(next));
	}
}

/* sched_switch: a run queue is locked, interrupts are off. */
static void jifl_count_switch(void *data, bool preempt, struct task_struct *prev,
			      struct task_struct *next, unsigned int prev_state)
{
	struct jifl_saved *now = (struct jifl_saved *)this_cpu_ptr(jifl_cpu.lanes);

	if (JIFL_HOST_PLANTED(switch_not_saved))
		return;
	if (!jifl_saved_is_empty(now)) {
		if (preempt || !(prev_state & TASK_DEAD))
			jifl_saved_put(prev, now);
		else
			jifl_count_die(now);
	}
	/* Kernel threads make no system calls. */
	*now = next->flags & PF_KTHREAD ? (struct jifl_saved){} : jifl_saved_take(next);
	jifl_count_mark_resumed(now, next);
}

static bool jifl_count_is_exit(u64 call)
{
	return jifl_count_nr(call) == __NR_exit || jifl_count_nr(call) == __NR_exit_group;
}

/* Does the CPU run a call of s? On this CPU it is the one that asks for the session's end. */
static bool jifl_count_is_running(const struct jifl_session *s, int cpu)
{
	u64 call = READ_ONCE(per_cpu(jifl_cpu.lanes[s->lane].call, cpu));

	return call && cpu != smp_processor_id() && jifl_count_session(call) == s;
}

/* Looks without a lock: a call may come or go meanwhile. */
bool jifl_count_is_ending(const struct jifl_session *s)
{
	bool ending = false;
	u32 at;
	int cpu;

	if (!s->slot)
		return false;
	preempt_disable();
	for_each_online_cpu(cpu)
		ending |= jifl_count_is_running(s, cpu);
	preempt_enable();
	if (ending)
		return true;
	for (at = 0; at < JIFL_SAVED_PLACES; at++) {
		u64 call = READ_ONCE(jifl_saved_value[at].lanes[s->lane].call);

		if (READ_ONCE(jifl_saved_task[at]) && jifl_count_session(call) == s &&
		    jifl_count_is_exit(call))
			return true;
	}
	return false;
}

void jifl_count_lose(void)
{
	struct jifl_lane *lanes = this_cpu_ptr(jifl_cpu.lanes);
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++) {
		jifl_count_miss_call(lanes[lane].call);
		lanes[lane].call = 0;
	}
}

void jifl_count_drain_begin(void)
{
	WRITE_ONCE(jifl_count_draining, true);
}

void jifl_count_drain_end(void)
{
	WRITE_ONCE(jifl_count_draining, false);
}

/*
 * While the machine is stopped every CPU runs its stopper thread, so whatever
 * the task had in flight has been saved by jifl_count_switch.
 */
void jifl_count_cut(struct task_struct *task)
{
	struct jifl_saved v = jifl_saved_take(task);
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		jifl_count_miss_call(v.lanes[lane].call);
}

/* --- the hook -------------------------------------------------------------------- */

static struct tracepoint *jifl_count_tracepoint;

static void jifl_count_find_tracepoint(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "sched_switch"))
		jifl_count_tracepoint = tp;
}

static int jifl_count_hook(void)
{
	return JIFL_TRY(tracepoint_probe_register(jifl_count_tracepoint,
						  (void *)jifl_count_switch, NULL));
}

static void jifl_count_unhook(void)
{
	tracepoint_probe_unregister(jifl_count_tracepoint,
				    (void *)jifl_count_switch, NULL);
	tracepoint_synchronize_unregister();
}

int jifl_count_start(struct jifl_session *s)
{
	u32 slot;
	int ret;

	s->slot = 0;
	if (!jifl_count_kind(s))
		return 0;
	for (slot = 1; slot < JIFL_COUNT_SLOTS; slot++)
		if (!jifl_count_slots[slot])
			break;
	if (slot == JIFL_COUNT_SLOTS)
		return -ENOSPC;
	if (!jifl_count_users) {
		ret = jifl_count_hook();
		if (ret)
			return ret;
	}
	jifl_count_users++;
	jifl_count_slots[slot] = s;
	s->slot = slot;
	if (s->kind == JIFL_KIND_TRACE)
		WRITE_ONCE(jifl_count_traces, true);
	return 0;
}

/* What KIND_CALL has counted in shared cells becomes the session's own. */
static void jifl_count_settle(struct jifl_session *s)
{
	unsigned int nr;

	for (nr = 0; nr < JIFL_NR_MAX; nr++) {
		int cell = jifl_count_cell_of[nr] - 1;
		int cpu;

		if (!s->stats[nr] || cell < 0)
			continue;
		for_each_possible_cpu(cpu) {
			u64 *n = per_cpu_ptr(&jifl_count_cells[cell], cpu);

			s->stats[nr]->cpu[cpu]->calls += *n;
			*n = 0;
		}
	}
}

void jifl_count_stop(struct jifl_session *s)
{
	if (jifl_count_in_cells(s))
		jifl_count_settle(s);
	if (!s->slot)
		return;
	jifl_count_slots[s->slot] = NULL;
	s->slot = 0;
	/* There can be one. */
	if (s->kind == JIFL_KIND_TRACE)
		WRITE_ONCE(jifl_count_traces, false);
	if (!--jifl_count_users)
		jifl_count_unhook();
}

/* --- what is inserted ------------------------------------------------------------ */

/* The cell of a system call, or -1 when all are taken. Under jifl_entry_lock. */
static int jifl_count_cell(unsigned int nr)
{
	if (!jifl_count_cell_of[nr] && jifl_count_cells_used < JIFL_COUNT_CELLS)
		jifl_count_cell_of[nr] = ++jifl_count_cells_used;
	return jifl_count_cell_of[nr] - 1;
}

static struct ir_operand jifl_count_cell_operand(int cell)
{
	return (struct ir_operand){
		.disp = (s32)(unsigned long)&jifl_count_cells[cell],
		.gs = true,
	};
}

static void jifl_count_entry_call(struct jifl_session *s, unsigned int nr,
				  struct ir_insert *ins)
{
	int cell = jifl_count_in_cells(s) ? jifl_count_cell(nr) : -1;

	if (cell >= 0) {
		*ins = (struct ir_insert){
			.kind = IR_INSERT_ADD,
			.cell = jifl_count_cell_operand(cell),
			.imm = 1,
		};
		return;
	}
	*ins = (struct ir_insert){
		.kind = IR_INSERT_CALL,
		.fn = (unsigned long)jifl_count_begin_slow,
		.nargs = 1,
		.args = { (unsigned long)s->stats[nr] },
	};
	if (s->keys) {
		ins->fn = (unsigned long)jifl_count_begin_key;
		ins->args[ins->nargs++] = (unsigned long)s->keys;
	} else if (s->flags & JIFL_FLAGS_ARG) {
		ins->fn = (unsigned long)jifl_count_begin_arg;
		ins->args[ins->nargs++] = __ffs(s->flags & JIFL_FLAGS_ARG) - __ffs(JIFL_FLAG_ARG(0));
	}
}

static struct ir_insert jifl_count_call_of(void (*fn)(unsigned long), unsigned long arg)
{
	return (struct ir_insert){
		.kind = IR_INSERT_CALL,
		.fn = (unsigned long)fn,
		.nargs = 1,
		.args = { arg },
	};
}

/* At the exit of a call of which count is still 0. */
static struct ir_insert jifl_count_add_result(const struct jifl_session *s)
{
	return (struct ir_insert){
		.kind = IR_INSERT_ADD_REG,
		.cell = jifl_cpu_operand(lanes[s->lane].count),
		.reg = IR_RAX,
		.imm = 1,
	};
}

void jifl_count_entry(struct jifl_session *s, unsigned int nr,
		      struct ir_insert *entry, u32 *nentry,
		      struct ir_insert *exit, u32 *nexit)
{
	*nentry = 0;
	*nexit = 0;
	if (!jifl_count_kind(s)) {
		if (s->kind == JIFL_KIND_CALL)
			jifl_count_entry_call(s, nr, &entry[(*nentry)++]);
		return;
	}
	/*
	 * In this order: a task switched away between the two has its record,
	 * and the count it takes along is overwritten when it is back.
	 */
	entry[(*nentry)++] = (struct ir_insert){
		.kind = IR_INSERT_STORE,
		.cell = jifl_cpu_operand(lanes[s->lane].call),
		.imm = jifl_count_id(s, nr),
	};
	entry[(*nentry)++] = (struct ir_insert){
		.kind = IR_INSERT_STORE,
		.cell = jifl_cpu_operand(lanes[s->lane].count),
		.imm = 0,
	};
	if (s->kind == JIFL_KIND_TRACE)
		entry[(*nentry)++] = jifl_count_call_of(jifl_count_begin_trace, nr);
	if (s->flags & JIFL_FLAG_DURATION)
		entry[(*nentry)++] = jifl_count_call_of(jifl_count_begin_time, s->lane);
	if (s->flags & JIFL_FLAG_RETVAL)
		exit[(*nexit)++] = jifl_count_add_result(s);
	exit[(*nexit)++] = jifl_count_call_of(jifl_count_is_special(s) ? jifl_count_end_special :
									 jifl_count_end,
					      s->lane);
}

void jifl_count_translate_begin(struct jifl_session *s, unsigned int nr)
{
	if (s->slot)
		this_cpu_write(jifl_cpu.lanes[s->lane].call, jifl_count_id(s, nr));
}

void jifl_count_translate_end(void)
{
	unsigned int lane;

	for (lane = 0; lane < JIFL_LANES; lane++)
		this_cpu_write(jifl_cpu.lanes[lane].call, 0);
}

/* The block is new: it is the first time for the call that is running. */
static void jifl_count_attribute(struct jifl_session *s)
{
	u64 call = this_cpu_read(jifl_cpu.lanes[s->lane].call);

	if (call && jifl_count_session(call) == s)
		s->blocks[jifl_count_nr(call)]++;
}

/* What IR_INSERT_ADD does, as an analysis function. */
static void jifl_count_add(u64 __percpu *cell, u64 n)
{
	this_cpu_add(*cell, n);
}

static void jifl_count_insert(struct ir_block *b, const struct jifl_session *s, u32 n)
{
	struct ir_insert *ins = ir_block_insert(b, IR_ANYWHERE, 0);

	if (!ins)
		return;
	ins->kind = IR_INSERT_ADD;
	ins->cell = jifl_cpu_operand(lanes[s->lane].count);
	ins->imm = n;
	ins->without = (s->flags & JIFL_FLAG_NO_LIVENESS ? IR_WITHOUT_LIVENESS : 0) |
		       (s->flags & JIFL_FLAG_NO_INLINING ? IR_WITHOUT_INLINING : 0);
	if (!(s->flags & JIFL_FLAG_FUNCTION))
		return;
	ins->kind = IR_INSERT_CALL;
	ins->fn = (unsigned long)jifl_count_add;
	ins->nargs = 2;
	ins->args[0] = (u64)(s64)ins->cell.disp;
	ins->args[1] = n;
}

void jifl_count_insns(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	jifl_count_insert(b, arg, b->count);
}

/* The repetitions are what rcx loses: all of it, or what is not left. */
static void jifl_count_insert_rcx(struct ir_block *b, const struct jifl_session *s,
				  enum ir_place place, u16 at, s32 sign)
{
	struct ir_insert *ins = ir_block_insert(b, place, at);

	if (!ins)
		return;
	ins->kind = IR_INSERT_ADD_REG;
	ins->cell = jifl_cpu_operand(lanes[s->lane].count);
	ins->reg = IR_RCX;
	ins->imm = sign;
}

void jifl_count_repeats(struct ir_block *b, void *arg)
{
	u16 i;

	jifl_count_insns(b, arg);
	for (i = 0; i < b->ninsns; i++) {
		if (b->insns[i].repeat == IR_REPEAT_NONE)
			continue;
		jifl_count_insert_rcx(b, arg, IR_BEFORE, i, 1);
		if (b->insns[i].repeat == IR_REPEAT_WHILE)
			jifl_count_insert_rcx(b, arg, IR_AFTER, i, -1);
	}
}

void jifl_count_blocks(struct ir_block *b, void *arg)
{
	jifl_count_attribute(arg);
	jifl_count_insert(b, arg, 1);
}

void jifl_count_functions(struct ir_block *b, void *arg)
{
	u16 last = b->ninsns - 1;

	jifl_count_attribute(arg);
	if (jifl_ksym_starts(b->addr.v)) {
		jifl_count_insert(b, arg, 1);
		jifl_ring_insert(b, 0, (u32)b->addr.v);
	}
	if (b->insns[last].kind == IR_RET || b->insns[last].kind == IR_RET_THUNK)
		jifl_ring_insert(b, last, JIFL_RECORD_RETURN);
}

void jifl_count_profile(struct ir_block *b, void *arg)
{
	struct jifl_session *s = arg;

	jifl_count_attribute(s);
	jifl_profile_insert(s->profile, b);
}

/* --- reading --------------------------------------------------------------------- */

static void jifl_count_read_cpu(const struct jifl_stats_cpu *c, struct jifl_stat *st,
				u64 *hist)
{
	unsigned int i;

	st->calls += READ_ONCE(c->calls);
	st->no_return += READ_ONCE(c->no_return);
	st->sum += READ_ONCE(c->sum);
	st->min = min(st->min, READ_ONCE(c->min));
	st->max = max(st->max, READ_ONCE(c->max));
	for (i = 0; hist && i < JIFL_HIST_BUCKETS; i++)
		hist[i] += READ_ONCE(c->hist[i]);
}

/* What a running KIND_CALL session has in shared cells. */
static u64 jifl_count_read_cells(const struct jifl_session *s, unsigned int nr)
{
	int cell = READ_ONCE(jifl_count_cell_of[nr]) - 1;
	u64 sum = 0;
	int cpu;

	if (!jifl_count_in_cells(s) || !s->running || cell < 0)
		return 0;
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(&jifl_count_cells[cell], cpu));
	return sum;
}

int jifl_count_read(struct jifl_session *s, struct jifl_stat *st, u64 *hist)
{
	struct jifl_stats *stats;
	int cpu;

	if (st->nr >= JIFL_NR_MAX || !test_bit(st->nr, s->nrs))
		return -ENOENT;
	st->calls = 0;
	st->no_return = 0;
	st->sum = 0;
	st->min = U64_MAX;
	st->max = 0;
	st->missed = atomic64_read(&s->missed[st->nr]);
	st->blocks = READ_ONCE(s->blocks[st->nr]);
	if (hist)
		memset(hist, 0, JIFL_HIST_BUCKETS * sizeof(*hist));
	stats = READ_ONCE(s->stats[st->nr]);
	if (stats) {
		for_each_possible_cpu(cpu)
			jifl_count_read_cpu(stats->cpu[cpu], st, hist);
		st->calls += jifl_count_read_cells(s, st->nr);
	}
	if (st->min == U64_MAX)
		st->min = 0;
	return 0;
}

u64 jifl_count_calls(struct jifl_session *s)
{
	u64 calls = 0;
	unsigned int nr;

	for_each_set_bit(nr, s->nrs, JIFL_NR_MAX) {
		struct jifl_stat st = { .nr = nr };

		if (!jifl_count_read(s, &st, NULL))
			calls += st.calls;
	}
	return calls;
}

void jifl_count_free(struct jifl_session *s)
{
	unsigned int nr;

	for (nr = 0; nr < JIFL_NR_MAX; nr++) {
		jifl_stats_free(s->stats[nr]);
		s->stats[nr] = NULL;
	}
}

/* --- the file's own life ---------------------------------------------------------- */

int jifl_count_init(void)
{
	/* Reached by inserted code as a sign-extended 32-bit offset from gs. */
	if (!jifl_fits_s32((unsigned long)&jifl_count_cells) ||
	    !jifl_fits_s32((unsigned long)&jifl_cpu)) {
		pr_err("per-CPU data lies out of reach of inserted code\n");
		return -ENOMEM;
	}
	for_each_kernel_tracepoint(jifl_count_find_tracepoint, NULL);
	if (!jifl_count_tracepoint) {
		pr_err("this kernel has no tracepoint sched_switch; it needs CONFIG_TRACEPOINTS\n");
		return -EOPNOTSUPP;
	}
	jifl_stats_cache = JIFL_ALLOC(KMEM_CACHE(jifl_stats_cpu, 0));
	jifl_saved_task = JIFL_ALLOC(vcalloc(JIFL_SAVED_PLACES, sizeof(*jifl_saved_task)));
	jifl_saved_value = JIFL_ALLOC(vcalloc(JIFL_SAVED_PLACES, sizeof(*jifl_saved_value)));
	if (jifl_stats_cache && jifl_saved_task && jifl_saved_value)
		return 0;
	jifl_count_exit();
	return -ENOMEM;
}

void jifl_count_exit(void)
{
	vfree(jifl_saved_value);
	vfree(jifl_saved_task);
	kmem_cache_destroy(jifl_stats_cache);
	jifl_saved_value = NULL;
	jifl_saved_task = NULL;
	jifl_stats_cache = NULL;
}
