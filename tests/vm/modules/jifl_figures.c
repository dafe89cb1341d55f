// SPDX-License-Identifier: GPL-2.0
/*
 * Code on which the figures of the JIFL paper (plugins/figure*.c) are tried, in
 * /proc/jifl_figures.
 *
 *	a read of n bytes	executes branches with hints: for each i from n down to 1 those of
 *				figures_hints(), which say when they are taken
 *	a write of n bytes	increments a counter n times as the paper's figure 16 does. With the
 *				parameter `contend` a thread on the last processor increments it
 *				too; the write goes on until it has tried again ENOUGH times
 *
 * The parameter `retries` says how often it had to try again. The writing task must not run on the
 * last processor.
 */
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>

enum { ENOUGH = 100, TOO_MANY = 100000000 };

/* As it stands: not cloned, not inlined. */
#define KNOWN __attribute__((noipa))

static bool contend;
module_param(contend, bool, 0644);
static unsigned long retries;
module_param(retries, ulong, 0444);

/*
 * 0x3e says of the jump behind it that it is taken, 0x2e that it is not. The tests take them to be
 * in this order, with a loop's branch without hint behind them.
 */
static KNOWN void figures_hints(unsigned int n)
{
	asm volatile("1:	test	$1, %0\n"
		     "	.byte	0x3e, 0x75, 0x01\n"		/* jne: taken if i is odd */
		     "	nop\n"
		     "	test	$3, %0\n"
		     "	.byte	0x2e, 0x75, 0x01\n"		/* jne: taken unless 4 divides i */
		     "	nop\n"
		     "	test	$7, %0\n"
		     "	.byte	0x2e, 0x0f, 0x84, 0x01, 0, 0, 0\n" /* je: taken if 8 divides i */
		     "	nop\n"
		     "	cmp	$3, %0\n"
		     "	.byte	0x3e, 0x77, 0x01\n"		/* ja: taken if i is above 3 */
		     "	nop\n"
		     "	dec	%0\n"
		     "	jne	1b\n"
		     : "+r" (n) : : "cc");
}

static ssize_t figures_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	if (size)
		figures_hints(size);
	return 0;
}

static unsigned int counter;
static bool wanted, there;

/* Once, as in figure 16, with `inc` beside it: how often it was tried. */
static KNOWN unsigned long fetch_and_increment(void)
{
	unsigned long tried = 0;

	asm volatile("	mov	%[counter], %%eax\n"
		     "1:	mov	%%eax, %%edx\n"
		     "	add	$0x1, %%edx\n"
		     "	inc	%[tried]\n"
		     "	lock cmpxchg %%edx, %[counter]\n"
		     "	jne	1b\n"
		     : [counter] "+m" (counter), [tried] "+r" (tried) : : "eax", "edx", "memory",
		       "cc");
	return tried;
}

static int contender(void *unused)
{
	while (!kthread_should_stop()) {
		if (!READ_ONCE(wanted)) {
			WRITE_ONCE(there, false);
			usleep_range(100, 200);
			continue;
		}
		WRITE_ONCE(there, true);
		asm volatile("lock incl %0" : "+m" (counter));
		cond_resched();
	}
	return 0;
}

static ssize_t figures_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	const bool contended = contend;
	unsigned long done, again = 0;

	WRITE_ONCE(wanted, contended);
	while (READ_ONCE(there) != contended)
		cpu_relax();
	preempt_disable();
	for (done = 0; done < size || (contended && again < ENOUGH && done < TOO_MANY); done++)
		again += fetch_and_increment() - 1;
	preempt_enable();
	WRITE_ONCE(wanted, false);
	retries += again;
	return size;
}

/*
 * Of the name of a function of jifl_contexts, but this one has a part that the compiler puts aside:
 * contexts_work.cold. It comes with what _printk is called in.
 */
static KNOWN void contexts_work(int cpus)
{
	if (cpus < 1)
		pr_err("jifl_figures: no processor is online\n");
}

static const struct proc_ops figures_ops = { .proc_read = figures_read,
					     .proc_write = figures_write };
static struct task_struct *thread;

static int __init figures_init(void)
{
	thread = kthread_create(contender, NULL, "jifl_figures");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, num_online_cpus() - 1);
	if (!proc_create("jifl_figures", 0600, NULL, &figures_ops)) {
		kthread_stop(thread);
		return -ENOMEM;
	}
	wake_up_process(thread);
	contexts_work(num_online_cpus());
	return 0;
}
module_init(figures_init);

static void __exit figures_exit(void)
{
	remove_proc_entry("jifl_figures", NULL);
	kthread_stop(thread);
}
module_exit(figures_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Code for the JIFL paper's plugins, for JIFL's tests");
