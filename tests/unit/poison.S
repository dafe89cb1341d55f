/* SPDX-License-Identifier: GPL-2.0 */
/* The worst analysis routine the ABI allows; see inserts.h. */
	.text
	.globl	poison
poison:
	incq	poison_calls
	lea	8(%rsp), %rax
	test	$15, %al
	jz	1f
	incq	poison_misaligned
1:	pushf
	testb	$4, 1(%rsp)		/* DF */
	lea	8(%rsp), %rsp
	jz	1f
	incq	poison_backwards
1:	mov	$0xdead, %eax
	mov	%rax, %rcx
	not	%rcx
	lea	1(%rcx), %rdx
	lea	2(%rcx), %rsi
	lea	3(%rcx), %rdi
	lea	4(%rcx), %r8
	lea	5(%rcx), %r9
	lea	6(%rcx), %r10
	lea	7(%rcx), %r11
	push	%rcx
	push	%rcx
	push	%rcx
	lea	24(%rsp), %rsp
	incl	poison_turn
	testb	$1, poison_turn
	jz	1f
	cmp	%ecx, %ecx		/* zero, parity */
	ret
1:	mov	$0x7fffffff, %eax
	add	$0x80000001, %eax	/* carry, zero, adjust */
	stc
	mov	$0x80, %al
	sub	$1, %al			/* overflow, adjust */
	stc
	ret

	.bss
poison_turn: .long 0
	.section .note.GNU-stack, "", @progbits
