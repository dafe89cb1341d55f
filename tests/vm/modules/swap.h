/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The body of jifl_swap_a and jifl_swap_b: /proc/jifl_swap holds ANSWER, which
 * stands in its code. Each is loaded where the other was.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static int swap_show(struct seq_file *f, void *v)
{
	seq_printf(f, "%d\n", ANSWER);
	return 0;
}

static int __init swap_init(void)
{
	return proc_create_single("jifl_swap", 0444, NULL, swap_show) ? 0 : -ENOMEM;
}
module_init(swap_init);

static void __exit swap_exit(void)
{
	remove_proc_entry("jifl_swap", NULL);
}
module_exit(swap_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Code that takes another's place, for JIFL's tests");
