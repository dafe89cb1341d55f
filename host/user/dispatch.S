/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dispatch stubs: from the code cache into the engine and back; see struct jifl_frame in engine.h.
 * They run on the stack of the interrupted code and save every register that this code may need,
 * because C code may change any register. There is one pair for code with a red zone and one pair
 * for code without.
 */
/* Bytes of the extended state that is saved: x87, SSE, AVX, AVX-512. */
#define XSTATE_MASK	0xe7
#define XSTATE_SIZE	4096
#define XSTATE_HEADER	512

	.text

	.macro	dispatch name, red_zone
	.globl	user_host_dispatch_direct\name
	.globl	user_host_dispatch_indirect\name
user_host_dispatch_direct\name:
	pushq	(%rsp)			/* room for the target */
user_host_dispatch_indirect\name:
	call	dispatch
	lea	8(%rsp), %rsp		/* exit */
	ret	$\red_zone

	/* The place at which a thread goes on after a trap: see on_trap in memory.c. */
	.globl	user_host_trap\name
user_host_trap\name:
	lea	-\red_zone(%rsp), %rsp
	push	%fs:user_host_trap_frame@tpoff + 8
	push	%fs:user_host_trap_frame@tpoff
	jmp	user_host_dispatch_indirect\name
	.endm

	dispatch _red_zone, 128
	dispatch _no_red_zone, 0

/* Calls the engine for the frame above the return address. Changes nothing else. */
dispatch:
	pushfq
	cld
	push	%rax
	push	%rcx
	push	%rdx
	push	%rbx
	push	%rbp
	push	%rsi
	push	%rdi
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, %rbx
	sub	$XSTATE_SIZE, %rsp
	and	$-64, %rsp
	cmpb	$0, user_host_has_xsave
	jne	1f
	fxsave64 (%rsp)
	jmp	2f
1:	/* xsave leaves alone parts of the header that xrstor needs to be zero. */
	xor	%eax, %eax
	lea	XSTATE_HEADER(%rsp), %rdi
	mov	$8, %ecx
	rep	stosq
	mov	$XSTATE_MASK, %eax
	xor	%edx, %edx
	xsave64	(%rsp)
2:	lea	(17 * 8)(%rbx), %rdi	/* struct jifl_frame */
	call	jifl_engine_dispatch
	cmpb	$0, user_host_has_xsave
	jne	1f
	fxrstor64 (%rsp)
	jmp	2f
1:	mov	$XSTATE_MASK, %eax
	xor	%edx, %edx
	xrstor64 (%rsp)
2:	mov	%rbx, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdi
	pop	%rsi
	pop	%rbp
	pop	%rbx
	pop	%rdx
	pop	%rcx
	pop	%rax
	popfq
	ret

/* An original ret that stands for the end of an entry piece; never executed. */
	.globl	user_host_return_site
user_host_return_site:
	ret

	.section .note.GNU-stack, "", @progbits
