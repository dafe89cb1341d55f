/* SPDX-License-Identifier: GPL-2.0 */
/* What LOADs of terms call; see ir/terms.h. Memory that can be read is terms_memory. */
	.text
	.macro load name, width, insn, to
	.globl	\name
\name:
	cmp	$terms_memory, %rax
	jb	1f
	cmp	$terms_memory + 256 - \width, %rax
	ja	1f
	\insn	(%rax), \to
	ret
1:	mov	(%rsp), %rax
	movslq	1(%rax), %rax
	lea	5(%rax), %rax
	add	%rax, (%rsp)
	mov	$0xbad, %eax
	ret
	.endm

	load	terms_load_1, 1, movzbl, %eax
	load	terms_load_2, 2, movzwl, %eax
	load	terms_load_4, 4, mov, %eax
	load	terms_load_8, 8, mov, %rax

	.globl	terms_ask
terms_ask:
	movabs	$0x123456789, %rax
	cmp	%rax, %rax
	ret

	.data
	.globl	terms_memory
	.balign	8
terms_memory:
	.set	i, 0
	.rept	256
	.byte	(i * 73 + 41) & 0xff
	.set	i, i + 1
	.endr
	.section .note.GNU-stack, "", @progbits
