// SPDX-License-Identifier: GPL-2.0
/*
 * watchpid: probes with a condition, about one process: how many bytes its reads ask for, by
 * powers of two, and how many of its reads fail. Other tasks run the same code. For them a probe
 * costs a comparison.
 *
 *	echo $$ > /sys/module/watchpid/parameters/pid
 *	jifl start watchpid; ...; jifl stop watchpid; dmesg
 *
 * The condition is a part of the function. The function is inlined, so it stands in the copy of
 * vfs_read as a few instructions.
 */
#include <jifl.h>
#include <linux/bitops.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

#undef pr_fmt
#define pr_fmt(fmt) fmt

static int pid;
module_param(pid, int, 0644);
MODULE_PARM_DESC(pid, "the process");

#define RETURNS	16

/* At the beginning of vfs_read, and behind that at all its returns. */
static probe_t probes[1 + RETURNS];
static unsigned int nprobes;
static atomic64_t sizes[65], failed;

/* Analysis: runs at each call of vfs_read, whose third argument is the size. */
static void count(struct task_struct *task, unsigned long size)
{
	if (task->tgid == pid)
		atomic64_inc(&sizes[fls64(size)]);
}

/* At each return, with the result. */
static void result(struct task_struct *task, long ret)
{
	if (task->tgid == pid && ret < 0)
		atomic64_inc(&failed);
}

/* Another function returns for vfs_read: the result is not known. */
static void jump(void)
{
}

static int plugin_init(void)
{
	int i, found, ret = probe_init_name(&probes[0], PROBE_BEFORE, "vfs_read", 0);

	ret = ret ?: probe_insert_call(&probes[0], count, ARG_TASK, ARG_REG, VALUE_ARG2, ARG_END);
	if (ret)
		return ret;
	found = probe_init_returns_name(&probes[1], RETURNS, 0, "vfs_read");
	if (found < 0 || found > RETURNS)
		return found < 0 ? found : -E2BIG;
	nprobes = 1 + found;
	for (i = 1; !ret && i <= found; i++)
		ret = probe_jumps(&probes[i]) ? probe_insert_call(&probes[i], jump, ARG_END) :
		      probe_insert_call(&probes[i], result, ARG_TASK, ARG_REG, VALUE_RETVAL,
					ARG_END);
	return ret;
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	memset(sizes, 0, sizeof(sizes));
	atomic64_set(&failed, 0);
	return probe_start_all(probes, nprobes);
}

static void plugin_stop(void)
{
	unsigned int i;

	probe_stop_all(probes, nprobes);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		if (atomic64_read(&sizes[i]))
			pr_info("watchpid: from %llu bytes on: %lld reads\n", hist_low(i),
				atomic64_read(&sizes[i]));
	pr_info("watchpid: %lld of its reads failed\n", atomic64_read(&failed));
}
