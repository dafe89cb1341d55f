// SPDX-License-Identifier: GPL-2.0
/*
 * probes: probes at the places that the parameter `places` names, as words
 *	FUNCTION+OFFSET:before|taken|not-taken[:seldom]
 *	FUNCTION:return[:seldom], which is a probe at each return
 * What is called at each of them says the parameter `call`:
 *	count		counts; it is inlined
 *	context		counts, and compares the registers of ARG_CONTEXT with other arguments
 *	argument	counts, and adds the first argument, at a function's beginning
 *	equal		counts where the first argument is `equal`
 *	branch		counts when the branch is taken, and keeps its target
 *	value		counts, and adds what is returned, at a return that is no jump
 *	once		counts, and stops the probe
 *	itself		counts, and calls __task_pid_nr_ns for a thread
 *	tail		does nothing but go on in `itself`
 *	other		`itself`, where the second argument asks for a process
 * Each counts as wrong what it finds wrong. With `ordered`, so does a probe whose predecessor at
 * the same place was not called before it. With `apart` each is started alone. A number that
 * is written to `stop` stops so many of the last. Reading the parameter `result` gives a line
 * for each probe: executions, sum, wrong ones, uncalled ones.
 */
#include <jifl.h>
#include <linux/moduleparam.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/slab.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

enum { MAX = 2048 };

static char *places = "", *call = "count";
module_param(places, charp, 0644);
module_param(call, charp, 0644);
static unsigned long equal;
module_param(equal, ulong, 0644);
static bool ordered, apart;
module_param(ordered, bool, 0644);
module_param(apart, bool, 0644);

static struct place {
	struct place *before;		/* at the same address; NULL: none */
	atomic64_t calls, sum, wrong;
} *all;
static probe_t *probes;
static unsigned int n;

/* --- analysis ---------------------------------------------------------------------------- */

static void count(atomic64_t *calls)
{
	atomic64_inc(calls);
}

static void check(struct place *p, bool good)
{
	if (!good)
		atomic64_inc(&p->wrong);
}

static void in_order(struct place *p)
{
	/* The other one may have been called by other CPUs meanwhile. */
	if (atomic64_inc_return(&p->calls) > atomic64_read(&p->before->calls))
		atomic64_inc(&p->wrong);
}

static noinline void context(struct place *p, const struct pt_regs *regs, struct task_struct *task,
			     unsigned long address, const struct place *self)
{
	atomic64_inc(&p->calls);
	check(p, task == current && address == probe_address(&probes[p - all]));
	check(p, self == p);
	/* On a way of a branch it is where the branch goes on. */
	check(p, regs->ip == address || probes[p - all].where & 3);
	check(p, (regs->cs & 3) == 0 && !(regs->sp & 7));
}

static void argument(struct place *p, unsigned long value, const struct pt_regs *regs)
{
	atomic64_inc(&p->calls);
	atomic64_add(value, &p->sum);
	check(p, regs->di == value);
}

static void branch(struct place *p, unsigned long taken, unsigned long target)
{
	check(p, taken < 2);
	atomic64_add(taken, &p->calls);
	if (taken)
		atomic64_set(&p->sum, target);
}

static void value(struct place *p, unsigned long returned)
{
	atomic64_inc(&p->calls);
	atomic64_add(returned, &p->sum);
}

static void once(struct place *p, probe_t *probe)
{
	atomic64_inc(&p->calls);
	probe_stop_later(probe);
}

static noinline void itself(struct place *p)
{
	atomic64_inc(&p->calls);
	check(p, __task_pid_nr_ns(current, PIDTYPE_PID, &init_pid_ns) >= 0);
}

static void tail(struct place *p)
{
	itself(p);
}

/* --- places ------------------------------------------------------------------------------ */

static int insert(struct place *p, probe_t *probe)
{
	if (ordered && p->before)
		return probe_insert_call(probe, in_order, ARG_VOID_PTR, p, ARG_END);
	if (!strncmp(call, "context", 7))
		return probe_insert_call(probe, context, ARG_VOID_PTR, p, ARG_CONTEXT, ARG_TASK,
					 ARG_INS_ADDRESS, ARG_VOID_PTR, p, ARG_END);
	if (!strncmp(call, "argument", 8))
		return probe_insert_call(probe, argument, ARG_VOID_PTR, p, ARG_REG, VALUE_ARG0,
					 ARG_CONTEXT, ARG_END);
	if (!strncmp(call, "equal", 5))
		return probe_insert_call(probe, count, IF_EQUAL, VALUE_ARG0, ARG_INT64, equal,
					 ARG_VOID_PTR, &p->calls, ARG_END);
	if (!strncmp(call, "branch", 6))
		return probe_insert_call(probe, branch, ARG_VOID_PTR, p, ARG_BRANCH_TAKEN,
					 ARG_BRANCH_TARGET, ARG_END);
	if (!strncmp(call, "value", 5) && !probe_jumps(probe))
		return probe_insert_call(probe, value, ARG_VOID_PTR, p, ARG_REG, VALUE_RETVAL,
					 ARG_END);
	if (!strncmp(call, "once", 4))
		return probe_insert_call(probe, once, ARG_VOID_PTR, p, ARG_VOID_PTR, probe,
					 ARG_END);
	if (!strncmp(call, "itself", 6))
		return probe_insert_call(probe, itself, ARG_VOID_PTR, p, ARG_END);
	if (!strncmp(call, "tail", 4))
		return probe_insert_call(probe, tail, ARG_VOID_PTR, p, ARG_END);
	if (!strncmp(call, "other", 5))
		return probe_insert_call(probe, itself, IF_EQUAL, VALUE_ARG1, ARG_INT32,
					 PIDTYPE_TGID, ARG_VOID_PTR, p, ARG_END);
	return probe_insert_call(probe, count, ARG_VOID_PTR, &p->calls, ARG_END);
}

static int add_returns(unsigned int flags, const char *function)
{
	const int found = probe_init_returns_name(&probes[n], MAX - n, flags, function);
	int ret = found < 0 ? found : 0;
	unsigned int i;

	if (found > (int)(MAX - n))
		return -E2BIG;
	for (i = n; !ret && i < n + found; i++)
		ret = insert(&all[i], &probes[i]);
	n += ret ? 0 : found;
	return ret;
}

static int add(char *word)
{
	struct place *p = &all[n];
	char *where = strchr(word, ':'), *offset = strchr(word, '+');
	unsigned long at = 0;
	unsigned int flags;

	if (!where || n == MAX)
		return -EINVAL;
	*where++ = 0;
	flags = strstr(where, ":seldom") ? PROBE_SELDOM : 0;
	flags |= !strncmp(where, "taken", 5) ? PROBE_TAKEN :
		 !strncmp(where, "not-taken", 9) ? PROBE_NOT_TAKEN : PROBE_BEFORE;
	if (offset) {
		*offset++ = 0;
		if (kstrtoul(offset, 0, &at))
			return -EINVAL;
	}
	if (!strncmp(where, "return", 6))
		return add_returns(flags & PROBE_SELDOM, word);
	if (n && ordered)
		p->before = p - 1;
	return probe_init_name(&probes[n], flags, word, at) ?: insert(p, &probes[n]) ?: (n++, 0);
}

static int add_all(void)
{
	char *words = kstrdup(places, GFP_KERNEL), *rest = words, *word;
	int ret = words ? 0 : -ENOMEM;

	while (!ret && (word = strsep(&rest, " \n")))
		if (*word)
			ret = add(word);
	kfree(words);
	return ret;
}

/* --- asking ------------------------------------------------------------------------------ */

static int result_get(char *to, const struct kernel_param *unused)
{
	unsigned int i;
	int len = 0;

	for (i = 0; i < n; i++)
		len += scnprintf(to + len, PAGE_SIZE - len, "%lld %lld %lld %lld\n",
				 atomic64_read(&all[i].calls), atomic64_read(&all[i].sum),
				 atomic64_read(&all[i].wrong), probe_uncalled(&probes[i]));
	return len;
}

static const struct kernel_param_ops result_ops = { .get = result_get };
module_param_cb(result, &result_ops, NULL, 0400);

/* So many of the last are stopped. */
static int stop_set(const char *value, const struct kernel_param *unused)
{
	unsigned int number;
	int ret = kstrtouint(value, 0, &number);

	number = min(number, n);
	return ret ?: probe_stop_all(probes + n - number, number);
}

static const struct kernel_param_ops stop_ops = { .set = stop_set };
module_param_cb(stop, &stop_ops, NULL, 0200);

static int plugin_init(void)
{
	all = kvcalloc(MAX, sizeof(*all), GFP_KERNEL);
	probes = kvcalloc(MAX, sizeof(*probes), GFP_KERNEL);
	if (all && probes)
		return 0;
	kvfree(all);
	kvfree(probes);
	return -ENOMEM;
}

/* The parameters can still be read. */
static void plugin_exit(void)
{
	n = 0;
	kvfree(all);
	kvfree(probes);
	all = NULL;
	probes = NULL;
}

static int plugin_start(void)
{
	unsigned int i;
	int ret;

	n = 0;
	memset(all, 0, MAX * sizeof(*all));
	memset(probes, 0, MAX * sizeof(*probes));
	ret = add_all();
	if (!apart)
		return ret ?: probe_start_all(probes, n);
	for (i = 0; !ret && i < n; i++)
		ret = probe_start(&probes[i]);
	return ret;
}

/* What runs is stopped by jifl. */
static void plugin_stop(void)
{
}
