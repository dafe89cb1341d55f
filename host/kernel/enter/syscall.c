// SPDX-License-Identifier: GPL-2.0
/*
 * The way in: a direct call from x64_sys_call's fentry site to jifl_entry_stub,
 * and the table that this looks a system call's number up in.
 *
 * All functions: process context; those that sleep say so in syscall.h. The
 * table is read by the stub without any lock.
 *
 * kernel.ftrace_enabled=0 would detach us silently. It is refused as long as a
 * permanent ftrace user is there, which the hooks of faults.c are all the
 * time.
 */
#include <linux/cache.h>
#include <linux/ftrace.h>
#include <linux/kallsyms.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <asm/text-patching.h>
#include <asm/unistd.h>

#include "../kernel.h"
#include "../plant.h"
#include "../compat/compat.h"
#include "../compat/ksym.h"
#include "../run/stubs.h"
#include "syscall.h"

static_assert(JIFL_ENTRY_TABLE_SIZE == JIFL_NR_MAX);
static_assert(NR_syscalls <= JIFL_NR_MAX);

u64 jifl_entry_table[JIFL_NR_MAX] ____cacheline_aligned;
DEFINE_RAW_SPINLOCK(jifl_entry_lock);
u64 jifl_entry_resume;

static struct {
	struct mutex lock;		/* what follows */
	struct ftrace_ops ops;
	unsigned int users;
} attach = {
	.lock = __MUTEX_INITIALIZER(attach.lock),
};

static unsigned long *handlers;		/* sys_call_table */
static unsigned long no_handler;	/* what stands there for a number without one */

static unsigned long proto_find_direct(unsigned long ip)
{
	return 0;
}

DEFINE_STATIC_CALL(jifl_find_direct, proto_find_direct);

int jifl_entry_init(void)
{
	unsigned long site = jifl_ksym_fentry(jifl_ksym("x64_sys_call"));
	unsigned long find_direct = jifl_ksym("ftrace_find_rec_direct");
	int err;

	handlers = (unsigned long *)jifl_ksym("sys_call_table");
	no_handler = jifl_ksym("__x64_sys_ni_syscall");
	if (!site || !handlers) {
		pr_err("no %s: use a kernel that has it\n",
		       site ? "sys_call_table" : "fentry site in x64_sys_call");
		return -EOPNOTSUPP;
	}
	if (find_direct)
		static_call_update(jifl_find_direct, (void *)find_direct);
	jifl_entry_resume = site + CALL_INSN_SIZE;

	err = ftrace_set_filter_ip(&attach.ops, site, 0, 0);
	if (err)
		pr_err("cannot hook x64_sys_call: error %d\n", err);
	return err;
}

void jifl_entry_exit(void)
{
	WARN_ON(attach.users);
	ftrace_free_filter(&attach.ops);
}

/* One line that says who has x64_sys_call, as far as can be known. */
static void name_owner(void)
{
	unsigned long owner = static_call(jifl_find_direct)(jifl_entry_resume - CALL_INSN_SIZE);
	char name[KSYM_SYMBOL_LEN] = "";

	if (owner)
		sprint_symbol(name, owner);
	/* Without a symbol that is its address, which the log must not hold. */
	if (!owner || !strncmp(name, "0x", 2)) {
		pr_err("x64_sys_call is taken by a livepatch or another user that redirects it: remove that first\n");
		return;
	}
	pr_err("x64_sys_call is taken by %s: detach that first\n", name);
}

int jifl_entry_attach(void)
{
	int err = 0;

	mutex_lock(&attach.lock);
	if (!attach.users)
		err = JIFL_TRY(jifl_compat_direct_register(&attach.ops,
							   (unsigned long)jifl_entry_stub));
	if (!err)
		attach.users++;
	mutex_unlock(&attach.lock);

	if (err == -EBUSY)
		name_owner();
	else if (err)
		pr_err("cannot attach to x64_sys_call: error %d\n", err);
	return err;
}

void jifl_entry_detach(void)
{
	mutex_lock(&attach.lock);
	if (!WARN_ON(!attach.users) && !--attach.users)
		WARN_ON(jifl_compat_direct_unregister(&attach.ops,
						      (unsigned long)jifl_entry_stub));
	mutex_unlock(&attach.lock);
}

u64 jifl_entry_handler(unsigned int nr)
{
	if (nr >= NR_syscalls || handlers[nr] == no_handler)
		return 0;
	return handlers[nr];
}
