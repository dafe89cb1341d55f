/* SPDX-License-Identifier: GPL-2.0 */
/* The one call of x64_sys_call, in do_syscall_64. All of it: process context; sleeps. */
#ifndef JIFL_ENTER_CALL_SITE_H
#define JIFL_ENTER_CALL_SITE_H

/* Finds it. 0, or -EOPNOTSUPP after a line in the log. */
int jifl_call_site_init(void);
/* Where the kernel's own call leads: x64_sys_call, or what counts calls in front of it. */
unsigned long jifl_call_site_target(void);
unsigned long jifl_call_site_function(void);
/*
 * Has it call stub. 0; -EBUSY after a line in the log that names whoever else has redirected it;
 * -EIO: the text is not what was written.
 */
int jifl_call_site_redirect(unsigned long stub);
/* The opposite. -EBUSY: somebody has redirected it meanwhile, and it is left alone. */
int jifl_call_site_restore(unsigned long stub);

#endif
