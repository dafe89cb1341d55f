/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Direct calls in the kernel's own text that lead elsewhere for a while: the one call of
 * x64_sys_call, in do_syscall_64, and others. All functions: process context; they sleep.
 */
#ifndef JIFL_ENTER_CALL_SITE_H
#define JIFL_ENTER_CALL_SITE_H

#include <linux/types.h>

struct jifl_call_site {
	u8 *call;		/* the instruction; NULL: not found */
	unsigned long target;	/* of the kernel's own call */
};

/*
 * Finds a direct call of a function in another one. Returns how many there are; the site is that of
 * the last one. Its target is the function, or the padding before it, which counts calls.
 */
unsigned int jifl_call_site_find(struct jifl_call_site *site, unsigned long caller,
				 unsigned long function);
/*
 * Has the call lead from one address to another; if they are the same, only looks at where it
 * leads. 0; -EBUSY: it does not lead to the first, because somebody else has redirected it, and a
 * line in the log names the target; -EIO: the text is not what was written, so nobody knows where
 * the call leads.
 */
int jifl_call_site_change(const struct jifl_call_site *site, unsigned long from, unsigned long to);

/* Finds the call of x64_sys_call. 0; -EOPNOTSUPP after a line in the log. First of all. */
int jifl_call_site_init(void);
/* It. Its target is x64_sys_call, or the padding before it. */
extern struct jifl_call_site jifl_call_site;
unsigned long jifl_call_site_function(void);

#endif
