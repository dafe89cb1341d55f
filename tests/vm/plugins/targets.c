// SPDX-License-Identifier: GPL-2.0
/*
 * targets: functions as targets of a plugin. The parameter `target` names them. Each call's begin
 * and end are noted, and what its argument and result are; instructions and routines are counted.
 * With `calls`, the analysis function calls a function that may be a target itself. With `twice`,
 * a second target_t has the same functions.
 *
 * Stopping prints "targets: NAME VALUE ...".
 */
#include <jifl.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

static char target[100] = "fn:vfs_read";
module_param_string(target, target, sizeof(target), 0644);
static bool calls, twice;
module_param(calls, bool, 0644);
module_param(twice, bool, 0644);

static target_t functions, again;
static int generations;		/* how often the cache was emptied */
static unsigned int entries;	/* of calls, so far; for targets that one thread calls */
module_param(entries, uint, 0444);

static struct {
	atomic64_t begun[3], ended[3];	/* in tasks, softirqs, hard interrupts */
	atomic64_t zeros, insns, routines, left, others, both;
	atomic64_t callbacks, wrong, refused, stale, crossed;
} n;

/* In which generation of the cache the last call began; for targets that one thread calls. */
static int begun_in;

DEFINE_HIST(arguments, HIST_BUCKETS_MAX);
DEFINE_HIST(results, HIST_BUCKETS_MAX);

static unsigned int level(void)
{
	return in_hardirq() ? 2 : in_serving_softirq() ? 1 : 0;
}

/* --- analysis -------------------------------------------------------------------------- */

static void begin(struct task_struct *task, unsigned long argument, unsigned long address,
		  unsigned long wanted)
{
	atomic64_inc(&n.begun[level()]);
	if (task != current || address != wanted)
		atomic64_inc(&n.wrong);
	WRITE_ONCE(begun_in, generations);
	entries++;
	if (calls)
		ktime_get();
}

static void end(struct task_struct *task, unsigned long result, unsigned long address,
		unsigned long wanted, int made_in)
{
	atomic64_inc(&n.ended[level()]);
	if (task != current || address != wanted || !irqs_disabled())
		atomic64_inc(&n.wrong);
	/* What was made before the cache was emptied may be gone. */
	if (made_in != generations)
		atomic64_inc(&n.stale);
	if (READ_ONCE(begun_in) != generations)
		atomic64_inc(&n.crossed);
	if (calls)
		ktime_get();
}

static void add_one(atomic64_t *to)
{
	atomic64_inc(to);
}

static void add(atomic64_t *to, int insns)
{
	atomic64_add(insns, to);
}

/* --- instrumentation ------------------------------------------------------------------- */

static void note(int error)
{
	if (error)
		atomic64_inc(&n.refused);
}

static void at_entry(target_point_t *point, void *arg)
{
	unsigned long address = target_address(point);

	atomic64_inc(&n.callbacks);
	if (symbol_start(address) != address || syscall_nr(point) != -EINVAL)
		atomic64_inc(&n.wrong);
	note(target_insert_call(point, begin, ARG_TASK, ARG_REG, VALUE_ARG0, ARG_INS_ADDRESS,
				ARG_INT64, address, ARG_END));
	note(target_insert_hist(point, &arguments, VALUE_ARG0, ARG_END));
	note(target_insert_hist(point, &arguments, VALUE_ARG0, IF_EQUAL, VALUE_ARG0, ARG_INT64,
				-1ll, ARG_END));
}

static void at_exit(target_point_t *point, void *arg)
{
	unsigned long address = target_address(point);

	atomic64_inc(&n.callbacks);
	note(target_insert_call(point, end, ARG_TASK, ARG_REG, VALUE_RETVAL, ARG_INS_ADDRESS,
				ARG_INT64, address, ARG_INT32, generations, ARG_END));
	note(target_insert_call(point, add_one, IF_EQUAL, VALUE_RETVAL, ARG_INT32, 0, ARG_VOID_PTR,
				&n.zeros, ARG_END));
	note(target_insert_hist(point, &results, VALUE_RETVAL, ARG_END));
}

static void at_routine(routine_t *routine, void *arg)
{
	note(routine_insert_call(routine, add_one, ARG_VOID_PTR, &n.routines, ARG_END));
	note(routine_insert_exit_call(routine, add_one, ARG_VOID_PTR, &n.left, ARG_END));
}

static void at_block(bb_t *bb, void *arg)
{
	note(bb_insert_call(bb, add, ARG_VOID_PTR, &n.insns, ARG_INT32, bb_size(bb), ARG_END));
}

static void at_other_entry(target_point_t *point, void *arg)
{
	note(target_insert_call(point, add_one, ARG_VOID_PTR, &n.others, ARG_END));
}

static void at_other_exit(target_point_t *point, void *arg)
{
	note(target_insert_call(point, add_one, ARG_VOID_PTR, &n.both, ARG_END));
}

static void at_flush(void *arg)
{
	generations++;
}

/* --- its life ----------------------------------------------------------------------------- */

static int plugin_init(void)
{
	return 0;
}

static void plugin_exit(void)
{
}

static int start_again(void)
{
	int ret = target_init(&again, target);

	ret = ret ?: target_add_entry_instrumentation(&again, at_other_entry, NULL);
	ret = ret ?: target_add_exit_instrumentation(&again, at_other_exit, NULL);
	return ret ?: target_start_instrumenting(&again);
}

static int plugin_start(void)
{
	int ret;

	memset(&n, 0, sizeof(n));
	hist_clear(&arguments);
	hist_clear(&results);
	generations = 0;
	entries = 0;
	ret = target_init(&functions, target);
	ret = ret ?: target_add_entry_instrumentation(&functions, at_entry, NULL);
	ret = ret ?: target_add_exit_instrumentation(&functions, at_exit, NULL);
	ret = ret ?: target_add_routine_instrumentation(&functions, at_routine, NULL);
	ret = ret ?: target_add_bb_instrumentation(&functions, at_block, NULL);
	ret = ret ?: target_add_flush_callback(&functions, at_flush, NULL);
	ret = ret ?: target_start_instrumenting(&functions);
	return ret ?: twice ? start_again() : 0;
}

static u64 sum(const hist_t *h)
{
	unsigned int bucket;
	u64 all = 0;

	for (bucket = 0; bucket < HIST_BUCKETS_MAX; bucket++)
		all += hist_count(h, bucket);
	return all;
}

static void plugin_stop(void)
{
	u64 missed = target_missed(&functions);
	u64 by_other = twice ? target_missed(&again) : 0;

	if (twice)
		target_stop_instrumenting(&again);
	target_stop_instrumenting(&functions);
	pr_info("targets: begun_task %lld begun_softirq %lld begun_irq %lld ended_task %lld ended_softirq %lld ended_irq %lld missed %llu\n",
		atomic64_read(&n.begun[0]), atomic64_read(&n.begun[1]), atomic64_read(&n.begun[2]),
		atomic64_read(&n.ended[0]), atomic64_read(&n.ended[1]), atomic64_read(&n.ended[2]),
		missed);
	pr_info("targets: insns %lld routines %lld left %lld arguments %llu results %llu zeros %lld callbacks %lld others %lld both %lld missed_by_other %llu\n",
		atomic64_read(&n.insns), atomic64_read(&n.routines), atomic64_read(&n.left),
		sum(&arguments), sum(&results), atomic64_read(&n.zeros),
		atomic64_read(&n.callbacks), atomic64_read(&n.others), atomic64_read(&n.both),
		by_other);
	pr_info("targets: wrong %lld refused %lld stale %lld crossed %lld generations %d\n",
		atomic64_read(&n.wrong), atomic64_read(&n.refused), atomic64_read(&n.stale),
		atomic64_read(&n.crossed), generations);
	pr_info("targets: seed_bucket %llu result_zero %llu\n",
		hist_count(&arguments, 61), hist_count(&results, 0));
}
