// SPDX-License-Identifier: GPL-2.0
/*
 * A frame that a walk of the stack leaves out. A write to /proc/jifl_guess reads a byte of what is
 * written by code for which the unwinder has no table. It guesses there that rbp is the frame
 * pointer. But rbp points at the frame of guess_outer, so that guess_inner and what called the code
 * are left out where a thread waits in the code for the byte's page. The write returns 1.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <asm/cpufeature.h>

#include "lookup.h"

/* As they stand: not cloned, not inlined, no tail of another. */
#define KNOWN __attribute__((noipa, optimize("no-optimize-sibling-calls")))

/* (address, frame): reads the byte, with the frame in rbp. */
static const u8 reads[] = {
	0xf3, 0x0f, 0x1e, 0xfa,	/* endbr64 */
	0x55,			/* push %rbp */
	0x48, 0x89, 0xf5,	/* mov %rsi,%rbp */
	0x0f, 0x01, 0xcb,	/* stac */
	0x0f, 0xb6, 0x07,	/* movzbl (%rdi),%eax */
	0x0f, 0x01, 0xca,	/* clac */
	0x5d,			/* pop %rbp */
	0xc3,			/* ret */
};

static int (*guess_code)(const char __user *from, void *frame);

static KNOWN int guess_inner(const char __user *from, void *frame)
{
	return guess_code(from, frame) + 1;
}

/* Its frame is in rbp: the compiler does so where it is asked for. */
static KNOWN int guess_outer(const char __user *from)
{
	return guess_inner(from, __builtin_frame_address(0));
}

static KNOWN ssize_t guess_write(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	return guess_outer(from);
}

static const struct proc_ops guess_ops = {
	.proc_write = guess_write,
};

static int __init guess_init(void)
{
	int (*set_x)(unsigned long addr, int pages) = find_function("set_memory_x");
	int (*set_ro)(unsigned long addr, int pages) = find_function("set_memory_ro");
	void *code = vzalloc(PAGE_SIZE);

	if (!set_x || !set_ro || !code || !boot_cpu_has(X86_FEATURE_SMAP)) {
		vfree(code);
		return -ENODEV;
	}
	memcpy(code, reads, sizeof(reads));
	set_ro((unsigned long)code, 1);
	set_x((unsigned long)code, 1);
	guess_code = code;
	proc_create("jifl_guess", 0200, NULL, &guess_ops);
	return 0;
}
module_init(guess_init);

static void __exit guess_exit(void)
{
	int (*set_nx)(unsigned long addr, int pages) = find_function("set_memory_nx");
	int (*set_rw)(unsigned long addr, int pages) = find_function("set_memory_rw");

	remove_proc_entry("jifl_guess", NULL);
	if (!set_nx || !set_rw)
		return;	/* the page is left */
	set_nx((unsigned long)guess_code, 1);
	set_rw((unsigned long)guess_code, 1);
	vfree(guess_code);
}
module_exit(guess_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("JIFL's tests: a frame that a walk of the stack leaves out");
