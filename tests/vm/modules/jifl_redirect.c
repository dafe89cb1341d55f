// SPDX-License-Identifier: GPL-2.0
/*
 * Another user of the call of x64_sys_call in do_syscall_64: as long as this is loaded, the call
 * leads to jifl_redirected, which goes on to x64_sys_call. Parameters: addresses of the kernel's
 * symbols, of which none is exported, and of the call.
 *
 * Its exit waits until no task is in jifl_redirected.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

static unsigned long call, x64_sys_call, text_poke_bp, text_mutex;
module_param(call, ulong, 0);
module_param(x64_sys_call, ulong, 0);
module_param(text_poke_bp, ulong, 0);
module_param(text_mutex, ulong, 0);

void jifl_redirected(void);
asm("	.pushsection .text, \"ax\", @progbits\n"
    "	.type jifl_redirected, @function\n"
    "	.globl jifl_redirected\n"
    "jifl_redirected:\n"
    "	.byte 0xe9\n"		/* jmp x64_sys_call */
    "	.long 0\n"
    "	int3\n"
    "	.size jifl_redirected, .-jifl_redirected\n"
    "	.popsection\n");

static void poke(unsigned long at, u8 opcode, unsigned long target)
{
	void (*fn)(void *addr, const void *opcode, size_t len, const void *emulate) =
		(void *)text_poke_bp;
	s32 rel = (s32)(target - at - 5);
	u8 insn[5] = { opcode };

	memcpy(insn + 1, &rel, sizeof(rel));
	mutex_lock((struct mutex *)text_mutex);
	fn((void *)at, insn, sizeof(insn), NULL);
	mutex_unlock((struct mutex *)text_mutex);
}

static int __init redirect_init(void)
{
	poke((unsigned long)jifl_redirected, 0xe9, x64_sys_call);
	poke(call, 0xe8, (unsigned long)jifl_redirected);
	return 0;
}
module_init(redirect_init);

static void __exit redirect_exit(void)
{
	poke(call, 0xe8, x64_sys_call);
	synchronize_rcu();
}
module_exit(redirect_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Redirects the call of x64_sys_call, for JIFL's tests");
