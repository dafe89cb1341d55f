// SPDX-License-Identifier: GPL-2.0
/*
 * watchpid: a probe with a condition, about one process: how many bytes its reads ask for, by
 * powers of two. Other tasks run the same code. For them the probe costs a comparison.
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

static probe_t probe;
static atomic64_t sizes[65];

/* Analysis: runs at each call of vfs_read, whose third argument is the size. */
static void count(struct task_struct *task, unsigned long size)
{
	if (task->tgid == pid)
		atomic64_inc(&sizes[fls64(size)]);
}

static int plugin_init(void)
{
	int ret = probe_init_name(&probe, PROBE_BEFORE, "vfs_read", 0);

	return ret ?: probe_insert_call(&probe, count, ARG_TASK, ARG_REG, VALUE_ARG2, ARG_END);
}

static void plugin_exit(void)
{
}

static int plugin_start(void)
{
	memset(sizes, 0, sizeof(sizes));
	return probe_start(&probe);
}

static void plugin_stop(void)
{
	unsigned int i;

	probe_stop(&probe);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		if (atomic64_read(&sizes[i]))
			pr_info("watchpid: from %llu bytes on: %lld reads\n", hist_low(i),
				atomic64_read(&sizes[i]));
}
