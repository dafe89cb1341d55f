/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forms of a door and of a lookup's end, each in a chain of five functions that ends in a sixth:
 * the handler, which the door leads away from. form_NAME(n) calls the chain n times (n > 0).
 *
 * What a form does is between the fifth function and the handler's body. All else is alike, so
 * that times and counts differ by the form alone. Marks (marks.h) are around the calls: they are
 * nops without the plugin.
 *
 * A comment behind each form says how many returns of one call are mispredicted. Every chain has
 * six returns of its own.
 */
#include "marks.h"

	.macro mark value
	.byte	0x0f, 0x1f, 0x84, 0x00
	.long	\value
	.endm

/* The functions above the door: the fifth calls \site. */
	.macro chain name, site
	.globl	form_\name
	.p2align 6
form_\name:
	push	%rbx
	mov	%edi, %ebx
	mark	MARK_BEGIN_ALL
1:	call	first_\name
	dec	%ebx
	jnz	1b
	mark	MARK_END
	pop	%rbx
	ret
first_\name:
	call	second_\name
	ret
second_\name:
	call	third_\name
	ret
third_\name:
	call	fourth_\name
	ret
fourth_\name:
	call	fifth_\name
	ret
fifth_\name:
	call	\site
	ret
	.p2align 6
	.endm

	.text

/* No door: 0. */
	chain	plain, handler_plain
handler_plain:
	nopl	0(%rax,%rax,1)
	ret

/* The handler's entry calls a stub, which drops its return address and goes on: 6. */
	chain	call_dropped, handler_call_dropped
handler_call_dropped:
	call	stub_call_dropped
	ret
	.p2align 6
stub_call_dropped:
	lea	8(%rsp), %rsp
	jmp	body_call_dropped
	.p2align 6
body_call_dropped:
	ret

/* The handler's entry jumps to a stub: 0. */
	chain	jump, handler_jump
handler_jump:
	jmp	stub_jump
	.p2align 6
stub_jump:
	jmp	body_jump
	.p2align 6
body_jump:
	ret

/* The call in the fifth function goes to a stub, which lets the call pass with one jump: 0. */
	chain	call_retargeted, stub_call_retargeted
stub_call_retargeted:
	jmp	handler_call_retargeted
	.p2align 6
handler_call_retargeted:
	nopl	0(%rax,%rax,1)
	ret

/* The handler's entry calls a stub, which returns to another address: 1, the others balance. */
	chain	return_replaced, handler_return_replaced
handler_return_replaced:
	call	stub_return_replaced
	ret
	.p2align 6
stub_return_replaced:
	movq	$body_return_replaced, (%rsp)
	ret
	.p2align 6
body_return_replaced:
	ret

/* The checks of a function's door (host/kernel/run/stubs.S), which all hold. */
	.macro checks
	testl	$0xff0100, counted(%rip)
	jnz	9f
	movq	%rsp, %rax
	xorq	remembered(%rip), %rax
	shrq	$63, %rax
	jnz	9f
	.endm

/* The same, by a stub that does what a function's door does, from its checks to its table: 1. */
	chain	function_door, handler_function_door
handler_function_door:
	call	stub_function_door
	ret
	.p2align 6
stub_function_door:
	checks
	movq	table(%rip), %rax
	addq	(%rsp), %rax
	movslq	(%rax), %rax
	testq	%rax, %rax
	jz	9f
	movq	%rax, (%rsp)
	xorl	%eax, %eax
	ret
9:	ud2
	.p2align 6
body_function_door:
	jmp	1f
	.p2align 6
1:	ret
	.p2align 6
counted:
	.long	0, 0
remembered:
	.quad	0
table:	.quad	place - (handler_function_door + 5)
place:	.long	body_function_door

/* The handler's entry jumps to a stub of its own, which has the same checks: 0. */
	chain	function_jump, handler_function_jump
handler_function_jump:
	jmp	stub_function_jump
	.p2align 6
stub_function_jump:
	checks
	jmp	body_function_jump
9:	ud2
	.p2align 6
body_function_jump:
	jmp	1f
	.p2align 6
1:	ret

/* A lookup ends in a return without a call: 7, its own and all above. */
	chain	lookup_return, handler_lookup_return
handler_lookup_return:
	lea	body_lookup_return(%rip), %rax
	push	%rax
	ret
	.p2align 6
body_lookup_return:
	ret

/* A lookup ends in a balanced retpoline: 1, its own, on purpose. */
	chain	lookup_retpoline, handler_lookup_retpoline
handler_lookup_retpoline:
	lea	body_lookup_retpoline(%rip), %rax
	call	2f
3:	pause
	lfence
	jmp	3b
2:	mov	%rax, (%rsp)
	ret
	.p2align 6
body_lookup_retpoline:
	ret

/* A lookup ends in an indirect jump: 0. */
	chain	lookup_jump, handler_lookup_jump
handler_lookup_jump:
	lea	body_lookup_jump(%rip), %rax
	jmp	*%rax
	.p2align 6
body_lookup_jump:
	ret

	.section .note.GNU-stack, "", @progbits
