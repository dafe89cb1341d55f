// SPDX-License-Identifier: GPL-2.0
/*
 * Another user of the call of x64_sys_call in do_syscall_64: as long as this is loaded, the call
 * leads to jifl_redirected, which goes on to x64_sys_call. With jump=1 a jump stands in its place,
 * to jifl_jumped, which makes the call. Parameters: addresses of the kernel's symbols, of which
 * none is exported, and of the call.
 *
 * Its exit waits until no task is in jifl_redirected or jifl_jumped. x64_sys_call returns to
 * neither.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/objtool.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <asm/ibt.h>

static unsigned long call;
module_param(call, ulong, 0);
static unsigned long function;		/* x64_sys_call */
module_param(function, ulong, 0);
static unsigned long poke;		/* text_poke_bp */
module_param(poke, ulong, 0);
static unsigned long mutex;		/* text_mutex */
module_param(mutex, ulong, 0);
static bool jump;
module_param(jump, bool, 0);

void jifl_redirected(void);
void jifl_jumped(void);
unsigned long jifl_return;	/* address behind the call */
asm("	.pushsection .text, \"ax\", @progbits\n"
    "	.type jifl_redirected, @function\n"
    "	.globl jifl_redirected\n"
    "jifl_redirected:\n"
    ANNOTATE_NOENDBR
    "	.byte 0xe9\n"		/* jmp, to itself until redirect_init says where to */
    "	.long -5\n"
    "	int3\n"
    "	.size jifl_redirected, .-jifl_redirected\n"
    "	.type jifl_jumped, @function\n"
    "	.globl jifl_jumped\n"
    "jifl_jumped:\n"
    ANNOTATE_NOENDBR
    "	pushq	jifl_return(%rip)\n"
    "	.byte 0xe9\n"
    "	.long -5\n"
    "	int3\n"
    "	.size jifl_jumped, .-jifl_jumped\n"
    "	.popsection\n");
STACK_FRAME_NON_STANDARD(jifl_jumped);

static void branch(unsigned long at, u8 opcode, unsigned long target)
{
	void (*fn)(void *addr, const void *opcode, size_t len, const void *emulate) =
		(void *)poke;
	s32 rel = (s32)(target - at - 5);
	u8 insn[5] = { opcode };

	memcpy(insn + 1, &rel, sizeof(rel));
	mutex_lock((struct mutex *)mutex);
	fn((void *)at, insn, sizeof(insn), NULL);
	mutex_unlock((struct mutex *)mutex);
}

static int __init redirect_init(void)
{
	unsigned long jumped = (unsigned long)jifl_jumped;

	/* objtool wants no address in the middle of a function. */
	OPTIMIZER_HIDE_VAR(jumped);
	if (jump) {
		jifl_return = call + 5;
		/* Behind the push, which has six bytes. */
		branch(jumped + 6, 0xe9, function);
		branch(call, 0xe9, jumped);
	} else {
		branch((unsigned long)jifl_redirected, 0xe9, function);
		branch(call, 0xe8, (unsigned long)jifl_redirected);
	}
	return 0;
}
module_init(redirect_init);

static void __exit redirect_exit(void)
{
	branch(call, 0xe8, function);
	synchronize_rcu();
}
module_exit(redirect_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Redirects the call of x64_sys_call, for JIFL's tests");
