// SPDX-License-Identifier: GPL-2.0
/*
 * A livepatch: /proc/cmdline holds "patched" instead of the command line.
 * /sys/kernel/livepatch/jifl_livepatch/enabled reverts it.
 */
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/seq_file.h>

static int patched_show(struct seq_file *f, void *v)
{
	seq_puts(f, "patched\n");
	return 0;
}

static struct klp_func funcs[] = {
	{ .old_name = "cmdline_proc_show", .new_func = patched_show },
	{ }
};

#include "livepatch.h"

static int __init patch_init(void)
{
	return klp_enable_patch(&patch);
}
module_init(patch_init);

MODULE_DESCRIPTION("A livepatch, for JIFL's tests");
