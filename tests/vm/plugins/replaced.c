// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that replace those of jifl_contexts (modules/contexts.h) and of storm.c. Reading
 * /proc/replaced gives for each of them how often it was called at the levels task, softirq and
 * hard interrupt, and how many calls are inside. "go" written there lets sleepers go on, "wait" has
 * later ones sleep. A thread of the module's own is inside all the time, and ends when it goes.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "jifl_replace.h"

/* As in modules/contexts.h: so that dumps show the bytes before the first function. */
asm(".text\n"
    "	.skip	64, 0x90\n");

#define REPLACES	__attribute__((noipa, used))

enum { TASK, SOFTIRQ, HARDIRQ, LEVELS };

static struct tally {
	const char *name;
	atomic_long_t calls[LEVELS];
	atomic_long_t inside;
} work = { "work" }, again = { "again" }, sleeps = { "sleeps" }, runs = { "runs" },
  storm = { "storm" };

static struct tally *const tallies[] = { &work, &again, &sleeps, &runs, &storm };
static DECLARE_WAIT_QUEUE_HEAD(queue);
static bool waits;

static void count(struct tally *t)
{
	atomic_long_inc(&t->calls[in_hardirq() ? HARDIRQ :
				  in_serving_softirq() ? SOFTIRQ : TASK]);
}

/* What contexts_work gives. */
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

/* All results are others than those of the original. */
static REPLACES u64 contexts_work(u64 seed)
{
	count(&work);
	return ~worked(seed);
}

/* The same for the function of storm.c. */
static REPLACES u64 storm_work(u64 seed)
{
	count(&storm);
	return ~worked(seed);
}

static u64 replaced_again(u64 seed);
JIFL_ORIGINAL(work, replaced_again);

/* The same by a call of the original. */
static REPLACES u64 replaced_again(u64 seed)
{
	count(&again);
	return ~jifl_original(work)(seed);
}

/* Sleeps in a function that it jumps to: its own frame is gone. */
static __attribute__((noipa)) u64 sleep_on(u64 seed)
{
	wait_event_idle(queue, !READ_ONCE(waits));
	atomic_long_dec(&sleeps.inside);
	return ~worked(seed);
}

static REPLACES u64 replaced_sleep(u64 seed)
{
	count(&sleeps);
	atomic_long_inc(&sleeps.inside);
	return sleep_on(seed);
}

/* Runs all the time meanwhile, and lets others run by itself, as RCU tasks wants it. */
static REPLACES u64 replaced_run(u64 seed)
{
	count(&runs);
	atomic_long_inc(&runs.inside);
	while (READ_ONCE(waits))
		yield();
	atomic_long_dec(&runs.inside);
	return ~worked(seed);
}

/* Of other types than what it could replace. */
static REPLACES int replaced_other(struct seq_file *s, u32 seed)
{
	return seed;
}

static struct task_struct *own;

static int replaced_thread(void *unused)
{
	set_current_state(TASK_IDLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_IDLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int replaced_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tallies); i++)
		seq_printf(s, "%s %ld %ld %ld %ld\n", tallies[i]->name,
			   atomic_long_read(&tallies[i]->calls[TASK]),
			   atomic_long_read(&tallies[i]->calls[SOFTIRQ]),
			   atomic_long_read(&tallies[i]->calls[HARDIRQ]),
			   atomic_long_read(&tallies[i]->inside));
	return 0;
}

static int replaced_open(struct inode *inode, struct file *file)
{
	return single_open(file, replaced_show, NULL);
}

static ssize_t replaced_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char word[8] = "";

	if (size >= sizeof(word) || copy_from_user(word, from, size))
		return -EINVAL;
	WRITE_ONCE(waits, !strcmp(word, "wait"));
	wake_up_all(&queue);
	return size;
}

static const struct proc_ops replaced_ops = {
	.proc_open = replaced_open,
	.proc_read = seq_read,
	.proc_write = replaced_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init replaced_init(void)
{
	int err = jifl_original_init(work, "jifl_contexts:contexts_work");

	if (err)
		return err;
	own = kthread_run(replaced_thread, NULL, "replaced");
	if (!IS_ERR(own) && proc_create("replaced", 0600, NULL, &replaced_ops))
		return 0;
	if (!IS_ERR(own))
		kthread_stop(own);
	jifl_original_exit(work);
	return -ENOMEM;
}
module_init(replaced_init);

static void __exit replaced_exit(void)
{
	remove_proc_entry("replaced", NULL);
	kthread_stop(own);
	jifl_original_exit(work);
}
module_exit(replaced_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: functions that replace others");
