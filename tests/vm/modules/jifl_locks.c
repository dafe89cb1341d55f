// SPDX-License-Identifier: GPL-2.0
/*
 * Locks for which it is known how often and how long tasks wait. A line written to
 * /proc/jifl_locks is
 *	KIND MS N	a lock is taken N times, each while a thread on another processor
 *			holds it, for MS ms more; MS 0: while no thread holds it
 *	cmpxchg 0 N	a cmpxchg is tried N times in vain before it succeeds; another fails N times
 *			and is not tried again
 * Reading the file gives for each kind: KIND; how often tasks waited for it; how long taking it
 * lasted, in nanoseconds, all together and at most; and how long it was held after a waiter was
 * seen to wait, all together and at most. The wait is between the two durations. The writing task
 * must not run on the last processor.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/osq_lock.h>
#include <linux/percpu-rwsem.h>
#include <linux/proc_fs.h>
#include <linux/rtmutex.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/version.h>

/* As it stands: not cloned, not inlined, no tail of another. */
#define KNOWN __attribute__((noipa, optimize("no-optimize-sibling-calls")))

static DEFINE_SPINLOCK(known_spinlock);
static DEFINE_RWLOCK(known_rwlock);
static DEFINE_MUTEX(known_mutex);
static DECLARE_RWSEM(known_rwsem);
static struct semaphore known_semaphore;
static DEFINE_RT_MUTEX(known_rt_mutex);
DEFINE_STATIC_PERCPU_RWSEM(known_percpu_rwsem);

/* A function for each lock: `jifl lock` names it as the taker of the lock. */
#define TAKE(name, call) static KNOWN void name(void) { call; }

TAKE(take_spinlock, spin_lock(&known_spinlock))
TAKE(give_spinlock, spin_unlock(&known_spinlock))
TAKE(take_rwlock_read, read_lock(&known_rwlock))
TAKE(give_rwlock_read, read_unlock(&known_rwlock))
TAKE(take_rwlock_write, write_lock(&known_rwlock))
TAKE(give_rwlock_write, write_unlock(&known_rwlock))
TAKE(take_mutex, mutex_lock(&known_mutex))
TAKE(give_mutex, mutex_unlock(&known_mutex))
TAKE(take_rwsem_read, down_read(&known_rwsem))
TAKE(give_rwsem_read, up_read(&known_rwsem))
TAKE(take_rwsem_write, down_write(&known_rwsem))
TAKE(give_rwsem_write, up_write(&known_rwsem))
TAKE(take_semaphore, down(&known_semaphore))
TAKE(give_semaphore, up(&known_semaphore))
TAKE(take_rt_mutex, rt_mutex_lock(&known_rt_mutex))
TAKE(give_rt_mutex, rt_mutex_unlock(&known_rt_mutex))
TAKE(take_percpu_read, percpu_down_read(&known_percpu_rwsem))
TAKE(give_percpu_read, percpu_up_read(&known_percpu_rwsem))
TAKE(take_percpu_write, percpu_down_write(&known_percpu_rwsem))
TAKE(give_percpu_write, percpu_up_write(&known_percpu_rwsem))

/* Whether somebody is seen to wait, so in the lock's slow path. */
#define WAITED_FOR(name, condition) static bool name(void) { return condition; }

WAITED_FOR(rwlock_waited_for, arch_spin_is_locked(&known_rwlock.raw_lock.wait_lock))
/* MUTEX_FLAG_WAITERS of kernel/locking/mutex.h */
WAITED_FOR(mutex_waited_for, atomic_long_read(&known_mutex.owner) & 1)
WAITED_FOR(mutex_spun_for, osq_is_locked(&known_mutex.osq) || mutex_waited_for())
WAITED_FOR(rwsem_waited_for, rwsem_is_contended(&known_rwsem))
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0)
WAITED_FOR(semaphore_waited_for, READ_ONCE(known_semaphore.first_waiter))
#else
WAITED_FOR(semaphore_waited_for, !list_empty_careful(&known_semaphore.wait_list))
#endif
WAITED_FOR(rt_mutex_waited_for, !RB_EMPTY_ROOT(&known_rt_mutex.rtmutex.waiters.rb_root))
WAITED_FOR(percpu_waited_for, waitqueue_active(&known_percpu_rwsem.waiters))

/* A thread that waits for the read-write lock first waits, as a part of that, for its spinlock. */
static void hold_nested(void)
{
	take_rwlock_write();
	arch_spin_lock(&known_rwlock.raw_lock.wait_lock);
}

static void release_nested(void);
static void release_semaphore(void);

static struct kind {
	const char *name;
	void (*take)(void), (*give)(void);
	void (*hold)(void), (*release)(void);	/* what the other thread does */
	bool (*waited_for)(void);		/* none: it cannot be seen */
	bool sleeps;				/* the other thread, while it has it */
	u64 waits, ns, max, kept, kept_max;
} kinds[] = {
	{ "spinlock", take_spinlock, give_spinlock, take_spinlock, give_spinlock },
	{ "rwlock:R", take_rwlock_read, give_rwlock_read, take_rwlock_write, give_rwlock_write,
	  rwlock_waited_for },
	{ "rwlock:W", take_rwlock_write, give_rwlock_write, take_rwlock_write, give_rwlock_write,
	  rwlock_waited_for },
	{ "mutex", take_mutex, give_mutex, take_mutex, give_mutex, mutex_waited_for, true },
	{ "rwsem:R", take_rwsem_read, give_rwsem_read, take_rwsem_write, give_rwsem_write,
	  rwsem_waited_for, true },
	{ "rwsem:W", take_rwsem_write, give_rwsem_write, take_rwsem_write, give_rwsem_write,
	  rwsem_waited_for, true },
	{ "semaphore", take_semaphore, give_semaphore, take_semaphore, release_semaphore,
	  semaphore_waited_for, true },
	{ "rt-mutex", take_rt_mutex, give_rt_mutex, take_rt_mutex, give_rt_mutex,
	  rt_mutex_waited_for, true },
	{ "pcpu-sem", take_percpu_read, give_percpu_read, take_percpu_write, give_percpu_write,
	  percpu_waited_for, true },
	/* Whose holder runs is waited for without sleeping. */
	{ "mutex-spin", take_mutex, give_mutex, take_mutex, give_mutex, mutex_spun_for },
	{ "nested", take_rwlock_write, give_rwlock_write, hold_nested, release_nested },
};

static struct task_struct *holder;
static struct kind *wanted;		/* by the writing task; NULL again when released */
static unsigned int wanted_ms;
static int waiter_cpu;
static bool held, coming;

static void spin(unsigned int ms)
{
	u64 began = ktime_get_ns();

	while (ktime_get_ns() - began < ms * (u64)NSEC_PER_MSEC)
		cpu_relax();
}

static void nothing(void *unused)
{
}

/* Between two interrupts of its processor the waiter runs, whatever the host does with that. */
static void let_waiter_run(int interrupts)
{
	int i;

	for (i = 0; i < interrupts; i++) {
		smp_call_function_single(waiter_cpu, nothing, NULL, 1);
		udelay(50);
	}
}

/* A spinlock of a guest, which has no queue (virt_spin_lock), shows nobody that waits. */
static void await_coming(void)
{
	while (!smp_load_acquire(&coming))
		cpu_relax();
	let_waiter_run(300);
}

static void release_nested(void)
{
	arch_spin_unlock(&known_rwlock.raw_lock.wait_lock);
	/* Only now is the one within over; its end is noted some instructions later. */
	while (!arch_spin_is_locked(&known_rwlock.raw_lock.wait_lock))
		cpu_relax();
	let_waiter_run(20);
	spin(wanted_ms);
	give_rwlock_write();
}

static void give_semaphore_here(void *unused)
{
	give_semaphore();
}

/*
 * up() wakes the waiter with the semaphore's spinlock still held, and the waiter takes that, too:
 * it would wait for it if it ran at once. On its own processor it cannot, before up() is over.
 */
static void release_semaphore(void)
{
	smp_call_function_single(waiter_cpu, give_semaphore_here, NULL, 1);
}

static void keep(struct kind *kind)
{
	u64 seen;

	if (!kind->waited_for)
		await_coming();
	while (kind->waited_for && !kind->waited_for())
		if (kind->sleeps)
			usleep_range(100, 200);
		else
			cpu_relax();
	seen = ktime_get_ns();
	if (kind->sleeps)
		msleep(wanted_ms);
	else
		spin(wanted_ms);
	seen = ktime_get_ns() - seen;
	kind->kept += seen;
	kind->kept_max = max(kind->kept_max, seen);
}

static int hold(void *unused)
{
	struct kind *kind;

	while (!kthread_should_stop()) {
		kind = smp_load_acquire(&wanted);
		if (!kind) {
			usleep_range(500, 1000);
			continue;
		}
		kind->hold();
		smp_store_release(&held, true);
		keep(kind);
		kind->release();
		smp_store_release(&wanted, NULL);
	}
	return 0;
}

static void wait_once(struct kind *kind, unsigned int ms)
{
	u64 began;

	wanted_ms = ms;
	held = coming = false;
	smp_store_release(&wanted, kind);
	while (!smp_load_acquire(&held))
		usleep_range(100, 200);
	waiter_cpu = raw_smp_processor_id();
	smp_store_release(&coming, true);
	began = ktime_get_ns();
	kind->take();
	began = ktime_get_ns() - began;
	kind->give();
	kind->waits++;
	kind->ns += began;
	kind->max = max(kind->max, began);
	while (smp_load_acquire(&wanted))
		usleep_range(100, 200);
}

static atomic_t known_cell;

static KNOWN void retry_cell(unsigned int n)
{
	int seen = atomic_read(&known_cell);

	do {
		if (n) {
			n--;
			seen--;
		}
	} while (!atomic_try_cmpxchg(&known_cell, &seen, seen + 1));
}

/* Of this cmpxchg the old value is compared, not the flag. */
static KNOWN void retry_cell_compared(unsigned int n)
{
	int seen, found = atomic_read(&known_cell);

	do {
		seen = found;
		if (n) {
			n--;
			seen--;
		}
		asm volatile("lock cmpxchg %2, %1"
			     : "=a" (found), "+m" (known_cell.counter)
			     : "r" (seen + 1), "0" (seen) : "memory", "cc");
	} while (found != seen);
}

static KNOWN bool fail_cell(void)
{
	int seen = atomic_read(&known_cell) - 1;

	return atomic_try_cmpxchg(&known_cell, &seen, 0);
}

static void fail_often(unsigned int n)
{
	while (n--)
		WARN_ON(fail_cell());
}

static int wait_often(const char *name, unsigned int ms, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kinds[i].name, name))
			continue;
		for (; n; n--) {
			if (ms) {
				wait_once(&kinds[i], ms);
				continue;
			}
			kinds[i].take();
			kinds[i].give();
		}
		return 0;
	}
	return -EINVAL;
}

static ssize_t locks_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char line[64], name[32];
	unsigned int ms, n;
	int ret = 0;

	if (size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	line[size] = 0;
	if (sscanf(line, "%31s %u %u", name, &ms, &n) != 3)
		return -EINVAL;
	if (!strcmp(name, "cmpxchg")) {
		retry_cell(n);
		retry_cell_compared(n);
		fail_often(n);
	} else {
		ret = wait_often(name, ms, n);
	}
	return ret ?: size;
}

static int locks_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		seq_printf(s, "%s %llu %llu %llu %llu %llu\n", kinds[i].name, kinds[i].waits,
			   kinds[i].ns, kinds[i].max, kinds[i].kept, kinds[i].kept_max);
	return 0;
}

static int locks_open(struct inode *inode, struct file *file)
{
	return single_open(file, locks_show, NULL);
}

static const struct proc_ops locks_ops = {
	.proc_open = locks_open,
	.proc_read = seq_read,
	.proc_write = locks_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init locks_init(void)
{
	sema_init(&known_semaphore, 1);
	holder = kthread_create(hold, NULL, "jifl_locks");
	if (IS_ERR(holder))
		return PTR_ERR(holder);
	kthread_bind(holder, num_online_cpus() - 1);
	if (!proc_create("jifl_locks", 0600, NULL, &locks_ops)) {
		kthread_stop(holder);
		return -ENOMEM;
	}
	wake_up_process(holder);
	return 0;
}

static void __exit locks_exit(void)
{
	remove_proc_entry("jifl_locks", NULL);
	kthread_stop(holder);
}

module_init(locks_init);
module_exit(locks_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: locks that are waited for");
