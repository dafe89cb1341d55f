/* SPDX-License-Identifier: GPL-2.0 */
/* The way in: x64_sys_call's direct call and the table behind it. */
#ifndef JIFL_HOST_ENTER_SYSCALL_H
#define JIFL_HOST_ENTER_SYSCALL_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

/* run/stubs.S */
extern char jifl_entry_stub[];	/* x64_sys_call's fentry calls it */
extern char jifl_entry_slow[];	/* in the entry table: ask jifl_entry_choose */

/*
 * Where a system call goes: 0 passes; otherwise an address to jump to, with
 * the stack as on entry to the system call's handler. Written under
 * jifl_entry_lock.
 */
extern u64 jifl_entry_table[JIFL_NR_MAX];
extern raw_spinlock_t jifl_entry_lock;
/* x64_sys_call past its fentry call: where jifl_entry_slow goes to let pass. */
extern u64 jifl_entry_resume;

int jifl_entry_init(void);
void jifl_entry_exit(void);
/* Hooks and unhooks x64_sys_call; nested calls count. Sleeps. */
int jifl_entry_attach(void);
void jifl_entry_detach(void);
/* Address of a system call's handler, 0 when it has none. */
u64 jifl_entry_handler(unsigned int nr);

#endif
