// SPDX-License-Identifier: GPL-2.0
/*
 * A function that is called in a known context, a known number of times. A line written to
 * /proc/jifl_contexts is
 *	CONTEXT N	the context's functions are called N times; N is a multiple of FIRE
 * and the write returns when all calls have returned. Reading the file gives for each context:
 * CONTEXT, how often contexts_work, or another function, was called at the levels task, softirq and
 * hard interrupt since the last write of "reset 0", and how many results were wrong. What each
 * context calls is in the table `contexts`. Reading /proc/jifl_contexts_least gives the least that
 * one of these calls took at each level, in ticks of the time stamp counter, since "timed 1" was
 * written.
 */
#include <linux/completion.h>
#include <linux/context_tracking.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/workqueue.h>

#include "contexts.h"
#include "bare.h"
#include "work.h"
#include "idle.h"
#include "guarded.h"
#include "calls.h"
#include "cut.h"
#include "stroll.h"

/* Calls for each time that a timer, a tasklet or an interrupt comes. */
#define FIRE	10
#define PERIOD_NS	(200 * NSEC_PER_USEC)
static struct context *running;

static int run_task(struct context *context, unsigned int n)
{
	work(context, n);
	return 0;
}

static int run_preempt_off(struct context *context, unsigned int n)
{
	preempt_disable();
	work(context, n);
	preempt_enable();
	return 0;
}

static int run_bh_off(struct context *context, unsigned int n)
{
	local_bh_disable();
	work(context, n);
	local_bh_enable();
	return 0;
}

static int run_irq_off(struct context *context, unsigned int n)
{
	unsigned long flags;

	local_irq_save(flags);
	work(context, n);
	local_irq_restore(flags);
	return 0;
}

/* As idle tasks are most of the time: RCU does not watch. */
static int run_unwatched(struct context *context, unsigned int n)
{
	unsigned long flags;

	local_irq_save(flags);
	ct_idle_enter();
	work(context, n);
	ct_idle_exit();
	local_irq_restore(flags);
	return 0;
}

static DEFINE_SPINLOCK(lock);

static int run_spinlock(struct context *context, unsigned int n)
{
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	work(context, n);
	spin_unlock_irqrestore(&lock, flags);
	return 0;
}

static DECLARE_COMPLETION(done);
static unsigned int left;	/* calls, of what fires again and again */

static int thread(void *n)
{
	work(running, (unsigned long)n);
	contexts_exit(&done);
	return 0;
}

static int run_kthread(struct context *context, unsigned int n)
{
	struct task_struct *task;

	task = kthread_run(thread, (void *)(unsigned long)n, "jifl_contexts");
	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&done);
	return 0;
}

/* Calls, and says whether there are more to make. */
static bool fire(void)
{
	work(running, FIRE);
	left -= FIRE;
	if (!left)
		complete(&done);
	return left;
}

static void work_item(struct work_struct *item)
{
	if (fire())
		schedule_work(item);
}

static DECLARE_WORK(item, work_item);

static int run_work(struct context *context, unsigned int n)
{
	schedule_work(&item);
	wait_for_completion(&done);
	flush_work(&item);
	return 0;
}

static void timer_function(struct timer_list *timer)
{
	if (fire())
		mod_timer(timer, jiffies + 1);
}

static DEFINE_TIMER(timer, timer_function);

static int run_timer(struct context *context, unsigned int n)
{
	mod_timer(&timer, jiffies + 1);
	wait_for_completion(&done);
	return 0;
}

static void tasklet_function(struct tasklet_struct *tasklet)
{
	if (fire())
		tasklet_schedule(tasklet);
}

static DECLARE_TASKLET(tasklet, tasklet_function);

static int run_tasklet(struct context *context, unsigned int n)
{
	tasklet_schedule(&tasklet);
	wait_for_completion(&done);
	return 0;
}

static struct hrtimer hrtimer;

static enum hrtimer_restart hrtimer_function(struct hrtimer *timer)
{
	if (!fire())
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(PERIOD_NS));
	return HRTIMER_RESTART;
}

static int run_hrtimer(struct context *context, unsigned int n)
{
	hrtimer_start(&hrtimer, ns_to_ktime(PERIOD_NS), HRTIMER_MODE_REL_HARD);
	wait_for_completion(&done);
	hrtimer_cancel(&hrtimer);
	return 0;
}

static void irq_work_function(struct irq_work *unused)
{
	fire();
}

static DEFINE_IRQ_WORK(irq_work, irq_work_function);

static int run_irq_work(struct context *context, unsigned int n)
{
	while (n) {
		irq_work_queue(&irq_work);
		irq_work_sync(&irq_work);
		n -= FIRE;
	}
	wait_for_completion(&done);
	return 0;
}

static noinline void ipi_function(void *fired)
{
	fire();
	*(bool *)fired = true;
}

/* In an idle task ipi_function is not called: no call of that is missed then. */
static void ipi_asked(void *fired)
{
	if (in_hardirq() || num_online_cpus() == 1)
		ipi_function(fired);
}

/*
 * On another processor, which may be idle; if there is none, here, without an interrupt. An idle
 * task that polls takes the call itself, without an interrupt (flush_smp_call_function_queue). It
 * is asked again then.
 */
static int run_ipi(struct context *context, unsigned int n)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());

	if (cpu >= nr_cpu_ids)
		cpu = raw_smp_processor_id();
	while (n) {
		bool fired = false;

		smp_call_function_single(cpu, ipi_asked, &fired, 1);
		if (fired)
			n -= FIRE;
		else
			cond_resched();
	}
	wait_for_completion(&done);
	return 0;
}

/* Half the calls come in an interrupt in the middle of the other half's function. */
static KNOWN void contexts_interrupted(struct context *context)
{
	irq_work_queue(&irq_work);
	irq_work_sync(&irq_work);
	work(context, FIRE);
}

static int run_nested(struct context *context, unsigned int n)
{
	for (; n; n -= FIRE)
		contexts_interrupted(context);
	wait_for_completion(&done);
	return 0;
}

static struct context contexts[] = {
	{ "task", run_task },
	{ "preempt-off", run_preempt_off },
	{ "bh-off", run_bh_off },
	{ "irq-off", run_irq_off },
	{ "unwatched", run_unwatched },
	{ "spinlock", run_spinlock },
	{ "kthread", run_kthread },
	{ "idle", run_idle },
	{ "work", run_work },
	{ "timer", run_timer },
	{ "tasklet", run_tasklet },
	{ "hrtimer", run_hrtimer },
	{ "irq-work", run_irq_work },
	{ "ipi", run_ipi },
	{ "nested", run_nested },
	{ "many", run_many },
	{ "wide", run_wide },
	{ "recursion", run_recursion },
	{ "aside", run_aside },
	{ "tail", run_tail },
	{ "sleep", run_sleep },
	{ "steps", run_steps },
	{ "stroll", run_stroll },
	{ "slot", run_slot },
	{ "leave", run_leave },
	BARE_CONTEXTS,
	GUARDED_CONTEXTS,
	{ "slow", run_bare },
	{ "looped", run_bare },
	{ "hook", run_bare },
	{ "unhook", run_bare },
	{ "cut", run_cut },
	{ "checks", run_task, .checks = true },
	{ "checks-timer", run_timer, .checks = true },
	{ "checks-irq-work", run_irq_work, .checks = true },
	{ "checks-nested", run_nested, .checks = true },
};

static DEFINE_MUTEX(one);

static void reset(void)
{
	unsigned int i, level;

	for (i = 0; i < ARRAY_SIZE(contexts); i++) {
		for (level = 0; level < LEVELS; level++)
			atomic_long_set(&contexts[i].calls[level], 0);
		memset(contexts[i].least, 0, sizeof(contexts[i].least));
		atomic_long_set(&contexts[i].wrong, 0);
	}
}

static int run(const char *name, unsigned int n)
{
	unsigned int i;

	if (!strcmp(name, "reset")) {
		reset();
		return 0;
	}
	if (!strcmp(name, "timed")) {
		timed = n;
		return 0;
	}
	if (!n || n % FIRE)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(contexts); i++) {
		if (strcmp(contexts[i].name, name))
			continue;
		running = &contexts[i];
		left = n;
		reinit_completion(&done);
		return running->run(running, n);
	}
	return -EINVAL;
}

static ssize_t contexts_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char line[64], name[32];
	unsigned int n;
	int ret;

	if (size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	line[size] = 0;
	if (sscanf(line, "%31s %u", name, &n) != 2)
		return -EINVAL;
	mutex_lock(&one);
	fill_registers();
	ret = run(name, n);
	mutex_unlock(&one);
	return ret ?: size;
}

static int contexts_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(contexts); i++)
		seq_printf(s, "%s %ld %ld %ld %ld\n", contexts[i].name,
			   atomic_long_read(&contexts[i].calls[TASK]),
			   atomic_long_read(&contexts[i].calls[SOFTIRQ]),
			   atomic_long_read(&contexts[i].calls[HARDIRQ]),
			   atomic_long_read(&contexts[i].wrong));
	seq_printf(s, "hooked %ld 0 0 0\n", atomic_long_read(&bare_hooked));
	return 0;
}

static int contexts_show_least(struct seq_file *s, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(contexts); i++)
		seq_printf(s, "%s %llu %llu %llu\n", contexts[i].name, contexts[i].least[TASK],
			   contexts[i].least[SOFTIRQ], contexts[i].least[HARDIRQ]);
	return 0;
}

static int contexts_open(struct inode *inode, struct file *file)
{
	return single_open(file, contexts_show, NULL);
}

static const struct proc_ops contexts_ops = {
	.proc_open = contexts_open,
	.proc_read = seq_read,
	.proc_write = contexts_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init contexts_init(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&hrtimer, hrtimer_function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
#else
	hrtimer_init(&hrtimer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer.function = hrtimer_function;
#endif
	if (proc_create("jifl_contexts", 0600, NULL, &contexts_ops) &&
	    proc_create_single("jifl_contexts_least", 0400, NULL, contexts_show_least))
		return 0;
	remove_proc_subtree("jifl_contexts", NULL);
	return -ENOMEM;
}
module_init(contexts_init);

static void __exit contexts_exit_module(void)
{
	remove_proc_entry("jifl_contexts_least", NULL);
	remove_proc_entry("jifl_contexts", NULL);
	timer_delete_sync(&timer);
	tasklet_kill(&tasklet);
	irq_work_sync(&irq_work);
	irq_work_sync(&cut_work);
	tasklet_kill(&cut_tasklet);
}
module_exit(contexts_exit_module);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: a function that is called in each context");
