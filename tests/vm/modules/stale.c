// SPDX-License-Identifier: GPL-2.0
/*
 * Changes a static call on the processor that inserts this module, while a thread on another one
 * makes the call with interrupts off, 1000 times in a row. A write of a number to
 * /proc/jifl_stale returns after so many changes. See crates/jifl-vm/src/stale.rs.
 */
#include <linux/cpu.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/static_call.h>
#include <linux/uaccess.h>

#define CALLS	1000

static noinline void stale_one(unsigned long *n)
{
	*n += 1;
}

static noinline void stale_two(unsigned long *n)
{
	*n += 2;
}

DEFINE_STATIC_CALL(jifl_stale, stale_one);

static struct task_struct *caller;
static unsigned long calls;

static int call(void *unused)
{
	while (!kthread_should_stop()) {
		unsigned long flags;
		int i;

		local_irq_save(flags);
		for (i = 0; i < CALLS; i++)
			static_call(jifl_stale)(&calls);
		local_irq_restore(flags);
		cond_resched();
	}
	return 0;
}

static ssize_t stale_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	unsigned int i, n;
	int ret = kstrtouint_from_user(from, size, 0, &n);

	if (ret)
		return ret;
	for (i = 0; i < n; i++) {
		if (i % 2)
			static_call_update(jifl_stale, stale_one);
		else
			static_call_update(jifl_stale, stale_two);
		cond_resched();
	}
	return size;
}

static const struct proc_ops stale_ops = {
	.proc_write = stale_write,
};

static int __init stale_init(void)
{
	if (!proc_create("jifl_stale", 0200, NULL, &stale_ops))
		return -ENOMEM;
	caller = kthread_create(call, NULL, "jifl_stale");
	if (IS_ERR(caller)) {
		remove_proc_entry("jifl_stale", NULL);
		return PTR_ERR(caller);
	}
	kthread_bind(caller, cpumask_last(cpu_online_mask));
	wake_up_process(caller);
	return 0;
}
module_init(stale_init);

static void __exit stale_exit(void)
{
	kthread_stop(caller);
	remove_proc_entry("jifl_stale", NULL);
}
module_exit(stale_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: what the emulator may execute after it was changed");
