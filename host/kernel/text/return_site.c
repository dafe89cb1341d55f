// SPDX-License-Identifier: GPL-2.0
/*
 * One return instruction of the kernel stands for the end of an entry piece, which has no original.
 * jifl_evict writes its address over a return address into an entry piece, and the unwinder's
 * hooks know an entry piece by it.
 *
 * Context: process, once at load, after text.c is ready.
 */
#include <linux/cache.h>	/* text-patching.h does not stand alone */
#include <linux/irqflags.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <asm/text-patching.h>

#include "../kernel.h"
#include "../compat/ksym.h"
#include "return_site.h"

/* The address that replaces the return address of an entry piece. */
static u64 return_site;

static bool is_thunk(u64 addr)
{
	enum jifl_cause cause;
	enum jifl_text text;

	local_irq_disable();
	text = jifl_host_classify(jifl_orig_at(addr), &cause);
	local_irq_enable();
	return text == JIFL_TEXT_THUNK;
}

/*
 * A return instruction that fits the stack, and that fits the unwinder's idea of the stack at the
 * instruction before it: `mov $-ENOSYS, %rax; ret` in __x64_sys_ni_syscall, in the form in which
 * the kernel runs returns. It is not the way out of a system call to which x64_sys_call jumped,
 * but it does the same.
 */
static u64 find_return_site(void)
{
	static const u8 mov[] = { 0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff };
	const u8 *p = (const u8 *)jifl_ksym("__x64_sys_ni_syscall");
	const u8 *end = p + 16;
	u64 target;

	if (!p)
		return 0;
	while (p < end && memcmp(p, mov, sizeof(mov)))
		p++;
	p += sizeof(mov);
	if (p >= end + sizeof(mov))
		return 0;
	if (*p == RET_INSN_OPCODE)
		return (unsigned long)p;
	target = (unsigned long)p + JMP32_INSN_SIZE + *(const s32 *)(p + 1);
	return *p == JMP32_INSN_OPCODE && is_thunk(target) ? (unsigned long)p : 0;
}

int jifl_return_site_init(void)
{
	return_site = find_return_site();
	if (return_site)
		return 0;
	pr_err("__x64_sys_ni_syscall is not as expected: this kernel needs a newer JIFL\n");
	return -EOPNOTSUPP;
}

u64 jifl_return_site(void)
{
	return return_site;
}
