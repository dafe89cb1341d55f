// SPDX-License-Identifier: GPL-2.0
/*
 * Makes QEMU keep a breakpoint that is not in memory any more: see crates/jifl-vm/src/stale.rs.
 * A write to /proc/jifl_stale puts a breakpoint over an instruction of this module and removes it,
 * again and again, as many times as the number says, while a thread on the last processor executes
 * the instruction with interrupts off. The write returns when the thread has not passed the
 * instruction for STUCK_MS although the breakpoint is gone, and the thread has passed it after all.
 * It fails with -ENODATA if that never happened. Breakpoints that are taken are skipped if they are
 * in memory, and executed again if not, as kernels before 6.3 do it themselves.
 */
#include <linux/cpumask.h>
#include <linux/kdebug.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#define INT3		0xcc
#define NOP5		0x0f	/* the first byte of five */
#define NOP5_SIZE	5
#define BATCH		1000
#define STUCK_MS	1500	/* less than `jifl vm` takes to find it */

extern u8 stale_place[];
static u8 *alias;		/* the same byte, writable */
static unsigned long passed;
static struct task_struct *task;

static __attribute__((noipa)) void stale_pass(void)
{
	asm volatile("stale_place:\n"
		     "	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00\n" : : : "memory");
	WRITE_ONCE(passed, passed + 1);
}

static int pass(void *unused)
{
	while (!kthread_should_stop()) {
		unsigned long flags;
		int i;

		local_irq_save(flags);
		for (i = 0; i < BATCH; i++)
			stale_pass();
		local_irq_restore(flags);
		cond_resched();
	}
	return 0;
}

static int taken(struct notifier_block *block, unsigned long event, void *data)
{
	struct pt_regs *regs = ((struct die_args *)data)->regs;

	if (event != DIE_INT3 || regs->ip != (unsigned long)stale_place + 1)
		return NOTIFY_DONE;
	regs->ip += READ_ONCE(*alias) == INT3 ? NOP5_SIZE - 1 : -1;
	return NOTIFY_STOP;
}

static struct notifier_block notifier = { .notifier_call = taken, .priority = INT_MAX };

/* Says whether the thread has passed the instruction by then. */
static bool passes(unsigned int ms)
{
	const unsigned long before = READ_ONCE(passed);
	const u64 end = ktime_get_ns() + ms * (u64)NSEC_PER_MSEC;

	do {
		/* Twice: the first may have begun when there was a breakpoint. */
		if (READ_ONCE(passed) - before > 1)
			return true;
		cpu_relax();
	} while (ktime_get_ns() < end);
	return false;
}

static ssize_t stale_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	unsigned int i, n;
	int ret = kstrtouint_from_user(from, size, 0, &n);

	if (ret)
		return ret;
	for (i = 0; i < n; i++) {
		WRITE_ONCE(*alias, INT3);
		passes(STUCK_MS);
		WRITE_ONCE(*alias, NOP5);
		if (passes(STUCK_MS))
			continue;
		pr_info("change %u: a breakpoint that is not there is executed\n", i);
		while (!passes(STUCK_MS))
			if (fatal_signal_pending(current))
				return -EINTR;
		return size;
	}
	return -ENODATA;
}

static const struct proc_ops stale_ops = {
	.proc_write = stale_write,
};

static int __init stale_init(void)
{
	struct page *page = vmalloc_to_page(stale_place);
	void *mapped = vmap(&page, 1, VM_MAP, PAGE_KERNEL);

	if (!mapped)
		return -ENOMEM;
	alias = mapped + offset_in_page(stale_place);
	task = kthread_create(pass, NULL, "jifl_stale");
	if (IS_ERR(task)) {
		vunmap(mapped);
		return PTR_ERR(task);
	}
	register_die_notifier(&notifier);
	kthread_bind(task, cpumask_last(cpu_online_mask));
	wake_up_process(task);
	proc_create("jifl_stale", 0200, NULL, &stale_ops);
	return 0;
}
module_init(stale_init);

static void __exit stale_exit(void)
{
	remove_proc_entry("jifl_stale", NULL);
	kthread_stop(task);
	unregister_die_notifier(&notifier);
	vunmap((void *)((unsigned long)alias & PAGE_MASK));
}
module_exit(stale_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: a breakpoint that the emulator executes although it is gone");
