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

/*
 * What `jifl probe` inserts, in the function behind its door: as above, with a body of its own. gs
 * is 0 here, so that what inserted code reads and writes by gs is at its address.
 */
	.macro behind_door name
	chain	\name, handler_\name
handler_\name:
	call	stub_\name
	ret
	.p2align 6
stub_\name:
	checks
	movq	table_\name(%rip), %rax
	addq	(%rsp), %rax
	movslq	(%rax), %rax
	testq	%rax, %rax
	jz	9f
	movq	%rax, (%rsp)
	xorl	%eax, %eax
	ret
9:	ud2
	.p2align 6
table_\name:
	.quad	place_\name - (handler_\name + 5)
place_\name:
	.long	body_\name
	.p2align 6
body_\name:
	jmp	1f
	.p2align 6
1:
	.endm

/* All registers as struct pt_regs has them, a call of a function that does nothing, and back. */
	.macro with_all_registers address, handler
	push	%rsp
	pushq	(%rsp)
	movq	$0x18, 8(%rsp)
	pushf
	push	$0x10
	push	$\address
	push	$-1
	.irp	reg, rdi, rsi, rdx, rcx, rax, r8, r9, r10, r11, rbx, rbp, r12, r13, r14, r15
	push	%\reg
	.endr
	mov	%rsp, %rsi
	movabs	$counter, %rdi
	call	\handler
	lea	0x30(%rsp), %rsp
	.irp	reg, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
	pop	%\reg
	.endr
	lea	0x18(%rsp), %rsp
	popf
	lea	0x10(%rsp), %rsp
	.endm

/* A counter: 1, as the door alone. */
	behind_door place_counter
	addq	$1, %gs:counter
	ret

/* djprobe's form, the handler of a plugin: 1. */
	behind_door place_registers
	with_all_registers handler_place_registers, nothing
	ret

/*
 * A record of 64 bytes, as engine/emit/hit.c makes it, with the three registers that it takes at
 * the place that tests/vm/test_gtod.py measures: 1. User space may not switch interrupts off, so
 * cli is not there, and popf gives back flags alone.
 */
	behind_door place_record
	push	%rax
	push	%rdx
	push	%r11
	pushf
	mov	%gs:ring + 8, %r11
	cmp	%gs:ring + 16, %r11
	ja	9f
	and	$0xfffff, %r11d
	add	%gs:ring, %r11
	mov	%rdi, 0x38(%r11)
	rdtsc
	mov	%eax, 0x8(%r11)
	mov	%edx, 0xc(%r11)
	mov	%gs:current, %rax
	mov	0x980(%rax), %rdx
	mov	%rdx, 0x18(%r11)
	mov	0xba0(%rax), %rdx
	mov	%rdx, 0x28(%r11)
	mov	0xba8(%rax), %rdx
	mov	%rdx, 0x30(%r11)
	mov	%rsp, 0x20(%r11)
	mov	%gs:current + 8, %edx
	mov	%edx, 0x14(%r11)
	movq	$0x40, (%r11)
	addq	$1, %gs:counter
	addq	$0x40, %gs:ring + 8
	popf
	pop	%r11
	pop	%rdx
	pop	%rax
	jmp	1f
9:	ud2
1:	ret

/*
 * An optimised kprobe's form, without what the kernel's callback does: the place jumps to code
 * that saves all registers, calls, and jumps back: 0.
 */
	chain	kprobe_jump, handler_kprobe_jump
handler_kprobe_jump:
	jmp	detour_kprobe_jump
back_kprobe_jump:
	ret
	.p2align 6
detour_kprobe_jump:
	with_all_registers handler_kprobe_jump, nothing
	jmp	back_kprobe_jump
	.p2align 6
nothing:
	ret

	.bss
	.p2align 6
counter:
	.skip	64
task:	.skip	4096
	.globl	form_records
form_records:
	.skip	FORM_RECORDS
	.data
	.p2align 6
ring:	.quad	form_records, 0, 0x7fffffffffffffff
current:
	.quad	task, 0
	.text

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
