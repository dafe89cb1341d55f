// SPDX-License-Identifier: GPL-2.0
/*
 * Another tracer: a direct call, which counts calls (parameter `calls`), on a function of the
 * kernel (parameter `function`) as long as this module is loaded. If it cannot have the function,
 * loading fails with ftrace's error. While parameter `sleeps` is Y, who calls the function sleeps.
 */
#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/version.h>
#include <asm/ibt.h>

static char *function = "x64_sys_call";
module_param(function, charp, 0444);
MODULE_PARM_DESC(function, "what is hooked");

unsigned long jifl_direct_calls;
module_param_named(calls, jifl_direct_calls, ulong, 0444);
MODULE_PARM_DESC(calls, "of that function");

bool jifl_direct_sleeps;
module_param_named(sleeps, jifl_direct_sleeps, bool, 0644);
MODULE_PARM_DESC(sleeps, "calls do not go on");

void jifl_direct_sleep(void);
void jifl_direct_sleep(void)
{
	while (READ_ONCE(jifl_direct_sleeps))
		msleep(20);
}

void jifl_direct_trampoline(void);
asm("	.pushsection .text, \"ax\", @progbits\n"
    "	.type jifl_direct_trampoline, @function\n"
    "	.globl jifl_direct_trampoline\n"
    "jifl_direct_trampoline:\n"
    ASM_ENDBR
    "	lock incq jifl_direct_calls(%rip)\n"
    "	cmpb $0, jifl_direct_sleeps(%rip)\n"
    "	je 1f\n"
    "	push %rbp\n"
    "	mov %rsp, %rbp\n"
    "	push %rax\n"
    "	push %rdi\n"
    "	push %rsi\n"
    "	push %rdx\n"
    "	push %rcx\n"
    "	push %r8\n"
    "	push %r9\n"
    "	call jifl_direct_sleep\n"
    "	pop %r9\n"
    "	pop %r8\n"
    "	pop %rcx\n"
    "	pop %rdx\n"
    "	pop %rsi\n"
    "	pop %rdi\n"
    "	pop %rax\n"
    "	pop %rbp\n"
    "1:\n"
    ASM_RET
    "	.size jifl_direct_trampoline, .-jifl_direct_trampoline\n"
    "	.popsection\n");

static struct ftrace_ops ops;

static int __init direct_init(void)
{
	int err = ftrace_set_filter(&ops, function, strlen(function), 1);

	if (err)
		return err;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	err = register_ftrace_direct(&ops, (unsigned long)jifl_direct_trampoline);
#else
	err = register_ftrace_direct_multi(&ops, (unsigned long)jifl_direct_trampoline);
#endif
	if (err)
		ftrace_free_filter(&ops);
	return err;
}
module_init(direct_init);

static void __exit direct_exit(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	unregister_ftrace_direct(&ops, (unsigned long)jifl_direct_trampoline, true);
#else
	unregister_ftrace_direct_multi(&ops, (unsigned long)jifl_direct_trampoline);
	ftrace_free_filter(&ops);
#endif
}
module_exit(direct_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A direct call, for JIFL's tests");
