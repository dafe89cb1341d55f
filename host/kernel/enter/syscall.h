/* SPDX-License-Identifier: GPL-2.0 */
/* The way in: the call of x64_sys_call and the table behind it. */
#ifndef JIFL_HOST_ENTER_SYSCALL_H
#define JIFL_HOST_ENTER_SYSCALL_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

/* run/stubs.S */
extern char jifl_entry_stub[];	/* do_syscall_64 calls it instead of x64_sys_call */
extern char jifl_entry_stub_counts[]; /* ... where calls are counted before functions */
extern char jifl_entry_slow[];	/* in the entry table: ask jifl_choose */

/*
 * Where a system call goes: 0 passes; otherwise an address to jump to, with
 * the stack as on entry to the system call's handler. Written under
 * jifl_entry_lock.
 */
extern u64 jifl_entry_table[JIFL_NR_MAX];
extern raw_spinlock_t jifl_entry_lock;

struct jifl_target;

int jifl_entry_init(void);
void jifl_entry_exit(void);
/*
 * Redirect the call of x64_sys_call, and put it back; nested calls count. -EBUSY: somebody else has
 * redirected it, whom a line in the log names. Sleep.
 */
int jifl_entry_attach(void);
void jifl_entry_detach(void);
/* The target of a system call's number; NULL: none. Where it is entered: any process context. */
struct jifl_target *jifl_entry_target(unsigned int nr);

#endif
