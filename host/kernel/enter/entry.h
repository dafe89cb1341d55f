/* SPDX-License-Identifier: GPL-2.0 */
/* The way in: the call of x64_sys_call and the table behind it. */
#ifndef JIFL_HOST_ENTER_SYSCALL_H
#define JIFL_HOST_ENTER_SYSCALL_H

#include <linux/static_call_types.h>
#include <linux/types.h>
#include "../../../include/uapi/jifl.h"

/* run/stubs.S */
extern char jifl_entry_stub[];	/* do_syscall_64 calls it instead of x64_sys_call */
extern char jifl_entry_stub_counts[]; /* the same, if calls are counted before functions */
extern char jifl_entry_slow[];	/* in the entry table: ask jifl_choose */

struct pt_regs;

/* Where a front leads: as x64_sys_call. */
DECLARE_STATIC_CALL(jifl_entry_next, long(const struct pt_regs *regs, unsigned int nr));

/*
 * By the call's number, the address to jump to, with the stack as on entry to the system call's
 * handler. 0: the call passes. Written under jifl_entry_lock.
 */
extern u64 jifl_entry_table[JIFL_NR_MAX];

/*
 * jifl_entry_lock guards the entry table and all that says where a door leads. Interrupts are off
 * while it is held. Any context but NMI.
 */
unsigned long jifl_entry_lock(void);
void jifl_entry_unlock(unsigned long flags);

struct jifl_target;

int jifl_entry_init(void);
void jifl_entry_exit(void);
/*
 * attach redirects the call of x64_sys_call, the last detach restores it: both nest. -EBUSY:
 * somebody else has redirected it; a line in the log names the target. Both sleep.
 */
int jifl_entry_attach(void);
void jifl_entry_detach(void);
/*
 * Has the call lead to that function, which gets and returns what x64_sys_call does, and ends with
 * a jump to static_call(jifl_entry_next). There is one at a time. The second function has it lead
 * there no more. 0; as attach, or -EIO; the second has kept the module then, and so has the first
 * with -EIO: the call may lead to the front for good. Both sleep.
 */
int jifl_entry_set_front(void *function);
int jifl_entry_drop_front(void);
/* The target with this number; NULL: none. Where the target is entered: any process context. */
struct jifl_target *jifl_entry_target(unsigned int nr);

#endif
