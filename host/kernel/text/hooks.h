/* SPDX-License-Identifier: GPL-2.0 */
/* ftrace callbacks that rewrite the arguments of kernel functions. */
#ifndef JIFL_HOST_HOOKS_H
#define JIFL_HOST_HOOKS_H

#include <linux/ptrace.h>
#include <linux/types.h>

/*
 * ftrace calls fn at the entry of the kernel function `name`. fn may change the argument registers
 * in regs. The hook keeps ftrace_enabled at 1 (PERMANENT). If the kernel lacks the function and
 * `required` is false, the hook is left out.
 */
struct jifl_hook {
	const char *name;
	void (*fn)(struct pt_regs *regs);
	bool required;
	/* private to hooks.c: */
	struct jifl_hook_state *state;
};
int jifl_hooks_add(struct jifl_hook *hooks, unsigned int n);
void jifl_hooks_remove(struct jifl_hook *hooks, unsigned int n);

#endif
