/* SPDX-License-Identifier: GPL-2.0 */
/* The one call of x64_sys_call, in do_syscall_64. All functions: process context; they sleep. */
#ifndef JIFL_ENTER_CALL_SITE_H
#define JIFL_ENTER_CALL_SITE_H

/* Finds the call. 0; -EOPNOTSUPP after a line in the log. */
int jifl_call_site_init(void);
/* Target of the kernel's own call: x64_sys_call, or the padding before it, which counts calls. */
unsigned long jifl_call_site_target(void);
unsigned long jifl_call_site_function(void);
/*
 * Has the call lead to stub. 0; -EBUSY: somebody else has redirected the call, and a line in the
 * log names the target; -EIO: the text is not what was written, so nobody knows where the call
 * leads.
 */
int jifl_call_site_redirect(unsigned long stub);
/* Restores the kernel's own call. -EBUSY: somebody else has redirected it; it stays so. */
int jifl_call_site_restore(unsigned long stub);

#endif
