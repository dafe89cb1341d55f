// SPDX-License-Identifier: GPL-2.0
/*
 * Bottlenecks for which it is known which function and which call site make them. Each is a file
 * in /proc/jifl_slow; what a read of it does:
 *	lock	holds slow_mutex for 2 ms, asleep
 *	spin	polls for 5 ms a register that does not change
 *	walk	looks each item of a list up in the list
 *	again	fails with EAGAIN
 * and what a written number sets:
 *	thread	1: a thread of the kernel scans memory all the time; 0: it is gone
 *	timer	a timer of each millisecond computes for so many microseconds in its interrupt
 */
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>
#include <linux/version.h>

/* As it stands: not cloned, not inlined, no tail of another. */
#define KNOWN __attribute__((noipa, optimize("no-optimize-sibling-calls")))

#define ITEMS 1500

static DEFINE_MUTEX(slow_mutex);
static LIST_HEAD(slow_list);

static struct slow_item {
	struct list_head list;
	unsigned int key;
} slow_items[ITEMS];

static struct task_struct *slow_task;
static struct hrtimer slow_timer;
static unsigned int slow_timer_us;
static unsigned int slow_register, slow_sum;
static u8 slow_memory[65536];

static KNOWN void slow_update_table(void)
{
	mutex_lock(&slow_mutex);
	usleep_range(2000, 2100);
	mutex_unlock(&slow_mutex);
}

static KNOWN int slow_read_lock(void)
{
	slow_update_table();
	return 0;
}

static KNOWN int slow_poll_register(void)
{
	u64 began = ktime_get_ns();

	while (!READ_ONCE(slow_register) && ktime_get_ns() - began < 5 * NSEC_PER_MSEC)
		cpu_relax();
	return 0;
}

static KNOWN int slow_read_spin(void)
{
	return slow_poll_register();
}

static KNOWN struct slow_item *slow_find_item(unsigned int key)
{
	struct slow_item *item;

	list_for_each_entry(item, &slow_list, list)
		if (READ_ONCE(item->key) == key)
			return item;
	return NULL;
}

static KNOWN int slow_read_walk(void)
{
	unsigned int i;

	for (i = 0; i < ITEMS; i++)
		WARN_ON(!slow_find_item(i));
	return 0;
}

static KNOWN int slow_read_again(void)
{
	return -EAGAIN;
}

static KNOWN void slow_scan_memory(void)
{
	unsigned int i;

	for (i = 0; i < sizeof(slow_memory); i++)
		slow_sum += READ_ONCE(slow_memory[i]);
}

static KNOWN int slow_scan_all(void *unused)
{
	while (!kthread_should_stop()) {
		slow_scan_memory();
		/* synchronize_rcu_tasks() waits for a thread that calls cond_resched() alone. */
		cond_resched_tasks_rcu_qs();
	}
	return 0;
}

static KNOWN void slow_handle_interrupt(void)
{
	u64 began = ktime_get_ns();

	while (ktime_get_ns() - began < slow_timer_us * (u64)NSEC_PER_USEC)
		slow_sum++;
}

static KNOWN enum hrtimer_restart slow_timer_fires(struct hrtimer *timer)
{
	slow_handle_interrupt();
	if (!READ_ONCE(slow_timer_us))
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ms_to_ktime(1));
	return HRTIMER_RESTART;
}

static struct slow_file {
	const char *name;
	int (*read)(void);
} slow_files[] = {
	{ "lock", slow_read_lock }, { "spin", slow_read_spin }, { "walk", slow_read_walk },
	{ "again", slow_read_again }, { "thread" }, { "timer" },
};

static struct slow_file *slow_of(struct file *file)
{
	return pde_data(file_inode(file));
}

static ssize_t slow_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	struct slow_file *of = slow_of(file);
	int ret = of->read ? of->read() : -EINVAL;

	if (ret)
		return ret;
	return size && !put_user('x', to) ? 1 : -EFAULT;
}

static int slow_set_thread(bool on)
{
	if (on && !slow_task) {
		slow_task = kthread_run(slow_scan_all, NULL, "jifl_slow");
		if (IS_ERR(slow_task)) {
			slow_task = NULL;
			return -ENOMEM;
		}
	} else if (!on && slow_task) {
		kthread_stop(slow_task);
		slow_task = NULL;
	}
	return 0;
}

static int slow_set_timer(unsigned int us)
{
	hrtimer_cancel(&slow_timer);
	slow_timer_us = min(us, 800u);
	if (us)
		hrtimer_start(&slow_timer, ms_to_ktime(1), HRTIMER_MODE_REL_HARD);
	return 0;
}

static ssize_t slow_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	const char *name = slow_of(file)->name;
	unsigned int number;
	int ret = kstrtouint_from_user(from, size, 10, &number);

	if (!ret && !strcmp(name, "thread"))
		ret = slow_set_thread(number);
	else if (!ret && !strcmp(name, "timer"))
		ret = slow_set_timer(number);
	else if (!ret)
		ret = -EINVAL;
	return ret ?: size;
}

static const struct proc_ops slow_ops = {
	.proc_read = slow_read,
	.proc_write = slow_write,
	.proc_lseek = noop_llseek,
};

static int __init slow_init(void)
{
	struct proc_dir_entry *folder = proc_mkdir("jifl_slow", NULL);
	unsigned int i;

	if (!folder)
		return -ENOMEM;
	for (i = 0; i < ITEMS; i++) {
		slow_items[i].key = i;
		list_add_tail(&slow_items[i].list, &slow_list);
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&slow_timer, slow_timer_fires, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
#else
	hrtimer_init(&slow_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	slow_timer.function = slow_timer_fires;
#endif
	for (i = 0; i < ARRAY_SIZE(slow_files); i++) {
		struct slow_file *file = &slow_files[i];

		if (!proc_create_data(file->name, 0600, folder, &slow_ops, file)) {
			proc_remove(folder);
			return -ENOMEM;
		}
	}
	return 0;
}

static void __exit slow_exit(void)
{
	remove_proc_subtree("jifl_slow", NULL);
	slow_set_thread(false);
	slow_set_timer(0);
}

module_init(slow_init);
module_exit(slow_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: known bottlenecks");
