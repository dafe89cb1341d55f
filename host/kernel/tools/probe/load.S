/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What compiled conditions of places call (front.c; engine/ir/terms.h says how). Each routine
 * changes rax and flags alone.
 *
 * jifl_load_N reads N bytes at rax, as jifl_peek_number does (peek.c). Addresses of the kernel's
 * half of the address space are read at once, below the page of vsyscalls. A fault leads to the
 * exception table of this module, in whatever context: a page fault of the kernel's half looks
 * there, whether page faults are disabled or not, and so does the general protection fault of an
 * address that is not canonical. All other addresses are the matter of C code.
 *
 * Context: any but NMI.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm.h>
#include <asm/ibt.h>
#include <asm/nospec-branch.h>

#include "load.h"

	.text

.macro push_registers
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
.endm

/* Leaves flags. */
.macro pop_registers
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
.endm

.macro load width, insn, to
SYM_FUNC_START(jifl_load_\width)
	ANNOTATE_NOENDBR		/* called directly */
	cmpq	$JIFL_LOAD_END, %rax
	jge	2f
1:	\insn	(%rax), \to
	RET
2:	push_registers
	pushq	%rax
	movq	%rax, %rdi
	movl	$\width, %esi
	movq	%rsp, %rdx
	pushfq				/* a read of user memory clears AC */
	call	jifl_act_load
	popfq
	testb	%al, %al
	popq	%rax
	pop_registers
	jz	3f
	RET
	/* Returns behind the instruction there, and on by what it ends with. */
3:	movq	(%rsp), %rax
	movslq	1(%rax), %rax
	leaq	5(%rax), %rax
	addq	%rax, (%rsp)
	RET
	_ASM_EXTABLE(1b, 3b)
SYM_FUNC_END(jifl_load_\width)
.endm

	load	1, movzbl, %eax
	load	2, movzwl, %eax
	load	4, movl, %eax
	load	8, movq, %rax

/* rax = what enum jifl_get in eax says */
SYM_FUNC_START_LOCAL(jifl_ask)
	push_registers
	movl	%eax, %edi
	call	jifl_act_ask
	pop_registers
	RET
SYM_FUNC_END(jifl_ask)

.macro ask what
SYM_FUNC_START(jifl_ask_\what)
	ANNOTATE_NOENDBR
	movl	$\what, %eax
	jmp	jifl_ask
SYM_FUNC_END(jifl_ask_\what)
.endm

	ask	0
	ask	1
	ask	3
	ask	4
	ask	6
