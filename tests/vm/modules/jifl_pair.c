// SPDX-License-Identifier: GPL-2.0
/*
 * Two threads, jifl_pair/1 and jifl_pair/3, which are in one function for all their lives. A number
 * N that is written to /proc/jifl_pair makes each go round a loop N times the number in its name.
 * The write returns when both have done so.
 */
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/wait.h>

struct worker {
	unsigned long share;
	unsigned long rounds;	/* 0: nothing is to be done */
	struct task_struct *task;
	wait_queue_head_t wait;
	struct completion done;
};

static struct worker workers[] = { { .share = 1 }, { .share = 3 } };

static noinline void pair_work(unsigned long rounds)
{
	while (rounds--)
		barrier();
}

static int pair_thread(void *arg)
{
	struct worker *w = arg;

	while (!kthread_should_stop()) {
		wait_event_interruptible(w->wait, READ_ONCE(w->rounds) || kthread_should_stop());
		if (!READ_ONCE(w->rounds))
			continue;
		pair_work(w->rounds * w->share);
		WRITE_ONCE(w->rounds, 0);
		complete(&w->done);
	}
	return 0;
}

static DEFINE_MUTEX(one);

static ssize_t pair_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	unsigned long rounds;
	unsigned int i;
	int ret;

	ret = kstrtoul_from_user(from, size, 10, &rounds);
	if (ret)
		return ret;
	if (!rounds)
		return -EINVAL;
	mutex_lock(&one);
	for (i = 0; i < ARRAY_SIZE(workers); i++) {
		WRITE_ONCE(workers[i].rounds, rounds);
		wake_up(&workers[i].wait);
	}
	for (i = 0; i < ARRAY_SIZE(workers); i++)
		wait_for_completion(&workers[i].done);
	mutex_unlock(&one);
	return size;
}

static const struct proc_ops pair_ops = { .proc_write = pair_write };

static void pair_stop(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(workers); i++)
		if (workers[i].task)
			kthread_stop(workers[i].task);
}

static int __init pair_init(void)
{
	struct task_struct *task;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(workers); i++) {
		init_waitqueue_head(&workers[i].wait);
		init_completion(&workers[i].done);
		task = kthread_run(pair_thread, &workers[i], "jifl_pair/%lu", workers[i].share);
		if (IS_ERR(task)) {
			pair_stop();
			return PTR_ERR(task);
		}
		workers[i].task = task;
	}
	if (proc_create("jifl_pair", 0200, NULL, &pair_ops))
		return 0;
	pair_stop();
	return -ENOMEM;
}

static void __exit pair_exit(void)
{
	remove_proc_entry("jifl_pair", NULL);
	pair_stop();
}

module_init(pair_init);
module_exit(pair_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Two threads of different amounts of work");
