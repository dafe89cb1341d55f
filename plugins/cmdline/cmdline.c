// SPDX-License-Identifier: GPL-2.0
/*
 * An example for `jifl replace`: a function that replaces the one behind /proc/cmdline. It writes a
 * word and then has the original write the kernel's command line.
 *
 *	jifl replace fn:cmdline_proc_show --with cmdline.ko -- cat /proc/cmdline
 */
#include <linux/module.h>
#include <linux/seq_file.h>

#include "jifl_replace.h"

static int cmdline_proc_show(struct seq_file *m, void *v);
JIFL_ORIGINAL(show, cmdline_proc_show);

/* No call of it is in this module: the door of the kernel's function leads here. */
static __used int cmdline_proc_show(struct seq_file *m, void *v)
{
	seq_puts(m, "replaced: ");
	return jifl_original(show)(m, v);
}

static int __init cmdline_init(void)
{
	return jifl_original_init(show, "cmdline_proc_show");
}
module_init(cmdline_init);

static void __exit cmdline_exit(void)
{
	jifl_original_exit(show);
}
module_exit(cmdline_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL: replaces the function behind /proc/cmdline, as an example");
