// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting for the reader of the rings (JIFL_FLAG_WAIT). A task whose call ends where the ring is
 * more than half full waits until some records are taken, so that nothing is overwritten.
 *
 * The task waits on its way back to user space (task_work_add), where it has no code of the code
 * cache on its stack and holds no lock of the kernel's. Only a signal that kills the task ends the
 * wait: signals and tracers let such work be done first (get_signal, ptrace_notify). The reader
 * may not come for ring_patience_ms, because it is stopped or needs something that a waiting task
 * has to do. Then no task waits until the reader comes.
 *
 * A call of a function may end where any lock is held: an allocator's, a run queue's. So a waiter
 * is not allocated there, but has a place in a table, at the hash of its task. A task that finds no
 * place does not wait, and records may be lost. A task has one place at most, although many of its
 * calls may end before it is on its way to user space. Until it is, it may sleep without limit. So
 * jifl_ring_wait_close takes back the work of tasks that have not come to it. Taking a place and
 * giving it back wakes nobody.
 *
 * The end of a session does not wait for tasks in places whose work it cannot take back. Such a
 * task may be about to close the file of another session, which waits for this end: work of its
 * list runs one after the other, the newest first. Its own work ends at once when it comes, as no
 * later session is waited for by it (`opened`), and reads what always exists. The module's exit
 * waits for it: then no file is open.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/task_work.h>
#include <linux/wait.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/import.h"
#include "ring.h"

static unsigned int ring_patience_ms = 1000;
module_param(ring_patience_ms, uint, 0644);
MODULE_PARM_DESC(ring_patience_ms,
		 "how long a thread waits at most for records that nobody takes, in ms (default 1000)");

struct jifl_ring_waiter {
	struct callback_head work;
	const u64 *limit;		/* the CPU's limit */
	u64 full;			/* the limit's value when the ring was full */
	u32 opened;			/* for the reader of which rings */
	struct task_struct *task;	/* in the table: whose place it is; NULL: it is free */
};

#define JIFL_RING_PLACES_BITS	9
#define JIFL_RING_WINDOW	4	/* places where a task may be, from that of its hash on */

static struct jifl_ring_waiter
jifl_ring_places[(1u << JIFL_RING_PLACES_BITS) + JIFL_RING_WINDOW];

static pid_t jifl_ring_reader;		/* 0: no task waits */
static u32 jifl_ring_opened;		/* how often there was one */
static atomic_t jifl_ring_waiters;	/* tasks about to wait, or waiting, that have no place */
static DECLARE_WAIT_QUEUE_HEAD(jifl_ring_room);
static atomic64_t jifl_ring_waits, jifl_ring_waited_ns;
static bool jifl_ring_ever_waited;

static void jifl_ring_waiter_gone(struct jifl_ring_waiter *w)
{
	if (w->task) {
		/* Pairs with the cmpxchg of the next task. */
		smp_store_release(&w->task, NULL);
		return;
	}
	kfree(w);
	if (atomic_dec_and_test(&jifl_ring_waiters))
		wake_up_all(&jifl_ring_room);
}

static bool jifl_ring_wait_is_over(const struct jifl_ring_waiter *w)
{
	return READ_ONCE(*w->limit) != w->full || !READ_ONCE(jifl_ring_reader) ||
	       READ_ONCE(jifl_ring_opened) != w->opened;
}

/*
 * As wait_event_killable_timeout(), but does not count for the load average. Returns the jiffies
 * that are left, 0 when the time is over, or -ERESTARTSYS.
 */
static long jifl_ring_wait_idle(const struct jifl_ring_waiter *w)
{
	const long patience = msecs_to_jiffies(READ_ONCE(ring_patience_ms));

	return ___wait_event(jifl_ring_room, ___wait_cond_timeout(jifl_ring_wait_is_over(w)),
			     (TASK_IDLE | TASK_WAKEKILL), 0, patience,
			     __ret = schedule_timeout(__ret));
}

/* Runs on the way back to user space. Sleeps. */
static void jifl_ring_wait_here(struct callback_head *work)
{
	struct jifl_ring_waiter *w = container_of(work, struct jifl_ring_waiter, work);
	u64 start = ktime_get_ns();
	const bool in_time = current->flags & PF_EXITING || jifl_ring_wait_idle(w);

	/* Not of a later reader's. */
	if (READ_ONCE(jifl_ring_opened) == w->opened) {
		if (!in_time)
			jifl_ring_limits_lift();
		atomic64_inc(&jifl_ring_waits);
		atomic64_add(ktime_get_ns() - start, &jifl_ring_waited_ns);
	}
	jifl_ring_waiter_gone(w);
}

static bool jifl_ring_waits_for_reader(void)
{
	return task_tgid_nr(current) != READ_ONCE(jifl_ring_reader) &&
	       !JIFL_HOST_PLANTED(rings_not_waited_for);
}

/* The waiter is counted, or has its place. */
static void jifl_ring_wait_add(struct jifl_ring_waiter *w, const u64 *limit)
{
	w->limit = limit;
	w->full = READ_ONCE(*limit);
	w->opened = READ_ONCE(jifl_ring_opened);
	init_task_work(&w->work, jifl_ring_wait_here);
	WRITE_ONCE(jifl_ring_ever_waited, true);
	/* Pairs with jifl_ring_wait_close: either it sees this waiter, or this waiter sees it. */
	smp_mb();
	if (!READ_ONCE(jifl_ring_reader) ||
	    jifl_import(task_work_add)(current, &w->work, TWA_RESUME))
		jifl_ring_waiter_gone(w);
}

void jifl_ring_wait(const u64 *limit)
{
	struct jifl_ring_waiter *w;

	if (!jifl_ring_waits_for_reader())
		return;
	w = JIFL_ALLOC(kzalloc(sizeof(*w), GFP_NOWAIT | __GFP_NOWARN));
	if (!w)
		return;
	atomic_inc(&jifl_ring_waiters);
	jifl_ring_wait_add(w, limit);
}

/* --- waiters with a place ------------------------------------------------------------ */

/* Tasks that never go to user space. Linux 6.4 gave virtual machines' workers a flag. */
#ifdef PF_USER_WORKER
#define JIFL_NEVER_IN_USER_SPACE (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)
#else
#define JIFL_NEVER_IN_USER_SPACE (PF_KTHREAD | PF_IO_WORKER)
#endif

/* A place for the current task; NULL: it has one, or none is free. */
static struct jifl_ring_waiter *jifl_ring_take_place(void)
{
	struct jifl_ring_waiter *w = &jifl_ring_places[hash_ptr(current, JIFL_RING_PLACES_BITS)];
	unsigned int i;

	for (i = 0; i < JIFL_RING_WINDOW; i++)
		if (READ_ONCE(w[i].task) == current)
			return NULL;
	for (i = 0; i < JIFL_RING_WINDOW; i++)
		if (!READ_ONCE(w[i].task) && !cmpxchg(&w[i].task, NULL, current))
			return &w[i];
	return NULL;
}

void jifl_ring_wait_in_kernel(const u64 *limit)
{
	struct jifl_ring_waiter *w;

	if (current->flags & (JIFL_NEVER_IN_USER_SPACE | PF_EXITING) ||
	    !jifl_ring_waits_for_reader())
		return;
	w = jifl_ring_take_place();
	if (w)
		jifl_ring_wait_add(w, limit);
}

static bool jifl_ring_is_work(struct callback_head *work, void *wanted)
{
	return work == wanted;
}

/*
 * Nobody takes a place any more. A task in a place has its work still, or is about to have it, or
 * has it on the list that it executes. In the first case the place is emptied. True: it is empty.
 */
static bool jifl_ring_empty_place(struct jifl_ring_waiter *w)
{
	struct task_struct *task;

	rcu_read_lock();
	/* It is in its place until exit_task_work is over. RCU keeps it from there on. */
	task = READ_ONCE(w->task);
	if (task)
		get_task_struct(task);
	rcu_read_unlock();
	if (!task)
		return true;
	if (jifl_import(task_work_cancel_match)(task, jifl_ring_is_work, &w->work))
		jifl_ring_waiter_gone(w);
	put_task_struct(task);
	return false;
}

/* --- the reader's side ---------------------------------------------------------------- */

void jifl_ring_wait_wake(void)
{
	wake_up_all(&jifl_ring_room);
}

void jifl_ring_wait_open(pid_t reader)
{
	atomic64_set(&jifl_ring_waits, 0);
	atomic64_set(&jifl_ring_waited_ns, 0);
	WRITE_ONCE(jifl_ring_opened, jifl_ring_opened + 1);
	WRITE_ONCE(jifl_ring_reader, reader);
}

void jifl_ring_wait_close(void)
{
	u32 i;

	WRITE_ONCE(jifl_ring_reader, 0);
	smp_mb();
	wake_up_all(&jifl_ring_room);
	wait_event(jifl_ring_room, !atomic_read(&jifl_ring_waiters));
	for (i = 0; i < ARRAY_SIZE(jifl_ring_places); i++)
		jifl_ring_empty_place(&jifl_ring_places[i]);
}

void jifl_ring_wait_count(u64 *waits, u64 *ns)
{
	*waits = atomic64_read(&jifl_ring_waits);
	*ns = atomic64_read(&jifl_ring_waited_ns);
}

void jifl_ring_wait_exit(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(jifl_ring_places); i++)
		while (!jifl_ring_empty_place(&jifl_ring_places[i]))
			msleep(1);
	/*
	 * A task that has waited may still have to execute an instruction or two of the module,
	 * though it is not counted any more.
	 */
	if (READ_ONCE(jifl_ring_ever_waited))
		synchronize_rcu_tasks();
}
