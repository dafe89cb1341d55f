/* SPDX-License-Identifier: GPL-2.0 */
/* ftrace callbacks that rewrite the arguments of kernel functions. */
#ifndef JIFL_HOST_HOOKS_H
#define JIFL_HOST_HOOKS_H

#include <linux/ptrace.h>
#include <linux/types.h>

/*
 * Calls fn when the kernel function `name` is entered; fn may change the
 * argument registers of regs. Stays while ftrace_enabled=0 (PERMANENT).
 */
struct jifl_hook {
	const char *name;
	void (*fn)(struct pt_regs *regs);
	bool required;
	/* hooks.c's own: */
	struct jifl_hook_state *state;
};
int jifl_hooks_add(struct jifl_hook *hooks, unsigned int n);
void jifl_hooks_remove(struct jifl_hook *hooks, unsigned int n);

#endif
