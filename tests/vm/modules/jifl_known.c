// SPDX-License-Identifier: GPL-2.0
/*
 * Code whose actions are known, to check the results of plugins and tools. Each read of
 * /proc/jifl_known executes the code once, and ends with -ERANGE. A write of an int, or of one
 * byte, reads it from user memory with an instruction of this module; the result of the write is
 * the value that was read.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>

/* As it stands: not cloned, not inlined. */
#define KNOWN __attribute__((noipa))

static long known_cell;

/* Two branches that are taken 100 times of 100, of which one says so, and one 99 times of 100. */
static KNOWN void known_loop(void)
{
	asm volatile("	mov	$100, %%ecx\n"
		     "1:	test	%%ecx, %%ecx\n"
		     "	.byte	0x3e, 0x75, 0x01\n"	/* jne 2f, a hint that it is taken */
		     "	nop\n"
		     "2:	test	%%ecx, %%ecx\n"
		     "	jne	3f\n"
		     "	nop\n"
		     "3:	dec	%%ecx\n"
		     "	jne	1b\n"
		     : : : "ecx", "cc");
}

/* Fails once and is tried again: it is told what it should have expected. */
static KNOWN void known_retry(void)
{
	long expected = known_cell + 1;

	asm volatile("1:	lock cmpxchg %2, %1\n"
		     "	jne	1b\n"
		     : "+a" (expected), "+m" (known_cell) : "r" (known_cell + 5) : "cc");
}

static KNOWN long known_leaf(long n)
{
	return 3 * n + 1;
}

static KNOWN long known_tail(long n)
{
	return known_leaf(n + 1);
}

static KNOWN long known_error(long n)
{
	return -ERANGE;
}

static ssize_t known_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	long n;

	known_loop();
	known_retry();
	n = known_leaf(10);		/* 31 */
	n += known_tail(20);		/* 64 */
	return known_error(n);
}

/* A bad pointer ends at a label. */
static KNOWN long known_int(const int __user *from)
{
	int value;

	if (!user_access_begin(from, sizeof(*from)))
		return -EFAULT;
	unsafe_get_user(value, from, failed);
	user_access_end();
	return value;
failed:
	user_access_end();
	return -EFAULT;
}

/* A bad pointer sets a register, behind the instruction of 2 bytes that met it. */
static KNOWN long known_byte(const u8 __user *from)
{
	long value = 0;

	__uaccess_begin_nospec();
	asm volatile("1:	movb	(%[from]), %b[value]\n"
		     "2:\n"
		     _ASM_EXTABLE_TYPE_REG(1b, 2b, EX_TYPE_EFAULT_REG, %k[value])
		     : [value] "+a" (value) : [from] "c" (from));
	__uaccess_end();
	return value;
}

static ssize_t known_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	if (size == sizeof(int))
		return known_int((const int __user *)from);
	return size == 1 ? known_byte((const u8 __user *)from) : -EINVAL;
}

static const struct proc_ops known_ops = { .proc_read = known_read, .proc_write = known_write };

static int __init known_init(void)
{
	return proc_create("jifl_known", 0666, NULL, &known_ops) ? 0 : -ENOMEM;
}
module_init(known_init);

static void __exit known_exit(void)
{
	remove_proc_entry("jifl_known", NULL);
}
module_exit(known_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Code of which is known what it does, for JIFL's tests");
