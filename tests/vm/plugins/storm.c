// SPDX-License-Identifier: GPL-2.0
/*
 * A function that all processors call all the time, in tasks, softirqs and hard interrupts, once
 * "start" has been written to /proc/storm and until "stop" is. Reading the file gives for each
 * level: its number, calls, results of the original, results of what replaces it (the original's
 * bits, inverted), results that are neither, calls that began and ended while the window was open,
 * and of these those with another result than the replacement's. "open" and "close" are written by
 * whoever knows that all calls are replaced in between.
 */
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/version.h>

/* As in modules/contexts.h: so that dumps show the bytes before the first function. */
asm(".text\n"
    "	.skip	64, 0x90\n");

#define PERIOD_NS	NSEC_PER_MSEC
#define CALLS		20
/* A timer rests for this many times what it took: a slow machine has other things to do, too. */
#define REST		8

enum { TASK, SOFTIRQ, HARDIRQ, LEVELS };
enum { MADE, ORIGINAL, REPLACED, BAD, WITHIN, LOST, RESULTS };

struct of_cpu {
	struct task_struct *thread;
	struct hrtimer hard, soft;
	u64 seed;
	u64 counts[LEVELS][RESULTS];
};

static DEFINE_MUTEX(one);
static struct of_cpu __percpu *cpus;
static bool running, stops;
static unsigned int window;	/* odd: it is open; written under `one` */

static u64 worked(u64 x)
{
	int i;

	for (i = 0; i < 3; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

static __attribute__((noipa)) u64 storm_work(u64 x)
{
	int i;

	for (i = 0; i < 3; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

static void call(unsigned int level)
{
	u64 seed, got, expected;
	int result = BAD, i;
	unsigned int before;
	bool within;

	for (i = 0; i < CALLS; i++) {
		seed = this_cpu_inc_return(cpus->seed);
		before = READ_ONCE(window);
		got = storm_work(seed);
		/* The same window: it has been open all the time. */
		within = before & 1 && READ_ONCE(window) == before;
		expected = worked(seed);
		if (got == expected)
			result = ORIGINAL;
		else if (got == ~expected)
			result = REPLACED;
		else
			result = BAD;
		this_cpu_inc(cpus->counts[level][MADE]);
		this_cpu_inc(cpus->counts[level][result]);
		if (!within)
			continue;
		this_cpu_inc(cpus->counts[level][WITHIN]);
		if (result != REPLACED)
			this_cpu_inc(cpus->counts[level][LOST]);
	}
}

static enum hrtimer_restart fire(struct hrtimer *timer, unsigned int level)
{
	const ktime_t start = ktime_get();
	ktime_t now;

	call(level);
	now = ktime_get();
	hrtimer_set_expires(timer, ktime_add_ns(now, PERIOD_NS + REST * ktime_sub(now, start)));
	return READ_ONCE(stops) ? HRTIMER_NORESTART : HRTIMER_RESTART;
}

static enum hrtimer_restart on_hard(struct hrtimer *timer)
{
	return fire(timer, HARDIRQ);
}

static enum hrtimer_restart on_soft(struct hrtimer *timer)
{
	return fire(timer, SOFTIRQ);
}

/* The timers fire on the processor where they are started. */
static int storm_thread(void *unused)
{
	struct of_cpu *own = per_cpu_ptr(cpus, raw_smp_processor_id());

	hrtimer_start(&own->hard, ns_to_ktime(PERIOD_NS), HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&own->soft, ns_to_ktime(PERIOD_NS), HRTIMER_MODE_REL_PINNED_SOFT);
	while (!kthread_should_stop()) {
		call(TASK);
		schedule_timeout_interruptible(1);
	}
	return 0;
}

static void stop(void)
{
	struct of_cpu *of;
	int cpu;

	WRITE_ONCE(stops, true);
	for_each_possible_cpu(cpu) {
		of = per_cpu_ptr(cpus, cpu);
		if (of->thread)
			kthread_stop(of->thread);
		of->thread = NULL;
		hrtimer_cancel(&of->hard);
		hrtimer_cancel(&of->soft);
	}
	running = false;
}

static int start(void)
{
	struct of_cpu *of;
	int cpu;

	WRITE_ONCE(stops, false);
	running = true;
	for_each_online_cpu(cpu) {
		of = per_cpu_ptr(cpus, cpu);
		memset(of->counts, 0, sizeof(of->counts));
		of->thread = kthread_create_on_cpu(storm_thread, NULL, cpu, "storm/%u");
		if (IS_ERR(of->thread)) {
			of->thread = NULL;
			stop();
			return -ENOMEM;
		}
	}
	for_each_online_cpu(cpu)
		wake_up_process(per_cpu_ptr(cpus, cpu)->thread);
	return 0;
}

static int storm_show(struct seq_file *s, void *unused)
{
	int cpu, level, result;

	for (level = 0; level < LEVELS; level++) {
		u64 sums[RESULTS] = {};

		for_each_possible_cpu(cpu)
			for (result = 0; result < RESULTS; result++)
				sums[result] += per_cpu_ptr(cpus, cpu)->counts[level][result];
		seq_printf(s, "%d %llu %llu %llu %llu %llu %llu\n", level, sums[MADE],
			   sums[ORIGINAL], sums[REPLACED], sums[BAD], sums[WITHIN], sums[LOST]);
	}
	return 0;
}

static int storm_open(struct inode *inode, struct file *file)
{
	return single_open(file, storm_show, NULL);
}

static ssize_t storm_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char word[8] = "";
	int err = 0;

	if (size >= sizeof(word) || copy_from_user(word, from, size))
		return -EINVAL;
	mutex_lock(&one);
	if (!strcmp(word, "start") && !running)
		err = start();
	else if (!strcmp(word, "stop") && running)
		stop();
	else if (!strcmp(word, window & 1 ? "close" : "open"))
		WRITE_ONCE(window, window + 1);
	else
		err = -EINVAL;
	mutex_unlock(&one);
	return err ?: size;
}

static const struct proc_ops storm_ops = {
	.proc_open = storm_open,
	.proc_read = seq_read,
	.proc_write = storm_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static void set_up(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *),
		   enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = fn;
#endif
}

static int __init storm_init(void)
{
	struct of_cpu *of;
	int cpu;

	cpus = alloc_percpu(struct of_cpu);
	if (!cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		of = per_cpu_ptr(cpus, cpu);
		set_up(&of->hard, on_hard, HRTIMER_MODE_REL_PINNED_HARD);
		set_up(&of->soft, on_soft, HRTIMER_MODE_REL_PINNED_SOFT);
	}
	if (proc_create("storm", 0600, NULL, &storm_ops))
		return 0;
	free_percpu(cpus);
	return -ENOMEM;
}
module_init(storm_init);

static void __exit storm_exit(void)
{
	remove_proc_entry("storm", NULL);
	if (running)
		stop();
	free_percpu(cpus);
}
module_exit(storm_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: a function that all processors call all the time");
