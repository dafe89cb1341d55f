// SPDX-License-Identifier: GPL-2.0
/*
 * The time stamp counter as it is behind a suspension that sets it back: QEMU's cannot be set. A
 * write to /proc/jifl_counter puts the time at which a recording of the module jifl stops into a
 * future that the counter does not reach.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>

#include "../../../include/uapi/jifl.h"
#include "lookup.h"

#define FAR	(1ull << 62)

static unsigned long (*lookup)(const char *name);

static ssize_t counter_write(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	/* Its first member is the recording's head. */
	struct jifl_flight_head **region = (void *)lookup("jifl:jifl_flight_region");

	if (!region || !*region || READ_ONCE((*region)->stop_at) >= FAR)
		return -ENOENT;
	WRITE_ONCE((*region)->stop_at, (*region)->stop_at + FAR);
	return n;
}

static const struct proc_ops counter_ops = {
	.proc_write = counter_write,
};

static int __init counter_init(void)
{
	lookup = find_function("kallsyms_lookup_name");
	if (!lookup)
		return -ENOENT;
	return proc_create("jifl_counter", 0200, NULL, &counter_ops) ? 0 : -ENOMEM;
}
module_init(counter_init);

static void __exit counter_exit(void)
{
	remove_proc_entry("jifl_counter", NULL);
}
module_exit(counter_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: a counter that begins anew");
