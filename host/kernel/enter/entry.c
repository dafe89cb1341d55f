// SPDX-License-Identifier: GPL-2.0
/*
 * The way in of system calls: do_syscall_64 calls jifl_entry_stub instead of x64_sys_call
 * (call_site.c), and the stub looks the number up in a table. The last jump is chain.c's.
 *
 * A front may stand before that: a function of the module's that the call leads to instead, and
 * that ends with a jump to where the call would have led (static call jifl_entry_next). The flight
 * recorder has one.
 *
 * The door depends neither on kernel.ftrace_enabled nor on the switch of kprobes. Tracers, probes
 * and livepatches of x64_sys_call keep working: calls that pass go through them.
 *
 * No task is inside a stub when the module is removed:
 *
 * 1. A task enters a front or a stub only by the call in do_syscall_64, or a stub by the jump of a
 *    front. jifl_entry_detach restores the kernel's own call, or has the jump lead to where that
 *    leads. When jifl_compat_poke returns, no CPU executes the redirected call or jump any more.
 * 2. Stubs, fronts and the code they call do not sleep. A task that was in a stub at that moment is
 *    running, or was preempted there. jifl_entry_exit waits for synchronize_rcu_tasks. Then each
 *    such task has slept or has been in user mode, so it has left the stub.
 * 3. Between detach and exit a task may still be in the stub. The table is empty then, because all
 *    sessions with system calls have ended, so the calls pass.
 *
 * Context: process; entry.h says which functions sleep. The stub reads the table without a lock.
 */
#include <linux/cache.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <asm/unistd.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/ksym.h"
#include "../run/stubs.h"
#include "call_site.h"
#include "chain.h"
#include "entry.h"
#include "target.h"

static_assert(JIFL_ENTRY_TABLE_SIZE == JIFL_NR_MAX);
static_assert(NR_syscalls <= JIFL_NR_MAX);

u64 jifl_entry_table[JIFL_NR_MAX] ____cacheline_aligned;
static DEFINE_RAW_SPINLOCK(jifl_entry_spinlock);

/* The target of each entry of the table. target.c says which lock guards it. */
static struct jifl_target *jifl_entry_targets[JIFL_NR_MAX];

unsigned long jifl_entry_lock(void)
{
	const unsigned long flags = jifl_own_irq_save();

	raw_spin_lock(&jifl_entry_spinlock);
	return flags;
}

void jifl_entry_unlock(unsigned long flags)
{
	raw_spin_unlock(&jifl_entry_spinlock);
	jifl_own_irq_restore(flags);
}

static struct {
	struct mutex lock;		/* what follows */
	unsigned int users;
	unsigned long front;		/* 0: none */
	unsigned long leads_to;		/* where the call leads now */
} attach = {
	.lock = __MUTEX_INITIALIZER(attach.lock),
};

static unsigned long *handlers;		/* sys_call_table */
static unsigned long no_handler;	/* entry of a number without a handler */
static unsigned long stub;		/* called instead of x64_sys_call */

static long proto_sys_call(const struct pt_regs *regs, unsigned int nr)
{
	return -ENOSYS;
}

/* The way of calls that pass: stubs.S jumps to the target of the kernel's own call. */
DEFINE_STATIC_CALL(jifl_entry_pass, proto_sys_call);
/* The way of calls behind a front. */
DEFINE_STATIC_CALL(jifl_entry_next, proto_sys_call);
/* The way of calls that the stub has counted: to x64_sys_call itself. */
DEFINE_STATIC_CALL(jifl_entry_resume, proto_sys_call);

static int choose_stub(void)
{
	stub = (unsigned long)jifl_entry_stub;
	if (jifl_call_site.target == jifl_call_site_function())
		return 0;
#ifdef JIFL_CALLS_MAY_BE_COUNTED
	stub = (unsigned long)jifl_entry_stub_counts;
	return 0;
#else
	pr_err("x64_sys_call is not called at its beginning: this kernel needs a newer JIFL\n");
	return -EOPNOTSUPP;
#endif
}

int jifl_entry_init(void)
{
	int err;

	handlers = (unsigned long *)jifl_ksym("sys_call_table");
	no_handler = jifl_ksym("__x64_sys_ni_syscall");
	if (!handlers) {
		pr_err("no sys_call_table: use a kernel that has it\n");
		return -EOPNOTSUPP;
	}
	err = jifl_call_site_init() ?: choose_stub();
	if (err)
		return err;
	attach.leads_to = jifl_call_site.target;
	static_call_update(jifl_entry_pass, (void *)jifl_call_site.target);
	static_call_update(jifl_entry_next, (void *)jifl_call_site.target);
	static_call_update(jifl_entry_resume, (void *)jifl_call_site_function());
	jifl_chain_init();
	return 0;
}

/* Step 2 in the head of this file. */
void jifl_entry_exit(void)
{
	WARN_ON(attach.users || attach.front);
	WARN_ON(memchr_inv(jifl_entry_targets, 0, sizeof(jifl_entry_targets)));
	synchronize_rcu_tasks();
	jifl_chain_exit();
}

/*
 * The call may lead to the stub for good: so it does if other code has the call, which may call the
 * stub, or restore the call of it; and if the text is not what was written.
 */
static void keep_module(const char *why)
{
	__module_get(THIS_MODULE);
	pr_err("the call of x64_sys_call %s: the module stays until the next boot\n", why);
}

/* Where fronts lead. Under attach.lock. */
static unsigned long lead_fronts(bool to_stub)
{
	const unsigned long next = to_stub ? stub : jifl_call_site.target;

	static_call_update(jifl_entry_next, (void *)next);
	return next;
}

/*
 * Has the call lead by way of this front, 0: none, and to the stub or not. Where a front stays, the
 * call stays as it is. It is looked at all the same if the stub is wanted: no call comes there if
 * somebody else has taken it from the front. Under attach.lock.
 */
static int lead(unsigned long front, bool to_stub)
{
	/* First of all: fronts that are left last, and those that come, find their way. */
	const unsigned long next = lead_fronts(to_stub), to = front ?: next;
	int err = 0;

	if (to != attach.leads_to || to_stub)
		err = jifl_call_site_change(&jifl_call_site, attach.leads_to, to);
	if (err)
		lead_fronts(attach.users);
	else
		attach.leads_to = to;
	return err;
}

/* The same, towards where it has led before. If that fails the module stays. */
static int lead_back(unsigned long front, bool to_stub)
{
	const int err = lead(front, to_stub);

	if (!err)
		return 0;
	/* So that the next change finds that it does not lead there. */
	attach.leads_to = jifl_call_site.target;
	keep_module(err == -EBUSY ? "was redirected while a session ran" : "could not be written");
	return err;
}

int jifl_entry_attach(void)
{
	int err = 0;

	mutex_lock(&attach.lock);
	if (!attach.users) {
		err = JIFL_TRY(lead(attach.front, true));
		if (err == -EIO)
			keep_module("could not be written");
	}
	if (!err && !attach.users++)
		jifl_chain_start();
	mutex_unlock(&attach.lock);

	if (err && err != -EBUSY)
		pr_err("cannot redirect the call of x64_sys_call: error %d\n", err);
	return err;
}

void jifl_entry_detach(void)
{
	mutex_lock(&attach.lock);
	if (!WARN_ON(!attach.users) && !--attach.users) {
		jifl_chain_stop();
		lead_back(attach.front, false);
	}
	mutex_unlock(&attach.lock);
}

int jifl_entry_set_front(void *function)
{
	int err;

	mutex_lock(&attach.lock);
	err = JIFL_TRY(lead((unsigned long)function, attach.users));
	if (!err)
		attach.front = (unsigned long)function;
	else if (err == -EIO)
		keep_module("could not be written");
	mutex_unlock(&attach.lock);
	return err;
}

int jifl_entry_drop_front(void)
{
	int err = 0;

	mutex_lock(&attach.lock);
	if (attach.front) {
		err = lead_back(0, attach.users);
		attach.front = 0;
	}
	mutex_unlock(&attach.lock);
	return err;
}

/* --- the kind of targets ------------------------------------------------------------ */

static u64 jifl_entry_handler(u64 nr)
{
	if (nr >= NR_syscalls || handlers[nr] == no_handler)
		return 0;
	return handlers[nr];
}

static struct jifl_target *jifl_entry_find(u64 nr, u64 address)
{
	return jifl_entry_targets[nr];
}

static int jifl_entry_add(struct jifl_target *t)
{
	t->ends_task = t->id == __NR_exit || t->id == __NR_exit_group;
	/* Pairs with the READ_ONCE where the target is entered: readers see the target filled. */
	smp_store_release(&jifl_entry_targets[t->id], t);
	return 0;
}

static void jifl_entry_drop(struct jifl_target *t)
{
	WRITE_ONCE(jifl_entry_targets[t->id], NULL);
	kfree(t);
}

static void jifl_entry_redirect(const struct jifl_target *t, u64 to)
{
	WRITE_ONCE(jifl_entry_table[t->id], to);
}

const struct jifl_target_type jifl_target_syscalls = {
	.address = jifl_entry_handler,
	.find = jifl_entry_find,
	.add = jifl_entry_add,
	.drop = jifl_entry_drop,
	.redirect = jifl_entry_redirect,
};

struct jifl_target *jifl_entry_target(unsigned int nr)
{
	return nr < JIFL_NR_MAX ? READ_ONCE(jifl_entry_targets[nr]) : NULL;
}
