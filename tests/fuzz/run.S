/* SPDX-License-Identifier: GPL-2.0 */
/* See state.h. Offsets are those of struct fuzz_state. */
#define FLAGS	(16 * 8)
#define XSTATE	192

	.text
	.globl	fuzz_run, fuzz_leave
fuzz_run:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, saved_rsp
	mov	%rdi, saved_state
	mov	%rsi, code
	mov	fuzz_components, %eax
	xor	%edx, %edx
	xrstor64 XSTATE(%rdi)
	mov	(4 * 8)(%rdi), %rsp
	pushq	FLAGS(%rdi)
	popfq
	mov	(0 * 8)(%rdi), %rax
	mov	(1 * 8)(%rdi), %rcx
	mov	(2 * 8)(%rdi), %rdx
	mov	(3 * 8)(%rdi), %rbx
	mov	(5 * 8)(%rdi), %rbp
	mov	(6 * 8)(%rdi), %rsi
	.irp	n, 8, 9, 10, 11, 12, 13, 14, 15
	mov	(\n * 8)(%rdi), %r\n
	.endr
	mov	(7 * 8)(%rdi), %rdi
	call	*code
	mov	%rdi, saved_rdi
	mov	saved_state, %rdi
	mov	%rax, (0 * 8)(%rdi)
	mov	%rcx, (1 * 8)(%rdi)
	mov	%rdx, (2 * 8)(%rdi)
	mov	%rbx, (3 * 8)(%rdi)
	mov	%rsp, (4 * 8)(%rdi)
	mov	%rbp, (5 * 8)(%rdi)
	mov	%rsi, (6 * 8)(%rdi)
	.irp	n, 8, 9, 10, 11, 12, 13, 14, 15
	mov	%r\n, (\n * 8)(%rdi)
	.endr
	mov	saved_rdi, %rax
	mov	%rax, (7 * 8)(%rdi)
	mov	saved_rsp, %rsp
	mov	fuzz_components, %eax
	xor	%edx, %edx
	xsave64	XSTATE(%rdi)
fuzz_leave:
	cld
	mov	saved_rsp, %rsp
	/* As C expects to find it. */
	fninit
	vzeroupper
	ldmxcsr	mxcsr
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret

	.data
mxcsr:	.long	0x1f80

	.bss
	.balign	8
saved_rsp: .quad 0
saved_state: .quad 0
saved_rdi: .quad 0
code:	.quad	0
	.section .note.GNU-stack, "", @progbits
