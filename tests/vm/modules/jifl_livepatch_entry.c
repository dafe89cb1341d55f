// SPDX-License-Identifier: GPL-2.0
/*
 * A livepatch of the function that all system calls of 64-bit programs go through. It makes each
 * call by the kernel's table, and counts those of getuid that one process makes.
 * /sys/kernel/livepatch/jifl_livepatch_entry/enabled reverts it.
 */
#include <linux/atomic.h>
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <asm/unistd.h>

static unsigned long table;
module_param(table, ulong, 0400);
MODULE_PARM_DESC(table, "address of sys_call_table");

static int pid;
module_param(pid, int, 0400);
MODULE_PARM_DESC(pid, "whose calls of getuid are counted");

static atomic_t seen;

static int show_seen(char *to, const struct kernel_param *unused)
{
	return sysfs_emit(to, "%d\n", atomic_read(&seen));
}

static const struct kernel_param_ops seen_ops = { .get = show_seen };
module_param_cb(seen, &seen_ops, NULL, 0400);

/* do_syscall_64 has compared nr with the table's size. */
static long patched_entry(const struct pt_regs *regs, unsigned int nr)
{
	long (*const *calls)(const struct pt_regs *regs) = (void *)table;

	if (nr == __NR_getuid && task_tgid_nr(current) == pid)
		atomic_inc(&seen);
	return calls[nr](regs);
}

static struct klp_func funcs[] = {
	{ .old_name = "x64_sys_call", .new_func = patched_entry },
	{ }
};

#include "livepatch.h"

static int __init patch_init(void)
{
	return table ? klp_enable_patch(&patch) : -EINVAL;
}
module_init(patch_init);

MODULE_DESCRIPTION("A livepatch of the entry of system calls, for JIFL's tests");
